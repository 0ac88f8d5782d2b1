// SPDX-License-Identifier: Apache-2.0

#include "Memory.h"

namespace fcdp::contracts {

void Memory::made(MemoryKind kind, const void *base, uint64_t bytes) {
  Span span = spanOf(base, bytes, ++numBlocks);
  blocks[span.begin] = {span, kind};
}

std::optional<Span> Memory::find(const void *base) const {
  auto found = blocks.find(reinterpret_cast<uintptr_t>(base));
  return found == blocks.end() ? std::nullopt
                               : std::optional<Span>(found->second.span);
}

void Memory::removed(const void *base) {
  blocks.erase(reinterpret_cast<uintptr_t>(base));
}

void Memory::registered(Handle communicator, Handle handle, const void *base,
                        uint64_t bytes) {
  registrations.push_back({communicator, handle, spanOf(base, bytes)});
}

std::optional<Span> Memory::registration(Handle communicator,
                                         Handle handle) const {
  for (const Registration &one : registrations)
    if (one.communicator == communicator && one.handle == handle)
      return one.span;
  return std::nullopt;
}

void Memory::deregistered(Handle communicator, Handle handle) {
  std::erase_if(registrations, [&](const Registration &one) {
    return one.communicator == communicator && one.handle == handle;
  });
}

void Memory::dropRegistrations(Handle communicator) {
  std::erase_if(registrations, [&](const Registration &one) {
    return one.communicator == communicator;
  });
}

const Memory::Block *Memory::at(const void *address) const {
  auto byte = reinterpret_cast<uintptr_t>(address);
  auto after = blocks.upper_bound(byte);
  if (after == blocks.begin())
    return nullptr;
  const Block &block = std::prev(after)->second;
  return byte < block.span.end ? &block : nullptr;
}

bool Memory::isLive(const Span &span) const {
  const Block *block = at(reinterpret_cast<const void *>(span.begin));
  return block && block->span.block == span.block;
}

Span Memory::requireLive(const void *address, uint64_t bytes) {
  Span span = spanOf(address, bytes);
  const Block *block = at(address);
  if (block && block->span.contains(span)) {
    span.block = block->span.block;
    return span;
  }
  std::string found =
      block ? "an allocation of " + describe(block->span) + ", which ends " +
                  std::to_string(span.end - block->span.end) + " bytes before"
            : "memory that is pageable, freed or was never there";
  report({"ranges", "device memory or pinned host memory of " + describe(span),
          found});
  return span;
}

void Memory::requireRegistered(Handle communicator, const Span &span) {
  const Registration *own = nullptr;
  for (const Registration &one : registrations)
    if (one.communicator == communicator) {
      own = &one;
      if (one.span.contains(span))
        return;
    }
  if (own)
    report({"ranges",
            describe(span) + " within what communicator " +
                describe(communicator) + " has registered",
            "a registration of " + describe(own->span)});
}

void Memory::requireUnregistered(const Span &span) {
  for (const Registration &one : registrations)
    if (one.span.overlaps(span))
      return report(
          {"ranges",
           "no registration of " + describe(span) + " when it is freed",
           "communicator " + describe(one.communicator) + " has registered " +
               describe(one.span)});
}

void Memory::requireUnpinned(const Span &span) {
  for (const auto &[base, block] : blocks)
    if (block.kind == MemoryKind::PinnedHost && block.span.overlaps(span))
      return report({"ranges",
                     "no registered host memory in " + describe(span) +
                         " when it is unmapped",
                     describe(block.span) + " that cudaHostUnregister was not "
                                            "called for"});
}

} // namespace fcdp::contracts
