// SPDX-License-Identifier: Apache-2.0
//
// Memory on local disks for states that fit neither the device nor the host.
#pragma once

#include "core/FileDescriptor.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace fcdp {

/// Bytes in files without a name, one in each of several folders, over which
/// stripes of kStripeBytes take turns. No file outlives the process. Data
/// passes by the page cache if the file system allows it. A range is read or
/// written in parts of a stripe, on a thread for each folder after the first.
/// The parts in a folder are in flight together, by io_uring, if the kernel
/// allows it, and otherwise one after another.
///
/// Offsets are multiples of kBlockBytes. A range that ends within a block has
/// that block for itself: writing it sets the rest of the block to 0. Memory
/// need not be aligned, but is copied if it is not.
///
/// `read` and `write` may be called by several threads at once, for ranges that
/// do not overlap. They check the length of each transfer, and go on after
/// short ones. They throw std::runtime_error that names the folder, what was
/// done and the reason, such as a full or a failed disk.
class StateFile {
public:
  static constexpr uint64_t kBlockBytes = 4096;
  static constexpr uint64_t kStripeBytes = uint64_t(1) << 20;

  /// Allocates all `bytes` on the disks. Throws std::runtime_error that names
  /// the folder if it has too little space, is not there, or is in memory
  /// (tmpfs). `folders` is not empty. Without `mayUseRings` no transfers are by
  /// io_uring.
  StateFile(const std::vector<std::string> &folders, uint64_t bytes,
            bool mayUseRings = true);
  ~StateFile();
  StateFile(const StateFile &) = delete;
  StateFile &operator=(const StateFile &) = delete;

  uint64_t bytes() const { return size; }
  /// Returns whether data passes by the page cache in all folders.
  bool isDirect() const;
  /// Returns whether transfers of several parts are by io_uring.
  bool usesRings() const;

  void read(uint64_t offset, std::span<std::byte> to);
  void write(uint64_t offset, std::span<const std::byte> from);
  /// Do the same from any offset on, and leave the rest of blocks as it is.
  void readBytes(uint64_t offset, std::span<std::byte> to);
  void writeBytes(uint64_t offset, std::span<const std::byte> from);

private:
  class Folder;
  struct Range;
  void transfer(const Range &range);

  const uint64_t size;
  std::vector<std::unique_ptr<Folder>> folders;
};

} // namespace fcdp
