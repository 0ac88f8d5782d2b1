// SPDX-License-Identifier: Apache-2.0
//
// Counts the calls of the CUDA runtime by which a host waits for its device, or
// which may make it wait, and the kernels beside them. Loaded in front of
// libcudart (LD_PRELOAD); writes one line a name to $FCDP_CALLS.<process> when
// the process ends. It sees what libtorch calls, which is linked to libcudart,
// and not what is looked up in that library by name.
//   cc -shared -fPIC -O2 -I<CUDA>/include -o syncs.so syncs.c
#define _GNU_SOURCE
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum Counted {
  Kernels,
  StreamSynchronize,
  DeviceSynchronize,
  EventSynchronize,
  Memcpy,
  PageableCopy,
  Memset,
  Malloc,
  Free,
  HostAlloc,
  FreeHost,
  NumCounted
};

static const char *const names[NumCounted] = {
    "kernels",
    "cudaStreamSynchronize",
    "cudaDeviceSynchronize",
    "cudaEventSynchronize",
    "cudaMemcpy",
    "cudaMemcpyAsync of pageable memory",
    "cudaMemset",
    "cudaMalloc",
    "cudaFree",
    "cudaHostAlloc",
    "cudaFreeHost"};

static atomic_ulong counts[NumCounted];

static void *next(const char *name) {
  void *found = dlsym(RTLD_NEXT, name);
  if (!found) {
    fprintf(stderr, "syncs: error: there is no %s behind this library\n", name);
    abort();
  }
  return found;
}

#define COUNT(which, name, parameters, arguments)                              \
  cudaError_t CUDARTAPI name parameters {                                      \
    static cudaError_t(*real) parameters;                                      \
    if (!real)                                                                 \
      real = (cudaError_t(*) parameters)next(#name);                           \
    atomic_fetch_add_explicit(&counts[which], 1, memory_order_relaxed);        \
    return real arguments;                                                     \
  }

COUNT(StreamSynchronize, cudaStreamSynchronize, (cudaStream_t stream), (stream))
COUNT(DeviceSynchronize, cudaDeviceSynchronize, (void), ())
COUNT(EventSynchronize, cudaEventSynchronize, (cudaEvent_t event), (event))
COUNT(Memcpy, cudaMemcpy,
      (void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind),
      (to, from, bytes, kind))
COUNT(Memset, cudaMemset, (void *memory, int value, size_t bytes),
      (memory, value, bytes))
COUNT(Malloc, cudaMalloc, (void **memory, size_t bytes), (memory, bytes))
COUNT(Free, cudaFree, (void *memory), (memory))
COUNT(HostAlloc, cudaHostAlloc, (void **memory, size_t bytes, unsigned flags),
      (memory, bytes, flags))
COUNT(FreeHost, cudaFreeHost, (void *memory), (memory))
COUNT(Kernels, cudaLaunchKernel,
      (const void *kernel, dim3 grid, dim3 block, void **arguments,
       size_t shared, cudaStream_t stream),
      (kernel, grid, block, arguments, shared, stream))
COUNT(Kernels, cudaLaunchKernelExC,
      (const cudaLaunchConfig_t *config, const void *kernel, void **arguments),
      (config, kernel, arguments))
#if CUDART_VERSION >= 13000
// nvcc calls this function since CUDA 13.
COUNT(Kernels, __cudaLaunchKernel,
      (cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments,
       size_t shared, cudaStream_t stream),
      (kernel, grid, block, arguments, shared, stream))
#endif

static int isPageable(const void *memory) {
  struct cudaPointerAttributes attributes;
  return cudaPointerGetAttributes(&attributes, memory) == cudaSuccess &&
         attributes.type == cudaMemoryTypeUnregistered;
}

// Waits only if one side is pageable memory.
cudaError_t CUDARTAPI cudaMemcpyAsync(void *to, const void *from, size_t bytes,
                                      enum cudaMemcpyKind kind,
                                      cudaStream_t stream) {
  static cudaError_t (*real)(void *, const void *, size_t, enum cudaMemcpyKind,
                             cudaStream_t);
  if (!real)
    real = (cudaError_t (*)(void *, const void *, size_t, enum cudaMemcpyKind,
                            cudaStream_t))next("cudaMemcpyAsync");
  if (bytes && kind != cudaMemcpyDeviceToDevice &&
      (isPageable(to) || isPageable(from)))
    atomic_fetch_add_explicit(&counts[PageableCopy], 1, memory_order_relaxed);
  return real(to, from, bytes, kind, stream);
}

__attribute__((destructor)) static void writeCounts(void) {
  const char *path = getenv("FCDP_CALLS");
  if (!path)
    return;
  char own[4096];
  snprintf(own, sizeof(own), "%s.%ld", path, (long)getpid());
  FILE *file = fopen(own, "w");
  if (!file)
    return;
  for (int i = 0; i < NumCounted; ++i)
    fprintf(file, "%s %lu\n", names[i], atomic_load(&counts[i]));
  fclose(file);
}

// The ranks of fcdp-run end so, without destructors.
void _exit(int code) {
  writeCounts();
  syscall(SYS_exit_group, code);
  __builtin_unreachable();
}
