// SPDX-License-Identifier: Apache-2.0
//
// Measures fused attention on a GPU, by the kernels that a step calls there.
#pragma once

#include "core/Backend.h"
#include "probe/DeviceTimer.h"
#include "probe/ProbedCluster.h"

#include <string>

namespace fcdp::run {

enum class AttentionKernel { Flash, Cudnn, Efficient };

/// How attention is measured.
struct AttentionProbe {
  c10::Device device;
  DType type; ///< of the operands
  /// What is measured without a mask. With one it is the memory-efficient
  /// kernel.
  AttentionKernel kernel;
  /// The most bytes of an operand.
  size_t mostBytes;
};

/// Returns why the device cannot compute attention, in libtorch's words, or
/// nothing if it can.
std::string whyNoAttention(const AttentionProbe &probe);

/// Returns rates of the forward and the backward pass with a causal mask and
/// heads of 128, for growing numbers of keys, and what a mask that is given and
/// narrow heads change. Works on libtorch's current stream.
AttentionFigures measureAttention(const AttentionProbe &probe,
                                  const DeviceTimer &time, const Work &before,
                                  double gap);

} // namespace fcdp::run
