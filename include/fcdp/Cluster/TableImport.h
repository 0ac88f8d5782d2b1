// SPDX-License-Identifier: Apache-2.0
//
// Makes a description's tables of collectives from results of nccl-tests.
#pragma once

#include "fcdp/Cluster/Cluster.h"
#include "fcdp/Cluster/NcclLog.h"
#include "llvm/ADT/ArrayRef.h"

#include <set>

namespace fcdp {

struct ImportedTables {
  CollectiveTables tables;
  /// The sets of ranks whose rates are those of all-reduces.
  std::set<RankSet> halves;
};

/// Returns the tables of some runs. The median of equal sizes counts. Where a
/// set of ranks has no results of gathers and reductions, an all-reduce stands
/// for one of each, half of its time for each. Returns an error if runs have
/// different numbers of ranks a node.
llvm::Expected<ImportedTables> tabulate(llvm::ArrayRef<NcclTest> tests);

/// Returns the key `collectives` of a description. `source` says in a comment
/// where the rows are from.
std::string toYaml(const ImportedTables &imported, llvm::StringRef source);

/// Returns `description` with the tables in it. Rows that it has stay, unless a
/// new one is of the same size and nodes. Everything outside of the key
/// `collectives` stays as it is. Returns an error if the description is not
/// valid or has another number of ranks a node.
llvm::Expected<std::string> mergeTables(llvm::MemoryBufferRef description,
                                        ImportedTables imported,
                                        llvm::StringRef source);

} // namespace fcdp
