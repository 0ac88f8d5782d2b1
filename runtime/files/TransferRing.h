// SPDX-License-Identifier: Apache-2.0
//
// Transfers of a file that are in flight together, by io_uring.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <sys/types.h>

namespace fcdp {

/// A queue of io_uring. One thread at a time uses it.
class TransferRing {
public:
  /// One read or write. `memory`, `bytes` and `offset` are what is left of it.
  struct Transfer {
    uint64_t offset;
    std::byte *memory;
    uint64_t bytes;
    bool isWrite;
  };
  /// Takes the result of a transfer: the bytes that were moved or, if negative,
  /// an error number. Returns the bytes of it that are done. Throws if it
  /// cannot go on.
  using Check = std::function<uint64_t(const Transfer &, int64_t result)>;

  /// The most transfers in flight. More were no faster on any disk that was
  /// measured.
  static constexpr unsigned kDepth = 8;

  /// Returns null if the kernel has no io_uring or forbids it, as Docker does
  /// by default, or if the runtime was built without liburing.
  static std::unique_ptr<TransferRing> make();
  virtual ~TransferRing() = default;

  /// Runs all transfers of the file, in any order, and goes on after short
  /// ones. Throws what `check` throws, when nothing is in flight any more, and
  /// std::system_error if the kernel fails. Transfers may be in flight then, so
  /// their memory must stay until the process ends.
  virtual void run(int file, std::span<Transfer> transfers,
                   const Check &check) = 0;
};

} // namespace fcdp
