// SPDX-License-Identifier: Apache-2.0
//
// The backend's kernels, loaded from an image that is embedded in the program.
#pragma once

#include "core/Backend.h"
#include "cuda/CudaLibrary.h"
#include "cuda/QuantizeBlocks.h"
#include "cuda/SumChunks.h"

#include <array>

namespace fcdp {

/// Functions throw std::runtime_error. They enqueue on a stream of the current
/// device, which must be that of the constructor. Not copyable; thread-safe
/// after construction.
class KernelImage {
public:
  explicit KernelImage(std::shared_ptr<const CudaLibrary> cuda);
  ~KernelImage();
  KernelImage(const KernelImage &) = delete;
  KernelImage &operator=(const KernelImage &) = delete;

  /// Adds `part` to `sum`, element by element.
  void add(float *sum, const float *part, uint64_t elements,
           cudaStream_t stream) const;
  /// Sums the chunks that `arguments` describes.
  void sumChunks(const cuda::SumChunksArguments &arguments, DType inType,
                 DType outType, cudaStream_t stream) const;
  /// Rounds values of `type` for messages of `code`, Int8 or Int4.
  void quantize(const cuda::QuantizeArguments &arguments, WireCode code,
                DType type, cudaStream_t stream) const;
  /// Sums values of `inType` and of messages of `code`.
  void sumMessages(const cuda::SumMessagesArguments &arguments, WireCode code,
                   DType inType, DType outType, cudaStream_t stream) const;
  /// Sets values to 0.
  void clear(float *values, uint64_t elements, cudaStream_t stream) const;

private:
  static constexpr size_t numSummable = 4, numQuantizable = 3;
  template <typename T>
  using ByType = std::array<T, numQuantizable>;
  /// The kernels for messages of one code, by type of the values, and by type
  /// of the sum.
  struct MessageKernels {
    ByType<cudaKernel_t> quantize{};
    ByType<ByType<cudaKernel_t>> sum{};
  };

  void findAll();
  void loadAll() const;
  cudaKernel_t find(const std::string &name) const;
  void find(const std::string &code, MessageKernels &kernels) const;
  void load(const MessageKernels &kernels) const;
  const MessageKernels &kernelsOf(WireCode code) const {
    return code == WireCode::Int4 ? int4 : int8;
  }
  /// Launches at least `threads` threads, up to the device's limit.
  void launch(cudaKernel_t kernel, uint64_t threads, void **arguments,
              cudaStream_t stream) const;

  std::shared_ptr<const CudaLibrary> cuda;
  cudaLibrary_t image = nullptr;
  cudaKernel_t addKernel = nullptr, clearKernel = nullptr;
  /// Kernels by type of the chunks and of the sum: f16, bf16, f32, f64, as in
  /// DType.
  std::array<std::array<cudaKernel_t, numSummable>, numSummable> sumKernels{};
  MessageKernels int8, int4;
};

} // namespace fcdp
