// SPDX-License-Identifier: Apache-2.0
//
// Loads NCCL when a job with GPUs starts. So one program runs with and without
// NCCL, and tests can substitute another library.
#pragma once

#include <memory>
#include <nccl.h>
#include <string>

namespace fcdp {

/// The entry points of NCCL that the transport uses.
#define FCDP_NCCL_ENTRY_POINTS(X)                                              \
  X(ncclAllGather)                                                             \
  X(ncclCommAbort)                                                             \
  X(ncclCommDeregister)                                                        \
  X(ncclCommDestroy)                                                           \
  X(ncclCommFinalize)                                                          \
  X(ncclCommGetAsyncError)                                                     \
  X(ncclCommInitRankConfig)                                                    \
  X(ncclCommRegister)                                                          \
  X(ncclCommWindowDeregister)                                                  \
  X(ncclCommWindowRegister)                                                    \
  X(ncclGetErrorString)                                                        \
  X(ncclGetLastError)                                                          \
  X(ncclGetUniqueId)                                                           \
  X(ncclGroupEnd)                                                              \
  X(ncclGroupStart)                                                            \
  X(ncclMemAlloc)                                                              \
  X(ncclMemFree)                                                               \
  X(ncclRecv)                                                                  \
  X(ncclReduceScatter)                                                         \
  X(ncclSend)

/// The entry points that older supported versions lack.
#define FCDP_OPTIONAL_NCCL_ENTRY_POINTS(X) X(ncclAlltoAll) // since 2.28

/// A table of entry points. Immutable once loaded. It is as thread-safe as the
/// library, which is thread-safe for different communicators.
class NcclLibrary {
public:
  /// The oldest supported version.
  static constexpr int oldestVersion = NCCL_VERSION(2, 27, 0);

  /// Loads `path` or, if it is empty, the libnccl that the dynamic linker
  /// finds. Throws std::runtime_error that names the library that was searched,
  /// the one that was found and the version that is needed.
  static std::shared_ptr<const NcclLibrary> load(const std::string &path = "");

  /// As NCCL_VERSION_CODE.
  int version = 0;

  ~NcclLibrary();
  NcclLibrary(const NcclLibrary &) = delete;
  NcclLibrary &operator=(const NcclLibrary &) = delete;

  /// Returns whether the configuration of a communicator may name copy engines
  /// (NCCL_CTA_POLICY_ZERO) and channels to a peer on another machine.
  bool has2_28() const { return ncclAlltoAll != nullptr; }

#define FCDP_DECLARE_ENTRY_POINT(name) decltype(&::name) name = nullptr;
  FCDP_NCCL_ENTRY_POINTS(FCDP_DECLARE_ENTRY_POINT)
  FCDP_OPTIONAL_NCCL_ENTRY_POINTS(FCDP_DECLARE_ENTRY_POINT)
#undef FCDP_DECLARE_ENTRY_POINT

private:
  NcclLibrary() = default;
  void resolve(const std::string &path);

  void *handle = nullptr;
};

} // namespace fcdp
