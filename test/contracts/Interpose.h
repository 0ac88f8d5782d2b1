// SPDX-License-Identifier: Apache-2.0
//
// Puts functions of this library in front of those of libcudart and libnccl,
// for callers that are linked to them and for those that ask dlsym.
#pragma once

namespace fcdp::contracts {

#define FCDP_CHECKED_CALLS(X)                                                  \
  X(cudaDeviceSynchronize)                                                     \
  X(cudaEventDestroy)                                                          \
  X(cudaEventElapsedTime)                                                      \
  X(cudaEventQuery)                                                            \
  X(cudaEventRecord)                                                           \
  X(cudaEventSynchronize)                                                      \
  X(cudaFree)                                                                  \
  X(cudaFreeHost)                                                              \
  X(cudaGetDriverEntryPointByVersion)                                          \
  X(cudaGraphDestroy)                                                          \
  X(cudaGraphExecDestroy)                                                      \
  X(cudaGraphInstantiate)                                                      \
  X(cudaGraphInstantiateWithFlags)                                             \
  X(cudaGraphLaunch)                                                           \
  X(cudaHostAlloc)                                                             \
  X(cudaHostRegister)                                                          \
  X(cudaHostUnregister)                                                        \
  X(cudaLaunchKernel)                                                          \
  X(cudaMalloc)                                                                \
  X(cudaMemcpyAsync)                                                           \
  X(cudaMemset)                                                                \
  X(cudaSetDevice)                                                             \
  X(cudaStreamBeginCapture)                                                    \
  X(cudaStreamCreateWithFlags)                                                 \
  X(cudaStreamCreateWithPriority)                                              \
  X(cudaStreamDestroy)                                                         \
  X(cudaStreamEndCapture)                                                      \
  X(cudaStreamQuery)                                                           \
  X(cudaStreamSynchronize)                                                     \
  X(cudaStreamWaitEvent)                                                       \
  X(cudaThreadExchangeStreamCaptureMode)                                       \
  X(ncclAllGather)                                                             \
  X(ncclAllReduce)                                                             \
  X(ncclBroadcast)                                                             \
  X(ncclCommAbort)                                                             \
  X(ncclCommDeregister)                                                        \
  X(ncclCommDestroy)                                                           \
  X(ncclCommFinalize)                                                          \
  X(ncclCommGetAsyncError)                                                     \
  X(ncclCommInitRank)                                                          \
  X(ncclCommInitRankConfig)                                                    \
  X(ncclCommRegister)                                                          \
  X(ncclCommWindowDeregister)                                                  \
  X(ncclCommWindowRegister)                                                    \
  X(ncclGroupEnd)                                                              \
  X(ncclGroupStart)                                                            \
  X(ncclMemAlloc)                                                              \
  X(ncclMemFree)                                                               \
  X(ncclRecv)                                                                  \
  X(ncclReduceScatter)                                                         \
  X(ncclSend)

enum Entry {
#define FCDP_ENTRY(name) name##Entry,
  FCDP_CHECKED_CALLS(FCDP_ENTRY)
#undef FCDP_ENTRY
      NumEntries
};

/// Returns the library's function that this library's function replaces. Ends
/// the process if there is none.
void *next(Entry entry);
/// Returns a function of libcudart that is not checked, or null.
void *findInCudart(const char *name);

} // namespace fcdp::contracts
