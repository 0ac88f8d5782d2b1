// SPDX-License-Identifier: Apache-2.0
//
// The cluster that a pass decides for.
#pragma once

#include "dialects/Fcdp/Fcdp.h"
#include "fcdp/Cluster/Cluster.h"

namespace fcdp {

/// Returns `described` or, if there is none, the description in the file or
/// preset `cluster` with the times in the file `profile`. The result has the
/// numbers of nodes and ranks of `mesh`. If there is no mesh yet, it has the
/// description's numbers.
llvm::Expected<Cluster> getClusterOf(MeshOp mesh,
                                     const std::optional<Cluster> &described,
                                     llvm::StringRef cluster,
                                     llvm::StringRef profile);

} // namespace fcdp
