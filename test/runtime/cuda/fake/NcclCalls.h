// SPDX-License-Identifier: Apache-2.0
//
// The part that the fake NCCLs share: their entry points, and the rules of
// NCCL's manual and source for the two kinds of communicators.
//
// A communicator that blocks has a call return when its work is in the stream.
// Calls in which ranks meet wait for them. Another communicator's call is in
// progress until ncclCommGetAsyncError reports success, and NCCL starts a
// thread for it ("threads of NCCL" counts these).
#pragma once

#include "Machine.h"

#include <cstddef>
#include <nccl.h>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace fcdp::fake {

struct Transfer {
  int peer;
  const std::byte *from;
  std::byte *to;
  size_t bytes;
};

/// One rank's part of a collective.
struct Part {
  bool isAllGather = false;
  Transfer gather{};
  /// A sum of f32 over the ranks, of so many bytes a rank.
  std::optional<Transfer> reduction;
  std::vector<Transfer> sends, recvs;
  /// Whether copy engines make the transfers. No abort ends them.
  bool isByCopyEngines = false;
};

/// Locks the machine and counts the call.
using Lock = std::unique_lock<std::recursive_mutex>;
Lock enter(const char *entryPoint);

/// Each library has these.
int ncclVersion();
ncclUniqueId makeId();
/// Locked. Returns null if the arguments are wrong.
ncclComm_t makeCommunicator(const ncclUniqueId &id, int ranks, int rank,
                            const ncclConfig_t &config);
/// Not locked. Called when a communicator has ended.
void ended();

/// Counts a thread that NCCL would start.
void countThread();

} // namespace fcdp::fake

/// Never deleted, because commands of streams refer to it. Members are guarded
/// by the machine's lock, and functions are called with it.
struct ncclComm {
  ncclComm(size_t ranks, const ncclConfig_t &config)
      : ranks(ranks), isBlocking(config.blocking != 0),
        hasCopyEngines(config.CTAPolicy == NCCL_CTA_POLICY_ZERO) {}
  virtual ~ncclComm() = default;

  /// Returns ncclInProgress while it waits for other ranks to join, to connect,
  /// to leave or to make a window, and their errors.
  virtual ncclResult_t progress() = 0;
  /// Returns whether a call has to wait, as if what NCCL keeps of calls were
  /// full.
  virtual bool isFull() const { return false; }
  /// Says whether a collective can be called now. Connects ranks for it.
  virtual ncclResult_t prepare(cudaStream_t stream,
                               const fcdp::fake::Part &part) = 0;
  virtual void put(cudaStream_t stream, fcdp::fake::Part part) = 0;
  virtual ncclResult_t registerBuffer(void *address, size_t bytes,
                                      void **handle) = 0;
  virtual ncclResult_t deregisterBuffer() = 0;
  /// Begins to make a window; `progress` ends it.
  virtual ncclResult_t registerWindow(void *address, size_t bytes,
                                      ncclWindow_t *window, int flags) = 0;
  virtual ncclResult_t deregisterWindow() = 0;
  virtual bool hasWindow() const = 0;
  /// Has no more collectives; `progress` then waits for ranks that still have.
  virtual void leave() = 0;
  /// Frees what it has.
  virtual void release() = 0;
  /// Returns whether a collective of another communicator runs on its device.
  /// An abort waits for its end, because it frees memory of the device.
  virtual bool waitsForDevice() const { return false; }

  const size_t ranks;
  const bool isBlocking, hasCopyEngines;
  /// Neither destroyed nor aborted.
  bool isLive = true;
  bool isAborted = false;
  /// Parts that were called but are not in a stream yet.
  std::vector<std::pair<cudaStream_t, fcdp::fake::Part>> pending;
};
