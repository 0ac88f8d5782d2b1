// SPDX-License-Identifier: Apache-2.0
//
// The CUDA runtime library, loaded when a backend is made: the same program
// runs where there is none, and tests put another in its place.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <memory>
#include <string>
#include <type_traits>

namespace fcdp {

/// The entry points of libcudart that the backend calls.
#define FCDP_CUDA_ENTRY_POINTS(X)                                              \
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
/// Those that cuda_runtime.h overloads, with the types that are meant.
#define FCDP_CUDA_OVERLOADED_ENTRY_POINTS(X)                                   \
  X(cudaHostAlloc, cudaError_t (*)(void **, size_t, unsigned))                 \
  X(cudaLaunchKernel,                                                          \
    cudaError_t (*)(const void *, dim3, dim3, void **, size_t, cudaStream_t))  \
  X(cudaMalloc, cudaError_t (*)(void **, size_t))

/// A table of entry points. Immutable once loaded; as thread-safe as the
/// library, which is.
class CudaLibrary {
public:
  /// The oldest CUDA runtime that loads kernels from memory (cudaLibrary...).
  static constexpr int oldestVersion = 12080;

  /// Loads `path`, or, if it is empty, the libcudart that the dynamic linker
  /// finds (one that the process has loaded already, or on its search path).
  /// Throws std::runtime_error that says what was looked for, what was found
  /// and what is needed.
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
  /// Of the driver, asked for through libcudart: marks how far a stream is.
  CUresult(CUDAAPI *cuStreamWriteValue32)(CUstream, CUdeviceptr, cuuint32_t,
                                          unsigned) = nullptr;

  /// Throws std::runtime_error "<call>: <the library's text> (<its name>)"
  /// unless `result` is cudaSuccess.
  void check(cudaError_t result, const char *call) const;

  /// Throws std::runtime_error unless there is a device of that number; makes
  /// it the calling thread's.
  void useDevice(int device) const;

private:
  CudaLibrary() = default;
  void resolve(const std::string &path);
  void resolveDriver();

  void *handle = nullptr;
};

} // namespace fcdp
