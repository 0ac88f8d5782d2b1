// SPDX-License-Identifier: Apache-2.0
//
// Gives the caller of a step memory to read and write a state in a file.
#pragma once

#include "operators/StepState.h"

#include <optional>
#include <span>
#include <vector>

namespace fcdp {

/// The copy of one region of files. Used by the issuing thread only. Functions
/// throw std::runtime_error if a disk fails.
class RegionCopy {
public:
  explicit RegionCopy(StepState &state) : state(state) {}

  /// Returns a copy of the region, after the end of the one before.
  std::span<std::byte> of(const plan::Buf &buf) {
    if (isWritten && offset == buf.offset())
      return memory;
    end();
    memory.resize(buf.bytes());
    state.files->read(buf.offset(), memory);
    offset = buf.offset();
    return memory;
  }
  /// Writes the copy back, and frees it.
  void end() {
    if (isWritten && offset)
      state.files->write(*offset, memory);
    offset.reset();
    memory = {};
  }

  /// Whether the caller may change copies.
  bool isWritten = true;

private:
  StepState &state;
  std::optional<uint64_t> offset;
  std::vector<std::byte> memory;
};

} // namespace fcdp
