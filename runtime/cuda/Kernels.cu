// SPDX-License-Identifier: Apache-2.0
//
// The kernels of the CUDA backend. They are found by name in the image that is
// built from this file. Each thread processes elements at a stride of the whole
// grid.

#include "cuda/SumChunks.h"

using namespace fcdp::cuda;

static __device__ uint64_t firstElement() {
  return uint64_t(blockIdx.x) * blockDim.x + threadIdx.x;
}

static __device__ uint64_t stride() { return uint64_t(gridDim.x) * blockDim.x; }

#define FCDP_DEFINE_SUM(name, In, Out)                                         \
  extern "C" __global__ void name(SumChunksArguments arguments) {              \
    for (uint64_t i = firstElement(); i < arguments.elements; i += stride())   \
      sumElement<In, Out>(arguments, i);                                       \
  }
FCDP_SUM_KERNELS(FCDP_DEFINE_SUM)

extern "C" __global__ void fcdp_add(float *sum, const float *part,
                                    uint64_t elements) {
  for (uint64_t i = firstElement(); i < elements; i += stride())
    sum[i] += part[i];
}
