// SPDX-License-Identifier: Apache-2.0
//
// Reads the states of a checkpoint.
#pragma once

#include "checkpoint/CheckpointIndex.h"
#include "checkpoint/RankFile.h"

#include <map>
#include <memory>

namespace fcdp {

/// A checkpoint that is read. Only the requested ranges of files are read. One
/// thread may use it. Functions throw std::runtime_error that names the file.
class CheckpointReader {
public:
  /// Reads the index. Checks the sizes of all files, and that the step is the
  /// one in the folder's name.
  explicit CheckpointReader(const std::string &folder);

  const std::string &path() const { return folder; }
  const CheckpointIndex &index() const { return contents; }

  /// Returns the state of a role under the first of `names` that exists, or
  /// null.
  const CheckpointState *find(const std::string &role,
                              const std::vector<std::string> &names) const;

  /// Copies the elements [first, first + count) of a state to `target`. If each
  /// rank or each node has its own state, it reads the state of `owner`. It
  /// compares the data that it reads with their digests.
  void read(const CheckpointState &state, uint32_t owner, int64_t first,
            int64_t count, std::byte *target);

private:
  RankFile &open(uint32_t file);

  const std::string folder;
  CheckpointIndex contents;
  /// Numbers of states by role and name.
  std::map<std::pair<std::string, std::string>, size_t> numbers;
  /// By file; null until it is first read.
  std::vector<std::unique_ptr<RankFile>> files;
};

} // namespace fcdp
