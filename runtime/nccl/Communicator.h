// SPDX-License-Identifier: Apache-2.0
//
// Wraps a communicator of NCCL in calls that return NCCL's results.
#pragma once

#include "cuda/CudaLibrary.h"
#include "nccl/NcclLibrary.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace fcdp {

struct CommunicatorOptions {
  std::shared_ptr<const NcclLibrary> nccl;
  std::shared_ptr<const CudaLibrary> cuda;
  int device = 0;
  uint32_t ranks = 0, rank = 0;
  /// The communicator's name in NCCL's messages and traces.
  std::string name;
  /// The most thread blocks of a collective; NCCL's choice if it is not set.
  std::optional<uint32_t> mostCtas = std::nullopt;
  /// See NcclGroupOptions. Both need NCCL 2.28 and are left out otherwise.
  bool exchangesByCopyEngines = false;
  std::optional<uint32_t> channelsPerNetPeer = std::nullopt;
};

/// A communicator. A call returns after its work is in the stream, and runs on
/// the calling thread. It is blocking, because NCCL starts a thread for each
/// call on a communicator that does not block. So `join`, `destroy`, a
/// registration and the first collective of a size block until the peers take
/// part. One thread makes calls. `findError` and `abort` may be called from any
/// thread, also during a call, which `abort` ends. After `abort`, calls return
/// ncclInvalidUsage.
class Communicator {
public:
  explicit Communicator(CommunicatorOptions options)
      : options(std::move(options)), nccl(*this->options.nccl) {}
  Communicator(const Communicator &) = delete;
  Communicator &operator=(const Communicator &) = delete;

  /// Makes the device current, as the other calls require. Throws
  /// std::runtime_error.
  void useDevice() const { options.cuda->useDevice(options.device); }
  ncclResult_t join(const ncclUniqueId &id);
  /// Ends the communicator regularly. It must not be used afterwards.
  ncclResult_t destroy();

  /// Register memory. They set the handle to null if NCCL does not need one.
  ncclResult_t registerWindow(std::byte *base, size_t bytes);
  ncclResult_t registerBuffer(std::byte *base, size_t bytes);
  /// Returns whether there is a window, if `mayBeLocal` is false or the buffer
  /// is registered, too.
  bool hasWindow() const {
    return window && static_cast<const void *>(window) != buffer;
  }
  /// Returns whether NCCL may have given the handle of a buffer in place of a
  /// window, which it has done from 2.28 on if the connection has no windows.
  /// From 2.29.2 on it gives none.
  bool mayBeLocal() const {
    return window && nccl.version >= NCCL_VERSION(2, 28, 0) &&
           nccl.version < NCCL_VERSION(2, 29, 2);
  }
  bool hasBuffer() const { return buffer; }

  ncclResult_t allGather(const std::byte *in, std::byte *out, size_t bytes,
                         cudaStream_t stream);
  ncclResult_t exchangeChunks(const std::byte *in, std::byte *out, size_t bytes,
                              cudaStream_t stream);
  ncclResult_t reduceScatter(const std::byte *in, std::byte *out,
                             size_t elements, ncclDataType_t type,
                             cudaStream_t stream);

  /// Returns the result of work that has failed since its call, or none.
  std::optional<ncclResult_t> findError();
  bool isEnded() { return !live(); }
  void abort() noexcept;
  std::string textOf(ncclResult_t result) const;

private:
  /// Returns the communicator, or null if there is none or it was aborted.
  ncclComm_t live() {
    return isAborted ? nullptr : std::atomic_ref<ncclComm_t>(comm).load();
  }

  ncclResult_t sendChunks(ncclComm_t own, const std::byte *in, std::byte *out,
                          size_t bytes, cudaStream_t stream);

  const CommunicatorOptions options;
  const NcclLibrary &nccl;
  /// NCCL sets it as soon as the communicator can be aborted.
  ncclComm_t comm = nullptr;
  void *buffer = nullptr;
  ncclWindow_t window = nullptr;
  std::atomic<bool> isAborted{false};
  std::mutex ending; ///< keeps `findError` from a communicator that ends
};

} // namespace fcdp
