// SPDX-License-Identifier: Apache-2.0
//
// Reads the output of the programs of nccl-tests, of all versions since 2019.
// The format is that of nccl-tests' src/util.cu and, in older versions, of
// src/common.cu.
#pragma once

#include "fcdp/Cluster/CollectiveTables.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBufferRef.h"

#include <string>
#include <vector>

namespace fcdp {

/// The programs whose results can be in tables.
enum class NcclProgram { allGather, reduceScatter, allReduce };

/// Returns the program with a name such as "all_gather" or "all_gather_perf".
std::optional<NcclProgram> parseNcclProgram(llvm::StringRef name);

/// The results of one run of a program.
struct NcclTest {
  NcclProgram program = NcclProgram::allGather;
  RankSet set = RankSet::world;
  /// Hosts, and ranks on each of them.
  int64_t nodes = 0, ranksPerNode = 0;
  struct Row {
    /// Bytes of the whole, above 0.
    double bytes = 0;
    /// Bytes per second, from the out-of-place time.
    double busBandwidth = 0;
  };
  std::vector<Row> rows;
};

/// Parses a log, which may hold several runs and lines of other programs. A
/// line before a run or the name of the log names its program, unless `program`
/// gives it. The groups of ranks determine the set: one group on one host or a
/// group for each host is `local`, one group on several hosts is `world`, and
/// groups with one rank on each host are `node`. The error reads `FILE:LINE:
/// error: ...`.
llvm::Expected<std::vector<NcclTest>>
parseNcclLog(llvm::MemoryBufferRef text, std::optional<NcclProgram> program);

} // namespace fcdp
