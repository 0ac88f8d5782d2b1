// SPDX-License-Identifier: Apache-2.0
//
// Reads what the programs of nccl-tests print, of all versions since 2019. The
// format is that of nccl-tests' src/util.cu and, of older versions,
// src/common.cu.
#pragma once

#include "fcdp/Cluster/CollectiveTables.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBufferRef.h"

#include <string>
#include <vector>

namespace fcdp {

/// The programs whose results tables can have.
enum class NcclProgram { allGather, reduceScatter, allReduce };

/// Returns the program of a name as "all_gather" or "all_gather_perf".
std::optional<NcclProgram> parseNcclProgram(llvm::StringRef name);

/// The results of one run of a program.
struct NcclTest {
  NcclProgram program = NcclProgram::allGather;
  RankSet set = RankSet::world;
  /// Hosts, and ranks on each of them.
  int64_t nodes = 0, ranksPerNode = 0;
  struct Row {
    /// Of the whole, above 0.
    double bytes = 0;
    /// Bytes per second, from the time out of place.
    double busBandwidth = 0;
  };
  std::vector<Row> rows;
};

/// Parses a log, which may hold several runs and lines of other programs. A run
/// says its program in a line before it or in the name of the log, unless
/// `program` gives it. Its groups of ranks say the set: one group on one host
/// or a group for each host is `local`, one group on several hosts is `world`,
/// and groups with one rank on each host are `node`. The error reads
/// `FILE:LINE: error: ...`.
llvm::Expected<std::vector<NcclTest>>
parseNcclLog(llvm::MemoryBufferRef text, std::optional<NcclProgram> program);

} // namespace fcdp
