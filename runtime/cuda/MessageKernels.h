// SPDX-License-Identifier: Apache-2.0
//
// Reductions whose messages are rounded, by kernels of the backend's image.
#pragma once

#include "cuda/DeviceGroup.h"
#include "cuda/KernelImage.h"
#include "cuda/QuantizeBlocks.h"

#include <array>

namespace fcdp {

/// Functions throw std::runtime_error. They enqueue on a stream of the current
/// device, which must be that of the constructor. Thread-safe.
class MessageKernels {
public:
  /// `image` must outlive it.
  explicit MessageKernels(const KernelImage &image);

  /// Enqueues a reduction over `group` of `elements` a rank with the
  /// collective's message code, Int8 or Int4.
  void reduceScatter(const Collective &collective, DeviceGroup &group,
                     uint64_t elements, cudaStream_t stream) const;

  /// Rounds values of `type`.
  void quantize(const cuda::QuantizeArguments &arguments, WireCode code,
                DType type, cudaStream_t stream) const;
  /// Sums values of `inType` and of messages.
  void sum(const cuda::SumMessagesArguments &arguments, WireCode code,
           DType inType, DType outType, cudaStream_t stream) const;
  /// Sets values to 0.
  void clear(float *values, uint64_t elements, cudaStream_t stream) const;

private:
  static constexpr size_t numTypes = 3;
  template <typename T>
  using ByType = std::array<T, numTypes>;
  /// The kernels of a code by type of the values, and by type of the sum.
  struct OfCode {
    ByType<cudaKernel_t> quantize{};
    ByType<ByType<cudaKernel_t>> sum{};
  };

  OfCode find(const std::string &code) const;
  void load(const OfCode &kernels) const;
  const OfCode &kernelsOf(WireCode code) const {
    return code == WireCode::Int4 ? int4 : int8;
  }

  const KernelImage &image;
  const OfCode int8, int4;
  cudaKernel_t const clearKernel;
};

} // namespace fcdp
