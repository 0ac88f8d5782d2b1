// SPDX-License-Identifier: Apache-2.0
//
// The rule of ranges: calls that do not wait use live device memory and pinned
// host memory only, collectives use what their communicator has registered, and
// a registration ends before its memory is freed.
#pragma once

#include "Report.h"

#include <map>
#include <optional>
#include <vector>

namespace fcdp::contracts {

enum class MemoryKind { Device, PinnedHost };

/// The memory of a process and its registrations. Thread-compatible.
class Memory {
public:
  explicit Memory(Report report) : report(std::move(report)) {}

  void made(MemoryKind kind, const void *base, uint64_t bytes);
  /// Returns the memory that begins there.
  std::optional<Span> find(const void *base) const;
  void removed(const void *base);

  void registered(Handle communicator, Handle registration, const void *base,
                  uint64_t bytes);
  std::optional<Span> registration(Handle communicator,
                                   Handle registration) const;
  void deregistered(Handle communicator, Handle registration);
  void dropRegistrations(Handle communicator);

  /// Returns whether an allocation has the first byte.
  bool isKnown(const void *address) const { return at(address); }
  /// Returns whether the number is that of memory that is still there.
  bool isLive(const Span &span) const;
  /// Checks that an allocation has all these bytes, and returns them.
  Span requireLive(const void *address, uint64_t bytes);
  /// Checks that the memory is registered with the communicator, if that has
  /// any registration.
  void requireRegistered(Handle communicator, const Span &span);
  void requireUnregistered(const Span &span);
  /// Checks that no pinned host memory is in there.
  void requireUnpinned(const Span &span);

private:
  struct Block {
    Span span;
    MemoryKind kind;
  };
  struct Registration {
    Handle communicator, handle;
    Span span;
  };
  const Block *at(const void *address) const;

  Report report;
  std::map<uintptr_t, Block> blocks;
  std::vector<Registration> registrations;
  uint64_t numBlocks = 0;
};

} // namespace fcdp::contracts
