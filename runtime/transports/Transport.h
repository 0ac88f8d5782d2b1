// SPDX-License-Identifier: Apache-2.0
//
// Point-to-point transfers within a group. Collectives are built on them.
#pragma once

#include "core/Failure.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace fcdp {

/// A failed transfer. The text names the operation, the world ranks of this
/// rank and the peer, and the library's text.
class TransportError : public Failure {
public:
  using Failure::Failure;
};

struct Send {
  uint32_t peer; ///< rank within the group
  const std::byte *data;
  size_t bytes;
};

struct Recv {
  uint32_t peer; ///< rank within the group
  std::byte *data;
  /// The most bytes to receive. Fewer are accepted as well: the content of a
  /// message whose length only its sender knows states that length.
  size_t bytes;
};

/// A group of ranks. Threads may exchange at the same time on different
/// channels. Within a channel, one exchange runs at a time, in the same order
/// on all ranks. `abort` and the counters may be called from any thread.
class Transport {
public:
  /// `worldRanks[r]` is the world rank of the group's rank r.
  Transport(std::vector<uint32_t> worldRanks, uint32_t rank)
      : worldRanks(std::move(worldRanks)), ownRank(rank),
        sent(this->worldRanks.size()) {}
  virtual ~Transport() = default;
  Transport(const Transport &) = delete;
  Transport &operator=(const Transport &) = delete;

  uint32_t rank() const { return ownRank; }
  uint32_t size() const { return worldRanks.size(); }
  uint32_t worldRank(uint32_t peer) const { return worldRanks[peer]; }

  /// Posts all receives, then all sends, and waits for all of them. Transfers
  /// of no bytes are left out on both sides. `what` names the operation in
  /// errors. Throws TransportError, after which the group cannot be used.
  void exchange(std::span<const Send> sends, std::span<const Recv> recvs,
                const char *what, uint32_t channel = 0);

  /// Ends running exchanges with an error. Later ones fail.
  virtual void abort() noexcept = 0;

  /// Returns the bytes handed to `exchange` since the start.
  uint64_t bytesSent() const;
  /// Returns the bytes handed to `exchange` for one peer.
  uint64_t bytesSentTo(uint32_t peer) const {
    return sent[peer].load(std::memory_order_relaxed);
  }

protected:
  virtual void doExchange(std::span<const Send> sends,
                          std::span<const Recv> recvs, const char *what,
                          uint32_t channel) = 0;

  /// Throws "<what>: rank 1: receiving 64 bytes from rank 3: <text>".
  [[noreturn]] void fail(const char *what, const char *doing, size_t bytes,
                         uint32_t peer, const std::string &text,
                         FailureKind kind = FailureKind::Other) const;

private:
  const std::vector<uint32_t> worldRanks;
  const uint32_t ownRank;
  std::vector<std::atomic<uint64_t>> sent; ///< by peer
};

/// The groups over one axis. Gathers and reductions have separate groups with
/// separate connections, so that neither waits for the other. A group that the
/// plan does not use is null.
struct AxisTransports {
  Transport *gather = nullptr;
  Transport *reduce = nullptr;
};

/// A group of one rank, which exchanges nothing. Thread-safe.
class SingleTransport final : public Transport {
public:
  explicit SingleTransport(uint32_t worldRank) : Transport({worldRank}, 0) {}
  void abort() noexcept override {}

protected:
  void doExchange(std::span<const Send>, std::span<const Recv>, const char *,
                  uint32_t) override {}
};

} // namespace fcdp
