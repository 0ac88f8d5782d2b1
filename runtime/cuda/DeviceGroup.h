// SPDX-License-Identifier: Apache-2.0
//
// A group of ranks that exchange device memory in stream order. The collectives
// of the CUDA backend use it.
#pragma once

#include "core/Backend.h"
#include "core/Failure.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cuda_runtime_api.h>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace fcdp {

/// A failed call of the communication library. The text names the call, this
/// rank and its peers by world rank, and the library's text.
class DeviceGroupError : public Failure {
public:
  using Failure::Failure;
};

/// How a communication library uses memory that is registered with it.
struct Registration {
  enum class Kind {
    None,   ///< it copies through buffers of its own
    Buffer, ///< it may work in this memory, if the connection allows that
    Window  ///< it may work in this memory of all ranks of the group
  } kind = Kind::None;
  /// The group's name; empty for one rank.
  std::string group;
  /// The library's text, if it has refused a better kind.
  std::string problem;
};

/// Returns a sentence about the registrations for the user: "NCCL has the
/// device arena as window of node-gather, buffer of local-gather (...)". Empty
/// if no group has a name.
std::string describe(const std::vector<Registration> &registrations);

/// The collectives that a group will run, by the bytes of each message. They
/// determine how a library connects ranks.
struct WarmUp {
  std::set<uint64_t> gathers = {}, exchanges = {}, reductions = {};
};

/// A group of ranks over one axis, for gathers or for reductions. One thread
/// enqueues, in the same order on all ranks. `findError`, `abort` and the
/// counters may be called from any thread. Functions throw DeviceGroupError.
class DeviceGroup {
public:
  /// `worldRanks[r]` is the world rank of the group's rank r.
  DeviceGroup(std::vector<uint32_t> worldRanks, uint32_t rank)
      : worldRanks(std::move(worldRanks)), ownRank(rank),
        sent(this->worldRanks.size()) {}
  virtual ~DeviceGroup() = default;
  DeviceGroup(const DeviceGroup &) = delete;
  DeviceGroup &operator=(const DeviceGroup &) = delete;

  uint32_t rank() const { return ownRank; }
  uint32_t size() const { return worldRanks.size(); }
  uint32_t worldRank(uint32_t peer) const { return worldRanks[peer]; }
  /// Returns all ranks but this one: "rank 1" or "ranks 1, 3".
  std::string describePeers() const;

  /// Enqueues an all-gather of `bytes` from each rank's `in`, in the order of
  /// the group, to `out`. `in` may be this rank's part of `out`.
  void allGather(const std::byte *in, std::byte *out, size_t bytes,
                 cudaStream_t stream);
  /// Enqueues an exchange: chunk r of `in`, of `bytes`, goes to rank r, and the
  /// chunk that rank r sends becomes chunk r of `out`. Whether this rank's own
  /// chunk is copied to `out` is not defined.
  void exchangeChunks(const std::byte *in, std::byte *out, size_t bytes,
                      cudaStream_t stream);

  /// Enqueues a reduction by the library: chunk r of `in`, of `elements`,
  /// summed over the ranks, becomes rank r's `out`. The library chooses the
  /// order, and rounds to `type` (f16, bf16, f32 or f64) at each of its steps.
  void reduceScatter(const std::byte *in, std::byte *out, size_t elements,
                     DType type, cudaStream_t stream);

  /// Registers memory that collectives will use with the library, which may
  /// make them faster. All ranks of the group must call it, with equal `bytes`.
  /// The memory must outlive the group.
  virtual Registration registerMemory(std::byte *base, size_t bytes) = 0;
  /// Runs each of these collectives in `memory`, whose contents it destroys, so
  /// that no later one connects to a peer or allocates memory. If the memory is
  /// too small for one of them, a smaller one is run. All ranks of the group
  /// must call it, with equal arguments.
  virtual void connect(const WarmUp &warmUp, std::byte *memory,
                       size_t bytes) = 0;
  /// Returns the library's text for an asynchronous error, if there is one.
  virtual std::optional<std::string> findError() = 0;
  /// Aborts all enqueued work. Later calls fail.
  virtual void abort() noexcept = 0;

  /// Returns the bytes handed to the collectives for one peer since the start.
  uint64_t bytesSentTo(uint32_t peer) const {
    return sent[peer].load(std::memory_order_relaxed);
  }

protected:
  virtual void doAllGather(const std::byte *in, std::byte *out, size_t bytes,
                           cudaStream_t stream) = 0;
  virtual void doExchangeChunks(const std::byte *in, std::byte *out,
                                size_t bytes, cudaStream_t stream) = 0;

  virtual void doReduceScatter(const std::byte *in, std::byte *out,
                               size_t elements, DType type,
                               cudaStream_t stream) = 0;

private:
  void count(size_t bytes);

  const std::vector<uint32_t> worldRanks;
  const uint32_t ownRank;
  std::vector<std::atomic<uint64_t>> sent; ///< by peer
};

/// Aborts the groups concurrently, each on a thread of its own. An abort frees
/// memory of the device, for which the device's work must end, and that may be
/// work of another of these groups. Null pointers are left out. `meanwhile` is
/// called when the aborts have begun.
void abortAll(const std::vector<DeviceGroup *> &groups,
              const std::function<void()> &meanwhile = {}) noexcept;

/// The groups over one axis. Gathers and reductions have separate groups, so
/// that neither waits for the other. A group that the plan does not use is
/// null.
struct AxisDeviceGroups {
  std::unique_ptr<DeviceGroup> gather, reduce;
};

/// A group of one rank, which exchanges nothing. Thread-safe.
class SingleDeviceGroup final : public DeviceGroup {
public:
  explicit SingleDeviceGroup(uint32_t worldRank)
      : DeviceGroup({worldRank}, 0) {}
  Registration registerMemory(std::byte *, size_t) override { return {}; }
  void connect(const WarmUp &, std::byte *, size_t) override {}
  std::optional<std::string> findError() override { return std::nullopt; }
  void abort() noexcept override {}

protected:
  void doAllGather(const std::byte *, std::byte *, size_t,
                   cudaStream_t) override {}
  void doExchangeChunks(const std::byte *, std::byte *, size_t,
                        cudaStream_t) override {}
  void doReduceScatter(const std::byte *, std::byte *, size_t, DType,
                       cudaStream_t) override {}
};

} // namespace fcdp
