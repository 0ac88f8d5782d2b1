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
  /// The sets of ranks whose rates were derived from all-reduces.
  std::set<RankSet> halves;
};

/// Returns the tables of some runs. The median of equal sizes counts. If a set
/// of ranks has no results for gathers and reductions, an all-reduce counts as
/// one of each, with half of its time for each. Returns an error if runs have
/// different numbers of ranks per node.
llvm::Expected<ImportedTables> tabulate(llvm::ArrayRef<NcclTest> tests);

/// Returns the key `collectives` of a description. A comment in it names
/// `source`, the origin of the rows.
std::string toYaml(const ImportedTables &imported, llvm::StringRef source);

/// Returns `description` with the tables merged into it. A row of the
/// description stays, unless a new row has the same size and nodes. Everything
/// outside of the key `collectives` stays as it is. Returns an error if the
/// description is not valid or has another number of ranks per node.
llvm::Expected<std::string> mergeTables(llvm::MemoryBufferRef description,
                                        ImportedTables imported,
                                        llvm::StringRef source);

} // namespace fcdp
