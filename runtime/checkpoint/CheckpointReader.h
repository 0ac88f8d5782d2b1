// SPDX-License-Identifier: Apache-2.0
//
// Reads the states of a checkpoint.
#pragma once

#include "checkpoint/CheckpointIndex.h"
#include "checkpoint/RankFile.h"

#include <map>
#include <memory>

namespace fcdp {

/// Reads only the files, and of them only the ranges, that it is asked for.
/// Used by one thread. Functions throw std::runtime_error that names the file.
class CheckpointReader {
public:
  /// Reads the index, and checks that all files have their sizes and that the
  /// step is that of the folder's name.
  explicit CheckpointReader(const std::string &folder);

  const std::string &path() const { return folder; }
  const CheckpointIndex &index() const { return contents; }

  /// Returns the state of a role under the first of `names` that there is, or
  /// null.
  const CheckpointState *find(const std::string &role,
                              const std::vector<std::string> &names) const;

  /// Copies the elements [first, first + count) of a state to `target`. Of a
  /// state that belongs to ranks or to nodes it reads the one of `owner`. What
  /// it looks at is compared with its digests.
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
