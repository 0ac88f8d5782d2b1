// SPDX-License-Identifier: Apache-2.0
//
// The ranks that a program of nccl-tests lists before its results.
#pragma once

#include "fcdp/Cluster/CollectiveTables.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <map>
#include <set>
#include <string>

namespace fcdp {

struct NcclGroups {
  RankSet set = RankSet::world;
  int64_t nodes = 0, ranksPerNode = 0;
};

class NcclRanks {
public:
  /// Adds the rank of a line "# Rank 0 [Group 0] Pid 1 on HOST device 0 ...",
  /// given by its words. Errors have no file and line.
  llvm::Error add(llvm::ArrayRef<llvm::StringRef> words);
  /// Returns the set of ranks that the groups form, or an error if a cluster
  /// has no such set.
  llvm::Expected<NcclGroups> getGroups() const;
  /// Returns the number of ranks in a group. Requires that `getGroups` gives no
  /// error.
  int64_t getGroupSize() const;

private:
  /// Ranks by group and host.
  std::map<int64_t, std::map<std::string, int64_t>> groups;
  std::map<std::string, int64_t> hosts;
  std::set<int64_t> numbers;
};

} // namespace fcdp
