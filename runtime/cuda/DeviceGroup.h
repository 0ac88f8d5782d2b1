// SPDX-License-Identifier: Apache-2.0
//
// What the CUDA backend's collectives are built on: a group of ranks that
// exchange device memory in stream order.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cuda_runtime_api.h>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace fcdp {

/// A failed call of the library below. The text names the call, the own and
/// the peers' world ranks, and what the library said.
class DeviceGroupError : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

/// One group of ranks, in one direction over one axis. One thread enqueues, in
/// the same order on all ranks; `findError`, `abort` and the counters may be
/// called from any thread. Functions throw DeviceGroupError.
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
  /// "rank 1", "ranks 1, 3": all but this one.
  std::string describePeers() const;

  /// Enqueues: all ranks' `bytes` at `in`, in the order of the group, to `out`.
  /// `in` may be where this rank's lie in `out`.
  void allGather(const std::byte *in, std::byte *out, size_t bytes,
                 cudaStream_t stream);
  /// Enqueues: chunk r of `in`, each of `bytes`, to rank r; what rank r sends
  /// here becomes chunk r of `out`. The own chunk is left out.
  void exchangeChunks(const std::byte *in, std::byte *out, size_t bytes,
                      cudaStream_t stream);

  /// Tells the library of memory that collectives will use, where that makes
  /// them faster. The memory must outlive the group.
  virtual void registerMemory(std::byte *base, size_t bytes) = 0;
  /// What has gone wrong since, if anything: the library's text.
  virtual std::optional<std::string> findError() = 0;
  /// Ends what is enqueued, and fails later calls.
  virtual void abort() noexcept = 0;

  /// Bytes handed to the collectives for one peer since the start.
  uint64_t bytesSentTo(uint32_t peer) const {
    return sent[peer].load(std::memory_order_relaxed);
  }

protected:
  virtual void doAllGather(const std::byte *in, std::byte *out, size_t bytes,
                           cudaStream_t stream) = 0;
  virtual void doExchangeChunks(const std::byte *in, std::byte *out,
                                size_t bytes, cudaStream_t stream) = 0;

private:
  void count(size_t bytes);

  const std::vector<uint32_t> worldRanks;
  const uint32_t ownRank;
  std::vector<std::atomic<uint64_t>> sent; ///< by peer
};

/// The groups over one axis: gathers and reductions have one each, so that
/// neither waits for the other. One that a plan does not use is null.
struct AxisDeviceGroups {
  std::unique_ptr<DeviceGroup> gather, reduce;
};

/// A group of one rank: there is nobody to exchange with. Thread-safe.
class SingleDeviceGroup final : public DeviceGroup {
public:
  explicit SingleDeviceGroup(uint32_t worldRank)
      : DeviceGroup({worldRank}, 0) {}
  void registerMemory(std::byte *, size_t) override {}
  std::optional<std::string> findError() override { return std::nullopt; }
  void abort() noexcept override {}

protected:
  void doAllGather(const std::byte *, std::byte *, size_t,
                   cudaStream_t) override {}
  void doExchangeChunks(const std::byte *, std::byte *, size_t,
                        cudaStream_t) override {}
};

} // namespace fcdp
