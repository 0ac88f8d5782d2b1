// SPDX-License-Identifier: Apache-2.0
//
// Loads the CUDA runtime library when a backend is made. So one program runs
// with and without CUDA, and tests can substitute another library.
#pragma once

#include <cstdint>
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <memory>
#include <string>
#include <type_traits>

namespace fcdp {

/// The entry points of libcudart that the backend uses.
#define FCDP_CUDA_ENTRY_POINTS(X)                                              \
  X(cudaDeviceCanAccessPeer)                                                   \
  X(cudaDeviceGetAttribute)                                                    \
  X(cudaDeviceGetPCIBusId)                                                     \
  X(cudaDeviceGetStreamPriorityRange)                                          \
  X(cudaEventCreateWithFlags)                                                  \
  X(cudaEventDestroy)                                                          \
  X(cudaEventElapsedTime)                                                      \
  X(cudaEventQuery)                                                            \
  X(cudaEventRecord)                                                           \
  X(cudaFree)                                                                  \
  X(cudaFreeHost)                                                              \
  X(cudaGetDeviceCount)                                                        \
  X(cudaGetDriverEntryPointByVersion)                                          \
  X(cudaGetErrorName)                                                          \
  X(cudaGetErrorString)                                                        \
  X(cudaGetLastError)                                                          \
  X(cudaGraphDestroy)                                                          \
  X(cudaGraphExecDestroy)                                                      \
  X(cudaGraphInstantiateWithFlags)                                             \
  X(cudaGraphLaunch)                                                           \
  X(cudaGraphUpload)                                                           \
  X(cudaHostRegister)                                                          \
  X(cudaHostUnregister)                                                        \
  X(cudaLibraryGetKernel)                                                      \
  X(cudaLibraryLoadData)                                                       \
  X(cudaLibraryUnload)                                                         \
  X(cudaMemGetInfo)                                                            \
  X(cudaMemcpyAsync)                                                           \
  X(cudaMemset)                                                                \
  X(cudaSetDevice)                                                             \
  X(cudaStreamBeginCapture)                                                    \
  X(cudaStreamCreateWithPriority)                                              \
  X(cudaStreamDestroy)                                                         \
  X(cudaStreamEndCapture)                                                      \
  X(cudaStreamQuery)                                                           \
  X(cudaStreamSynchronize)                                                     \
  X(cudaStreamWaitEvent)
/// Entry points that cuda_runtime.h overloads, with the overload that is used.
#define FCDP_CUDA_OVERLOADED_ENTRY_POINTS(X)                                   \
  X(cudaHostAlloc, cudaError_t (*)(void **, size_t, unsigned))                 \
  X(cudaLaunchKernel,                                                          \
    cudaError_t (*)(const void *, dim3, dim3, void **, size_t, cudaStream_t))  \
  X(cudaMalloc, cudaError_t (*)(void **, size_t))

/// A table of entry points. Immutable once loaded. It is as thread-safe as the
/// library, which is thread-safe.
class CudaLibrary {
public:
  /// The oldest CUDA runtime that loads kernels from memory (cudaLibrary...).
  static constexpr int oldestVersion = 12080;

  /// Loads `path` or, if it is empty, the libcudart that the dynamic linker
  /// finds: one that the process has already loaded, or one on its search path.
  /// Throws std::runtime_error that names the library that was searched, the
  /// one that was found and the version that is needed.
  static std::shared_ptr<const CudaLibrary> load(const std::string &path = "");

  ~CudaLibrary();
  CudaLibrary(const CudaLibrary &) = delete;
  CudaLibrary &operator=(const CudaLibrary &) = delete;

#define FCDP_DECLARE_ENTRY_POINT(name) decltype(&::name) name = nullptr;
  FCDP_CUDA_ENTRY_POINTS(FCDP_DECLARE_ENTRY_POINT)
#undef FCDP_DECLARE_ENTRY_POINT
#define FCDP_DECLARE_ENTRY_POINT(name, type)                                   \
  std::type_identity_t<type> name = nullptr;
  FCDP_CUDA_OVERLOADED_ENTRY_POINTS(FCDP_DECLARE_ENTRY_POINT)
#undef FCDP_DECLARE_ENTRY_POINT
  /// Functions of the driver, obtained through libcudart. The first writes a
  /// number when the stream reaches it. With the second the stream waits for
  /// one.
  using ValueFunction = CUresult(CUDAAPI *)(CUstream, CUdeviceptr, cuuint32_t,
                                            unsigned);
  ValueFunction cuStreamWriteValue32 = nullptr;
  ValueFunction cuStreamWaitValue32 = nullptr;

  /// Throws Failure "<call>: <the library's text> (<its name>)" unless `result`
  /// is cudaSuccess.
  void check(cudaError_t result, const char *call) const;
  /// Does the same for a function of the driver, "<call>: error <number>".
  void check(CUresult result, const char *call) const;

  /// Returns whether a query found all work done. Throws like `check` for other
  /// results than cudaSuccess and cudaErrorNotReady. It clears
  /// cudaErrorNotReady, because libtorch's check of its next launch on this
  /// thread would otherwise find and throw it.
  bool isReady(cudaError_t result, const char *call) const;

  /// The memory of the current device, in bytes, over all processes. `used`
  /// includes contexts and the memory that libraries have reserved.
  struct Memory {
    uint64_t used, total;
  };
  Memory memory() const;

  /// Makes the device current for the calling thread. Throws std::runtime_error
  /// if there is no such device.
  void useDevice(int device) const;

private:
  CudaLibrary() = default;
  void resolve(const std::string &path);
  void resolveDriver();
  ValueFunction resolveDriver(const char *name) const;

  void *handle = nullptr;
};

} // namespace fcdp
