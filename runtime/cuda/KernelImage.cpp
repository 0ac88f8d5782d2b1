// SPDX-License-Identifier: Apache-2.0

#include "cuda/KernelImage.h"

#include <algorithm>
#include <stdexcept>

// The image is embedded in this object; the build defines its path.
asm(R"(
  .section .rodata
  .balign 64
  .globl fcdpKernelImage
  .hidden fcdpKernelImage
fcdpKernelImage:
  .incbin ")" FCDP_KERNEL_IMAGE R"("
  .byte 0
  .previous
)");
extern "C" const unsigned char fcdpKernelImage[];

namespace fcdp {
namespace {

constexpr unsigned blockThreads = 256;
/// Sums run at the same time as the matrix kernels of the compute stream. More
/// blocks than saturate the memory bus would only take space from those
/// kernels.
constexpr uint64_t mostBlocks = 512;

static_assert(size_t(DType::F16) == 0 && size_t(DType::BF16) == 1 &&
              size_t(DType::F32) == 2 && size_t(DType::F64) == 3);

} // namespace

KernelImage::KernelImage(std::shared_ptr<const CudaLibrary> givenCuda)
    : cuda(std::move(givenCuda)) {
  cuda->check(cuda->cudaLibraryLoadData(&image, fcdpKernelImage, nullptr,
                                        nullptr, 0, nullptr, nullptr, 0),
              "loading the kernels: cudaLibraryLoadData");
  try {
    findAll();
    loadAll();
  } catch (...) {
    (void)cuda->cudaLibraryUnload(image);
    throw;
  }
}

void KernelImage::findAll() {
  addKernel = find("fcdp_add");
  for (size_t in = 0; in < numSummable; ++in)
    for (size_t out = 0; out < numSummable; ++out)
      sumKernels[in][out] = find(std::string("fcdp_sum_") + name(DType(in)) +
                                 "_" + name(DType(out)));
  for (size_t type = 0; type < numUnpacked; ++type) {
    nf4Kernels[type] =
        find(std::string("fcdp_unpack_nf4_") + name(DType(type)));
    int8Kernels[type] =
        find(std::string("fcdp_unpack_int8_") + name(DType(type)));
  }
}

/// Launches each kernel once, as `find` says.
void KernelImage::loadAll() const {
  float *nothing = nullptr;
  uint64_t elements = 0;
  void *addArguments[] = {&nothing, &nothing, &elements};
  launch(addKernel, 1, addArguments, nullptr);
  cuda::SumChunksArguments chunks{};
  void *sumArguments[] = {&chunks};
  for (const auto &ofType : sumKernels)
    for (cudaKernel_t kernel : ofType)
      launch(kernel, 1, sumArguments, nullptr);
  cuda::UnpackArguments matrix{};
  void *matrixArguments[] = {&matrix};
  for (const auto *kernels : {&nf4Kernels, &int8Kernels})
    for (cudaKernel_t kernel : *kernels)
      launch(kernel, 1, matrixArguments, nullptr);
  cuda->check(cuda->cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
}

KernelImage::~KernelImage() { (void)cuda->cudaLibraryUnload(image); }

cudaKernel_t KernelImage::find(const std::string &name) const {
  cudaKernel_t kernel = nullptr;
  cuda->check(cuda->cudaLibraryGetKernel(&kernel, image, name.c_str()),
              ("kernel " + name + ": cudaLibraryGetKernel").c_str());
  return kernel;
}

void KernelImage::launch(cudaKernel_t kernel, uint64_t threads,
                         void **arguments, cudaStream_t stream) const {
  uint64_t blocks = (threads + blockThreads - 1) / blockThreads;
  cuda->check(
      cuda->cudaLaunchKernel(reinterpret_cast<const void *>(kernel),
                             dim3(unsigned(std::min(blocks, mostBlocks)), 1, 1),
                             dim3(blockThreads, 1, 1), arguments, 0, stream),
      "cudaLaunchKernel");
}

void KernelImage::add(float *sum, const float *part, uint64_t elements,
                      cudaStream_t stream) const {
  if (elements == 0)
    return;
  void *arguments[] = {&sum, &part, &elements};
  uint64_t vectors = cuda::countVectors(sum, part, elements);
  launch(addKernel, vectors ? vectors : elements, arguments, stream);
}

void KernelImage::sumChunks(const cuda::SumChunksArguments &chunks,
                            DType inType, DType outType,
                            cudaStream_t stream) const {
  for (DType type : {inType, outType})
    if (size_t(type) >= numSummable)
      throw std::runtime_error(std::string("cannot sum elements of type ") +
                               name(type));
  if (chunks.elements == 0)
    return;
  cuda::SumChunksArguments copy = chunks;
  void *arguments[] = {&copy};
  uint64_t vectors = cuda::countVectors(chunks, byteSize(inType));
  launch(sumKernels[size_t(inType)][size_t(outType)],
         vectors ? vectors : chunks.elements, arguments, stream);
}

void KernelImage::unpack(const PackedLayout &layout, const std::byte *packed,
                         DType type, std::byte *out,
                         cudaStream_t stream) const {
  if (size_t(type) >= numUnpacked)
    throw std::runtime_error(
        std::string("cannot unpack a matrix to elements of type ") +
        name(type));
  if (layout.values == 0)
    return;
  cuda::UnpackArguments matrix{packed, out, uint64_t(layout.values),
                               uint64_t(layout.blockValues),
                               uint64_t(layout.blockBytes())};
  void *arguments[] = {&matrix};
  const auto &kernels = layout.codeBits == 4 ? nf4Kernels : int8Kernels;
  launch(kernels[size_t(type)], (matrix.values + 1) / 2, arguments, stream);
}

} // namespace fcdp
