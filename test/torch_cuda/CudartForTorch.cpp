// SPDX-License-Identifier: Apache-2.0
//
// The functions of libcudart that libtorch calls in addition to the backend's.
// Its kernels have no code for this machine: a launch is an error of the
// device.

#include "fake/Machine.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <cuda_runtime_api.h>
#include <limits>

using namespace fcdp::fake;

namespace {

using Lock = std::unique_lock<std::recursive_mutex>;

Machine &machine() { return Machine::instance(); }

Lock enter(const char *entryPoint) {
  Lock lock(machine().mutex);
  machine().count(entryPoint);
  return lock;
}

thread_local cudaStreamCaptureMode captureMode = cudaStreamCaptureModeGlobal;

} // namespace

extern "C" {

cudaError_t cudaGetDevice(int *device) {
  *device = deviceOfThread();
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version) {
  *version = machine().runtimeVersion;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int device) {
  std::memset(properties, 0, sizeof(*properties));
  std::snprintf(properties->name, sizeof(properties->name), "fake device");
  properties->major = 9;
  properties->warpSize = 32;
  properties->multiProcessorCount = machine().multiprocessors;
  properties->maxThreadsPerBlock = 1024;
  constexpr int threads[] = {1024, 1024, 64},
                blocks[] = {std::numeric_limits<int>::max(), 65535, 65535};
  std::ranges::copy(threads, properties->maxThreadsDim);
  std::ranges::copy(blocks, properties->maxGridSize);
  properties->maxThreadsPerMultiProcessor = 2048;
  properties->regsPerBlock = properties->regsPerMultiprocessor = 65536;
  properties->sharedMemPerBlock = 48 << 10;
  properties->sharedMemPerBlockOptin = 227 << 10;
  properties->sharedMemPerMultiprocessor = 228 << 10;
  properties->totalGlobalMem =
      machine().freeDeviceBytes + machine().deviceBytes;
  properties->pciBusID = 0x10 + device;
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *attributes,
                                     const void *address) {
  Lock lock = enter("cudaPointerGetAttributes");
  std::memset(attributes, 0, sizeof(*attributes));
  attributes->type = cudaMemoryTypeUnregistered;
  if (machine().isDeviceMemory(address))
    attributes->type = cudaMemoryTypeDevice;
  else if (isPinned(address))
    attributes->type = cudaMemoryTypeHost;
  attributes->device = deviceOfThread();
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream,
                                  cudaStreamCaptureStatus *status) {
  Lock lock(machine().mutex);
  *status = isCaptured(stream) ? cudaStreamCaptureStatusActive
                               : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream,
                                     cudaStreamCaptureStatus *status,
                                     unsigned long long *id, cudaGraph_t *graph,
                                     const cudaGraphNode_t **dependencies,
                                     const cudaGraphEdgeData **edges,
                                     size_t *numDependencies) {
  // libtorch asks for these, and adds no nodes of its own to a capture.
  if (graph)
    *graph = nullptr;
  if (dependencies)
    *dependencies = nullptr;
  if (edges)
    *edges = nullptr;
  if (numDependencies)
    *numDependencies = 0;
  if (id)
    *id = 1;
  return cudaStreamIsCapturing(stream, status);
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode *mode) {
  std::swap(*mode, captureMode);
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream,
                                     unsigned) {
  return cudaEventRecord(event, stream);
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes,
                       cudaMemcpyKind kind) {
  cudaError_t error = cudaMemcpyAsync(to, from, bytes, kind, nullptr);
  return error == cudaSuccess ? cudaStreamSynchronize(nullptr) : error;
}

cudaError_t cudaMemsetAsync(void *address, int value, size_t bytes,
                            cudaStream_t stream) {
  Lock lock = enter("cudaMemsetAsync");
  put(stream, [=] {
    if (std::byte *to = machine().translate(address, bytes))
      std::memset(to, value, bytes);
    else
      machine().fail("setting memory that is not there");
    return true;
  });
  return cudaSuccess;
}

// Limits and times of kernels, which are not launched.
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes,
                                  const void *) {
  std::memset(attributes, 0, sizeof(*attributes));
  attributes->maxThreadsPerBlock = 1024;
  return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void *, cudaFuncAttribute, int) {
  return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks,
                                                                   const void *,
                                                                   int, size_t,
                                                                   unsigned) {
  *blocks = 2;
  return cudaSuccess;
}

// A program with kernels calls this when it is loaded.
void **__cudaRegisterFatBinary(void *) {
  static void *handle = nullptr;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void **) {}
void __cudaUnregisterFatBinary(void **) {}
void __cudaRegisterVar(void **, char *, char *, const char *, int, size_t, int,
                       int) {}
char __cudaInitModule(void **) { return 1; }

void __cudaRegisterFunction(void **, const char *host, char *, const char *name,
                            int, uint3 *, uint3 *, dim3 *, dim3 *, int *) {
  Lock lock(machine().mutex);
  machine().hostKernels[host] = name;
}

unsigned __cudaPushCallConfiguration(dim3, dim3, size_t, void *) { return 0; }
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *bytes,
                                       void *stream) {
  *grid = *block = dim3(1, 1, 1);
  *bytes = 0;
  *static_cast<cudaStream_t *>(stream) = nullptr;
  return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *function) {
  *kernel = static_cast<cudaKernel_t>(const_cast<void *>(function));
  return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block,
                               void **arguments, size_t bytes,
                               cudaStream_t stream) {
  return cudaLaunchKernel(kernel, grid, block, arguments, bytes, stream);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config,
                                const void *function, void **arguments) {
  return cudaLaunchKernel(function, config->gridDim, config->blockDim,
                          arguments, 0, config->stream);
}

} // extern "C"
