// SPDX-License-Identifier: Apache-2.0
//
// The memory through which the ranks of one communicator pass messages. Ranks
// are processes of one machine.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace fcdp::emulated {

/// Collectives are numbered from 0, in the order of the calls. Only one rank
/// writes to each member.
struct RankState {
  std::atomic<uint32_t> hasJoined, hasLeft;
  /// Number of windows that the rank has asked for.
  std::atomic<uint64_t> windows;
  /// Number of kinds of collectives that the rank has begun to connect for.
  std::atomic<uint64_t> connections;
  /// Number of collectives that the rank waits for, whose messages are written,
  /// and that have ended there.
  std::atomic<uint64_t> wanted, written, ended;
  std::atomic<uint64_t> messageBytes;
};

/// Maps the memory; thread-compatible.
class Meeting {
public:
  /// Most ranks of a communicator, and the size of the greatest message. Memory
  /// that is not written to does not exist.
  static constexpr size_t mostRanks = 16;
  static constexpr size_t messageBytes = size_t(1) << 28;

  /// Makes the memory and returns its name, by which processes of this user can
  /// map it as long as this process lives.
  static std::string make();
  explicit Meeting(const std::string &name);
  ~Meeting();
  Meeting(const Meeting &) = delete;
  Meeting &operator=(const Meeting &) = delete;

  RankState &state(size_t rank) const;
  /// Returns the memory of a rank's message, of `messageBytes`.
  std::span<std::byte> message(size_t rank) const;

private:
  std::byte *base;
};

} // namespace fcdp::emulated
