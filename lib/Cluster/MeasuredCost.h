// SPDX-License-Identifier: Apache-2.0
//
// Replaces estimates by a profile's times.
#pragma once

#include "fcdp/Cluster/Cluster.h"
#include "fcdp/Cluster/Cost.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace fcdp {

/// Returns `estimate` with a total of `seconds`. The latency stays, and the
/// rest is time of the link. The cost demands no memory bandwidth, because the
/// measured time already includes contention for memory.
Cost withTotal(Cost estimate, double seconds);

/// Returns the profile's cost of `kind` or, if it has none, `estimate(bytes)`.
Cost measure(const Cluster &cluster, llvm::StringRef kind, double bytes,
             llvm::function_ref<Cost(double)> estimate);

/// Does the same for a collective, whose kernel occupies processors. Its
/// measured times apply only to jobs of the same shape. They may be too short:
/// the rank that comes last finds data that the others have already sent into
/// the buffers of its sockets. So the link's bandwidth remains a bound, unless
/// messages are coded, whose bytes are only assumed.
Cost measureOver(const Cluster &cluster, llvm::StringRef kind,
                 llvm::StringRef axis, double bytes,
                 llvm::function_ref<Cost(double)> estimate);

} // namespace fcdp
