// SPDX-License-Identifier: Apache-2.0
//
// The kernels of the CUDA backend. They are found by name in the image that is
// built from this file. The threads of the whole grid share the work.

#include "cuda/QuantizeBlocks.h"
#include "cuda/SumChunks.h"
#include "cuda/UnpackBlocks.h"

using namespace fcdp::cuda;

static __device__ uint64_t thisThread() {
  return uint64_t(blockIdx.x) * blockDim.x + threadIdx.x;
}

static __device__ uint64_t numThreads() {
  return uint64_t(gridDim.x) * blockDim.x;
}

#define FCDP_DEFINE_SUM(name, In, Out)                                         \
  extern "C" __global__ void name(SumChunksArguments arguments) {              \
    sumChunks<In, Out>(arguments, thisThread(), numThreads());                 \
  }
FCDP_SUM_KERNELS(FCDP_DEFINE_SUM)

extern "C" __global__ void fcdp_add(float *sum, const float *part,
                                    uint64_t elements) {
  addInPlace(sum, part, elements, thisThread(), numThreads());
}

#define FCDP_DEFINE_QUANTIZE(name, In, Block)                                  \
  extern "C" __global__ void name(QuantizeArguments arguments) {               \
    quantizeParts<In, Block>(arguments, thisThread() / kLanes,                 \
                             numThreads() / kLanes);                           \
  }
FCDP_QUANTIZE_KERNELS(FCDP_DEFINE_QUANTIZE)

#define FCDP_DEFINE_SUM_MESSAGES(name, In, Out, Block)                         \
  extern "C" __global__ void name(SumMessagesArguments arguments) {            \
    sumMessages<In, Out, Block>(arguments, thisThread() / kLanes,              \
                                numThreads() / kLanes);                        \
  }
FCDP_SUM_MESSAGES_KERNELS(FCDP_DEFINE_SUM_MESSAGES)

#define FCDP_DEFINE_UNPACK(name, Codes, Out)                                   \
  extern "C" __global__ void name(UnpackArguments arguments) {                 \
    unpackValues<Codes, Out>(arguments, thisThread(), numThreads());           \
  }
FCDP_UNPACK_KERNELS(FCDP_DEFINE_UNPACK)

extern "C" __global__ void fcdp_clear(float *values, uint64_t elements) {
  for (uint64_t i = thisThread(); i < elements; i += numThreads())
    values[i] = 0;
}
