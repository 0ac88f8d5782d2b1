// SPDX-License-Identifier: Apache-2.0
//
// The backend's kernels, loaded from an image that is embedded in the program.
#pragma once

#include "core/Backend.h"
#include "cuda/CudaLibrary.h"
#include "cuda/SumChunks.h"
#include "cuda/UnpackBlocks.h"

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

  /// Unpacks a matrix of `layout` to `out`, of f16, bf16 or f32.
  void unpack(const PackedLayout &layout, const std::byte *packed, DType type,
              std::byte *out, cudaStream_t stream) const;

  /// Returns another kernel of the image. It must be launched once before a
  /// step, on no data: CUDA loads a kernel at its first launch, which allocates
  /// and may wait for the whole device. In a step that could block a collective
  /// whose peers wait for this rank.
  cudaKernel_t find(const std::string &name) const;
  /// Launches at least `threads` threads, up to the device's limit.
  void launch(cudaKernel_t kernel, uint64_t threads, void **arguments,
              cudaStream_t stream) const;

private:
  static constexpr size_t numSummable = 4, numUnpacked = 3;

  void findAll();
  void loadAll() const;

  std::shared_ptr<const CudaLibrary> cuda;
  cudaLibrary_t image = nullptr;
  cudaKernel_t addKernel = nullptr;
  /// Kernels by type of the chunks and of the sum: f16, bf16, f32, f64, as in
  /// DType.
  std::array<std::array<cudaKernel_t, numSummable>, numSummable> sumKernels{};
  /// Kernels for NF4 and int8 by type of the matrix: f16, bf16, f32.
  std::array<cudaKernel_t, numUnpacked> nf4Kernels{}, int8Kernels{};
};

} // namespace fcdp
