// SPDX-License-Identifier: Apache-2.0
//
// Measures fused attention on a GPU, with the kernels that a step uses there.
#pragma once

#include "core/Backend.h"
#include "probe/DeviceTimer.h"
#include "probe/ProbedCluster.h"

#include <string>

namespace fcdp::probe {

enum class AttentionKernel { Flash, Cudnn, Efficient };

/// The settings of the measurement.
struct AttentionProbe {
  c10::Device device;
  DType type; ///< of the operands
  /// The kernel to measure without a mask. With a mask it is the
  /// memory-efficient kernel.
  AttentionKernel kernel;
  /// The most bytes of an operand.
  size_t mostBytes;
};

/// Returns the reason why the device cannot compute attention, in libtorch's
/// words, or an empty string if it can.
std::string whyNoAttention(const AttentionProbe &probe);

/// Returns the rates of the forward and the backward pass with a causal mask
/// and heads of 128 elements, for growing numbers of keys, and the factors for
/// a mask that is given and for narrow heads. Works on libtorch's current
/// stream.
AttentionFigures measureAttention(const AttentionProbe &probe,
                                  const DeviceTimer &time, const Work &before,
                                  double gap);

} // namespace fcdp::probe
