// SPDX-License-Identifier: Apache-2.0
//
// Gathers and reductions over a transport. Reductions are an all-to-all and a
// local sum: a reduce-scatter of Gloo's moves twice the bytes.
#pragma once

#include "collectives/Transport.h"
#include "core/Backend.h"

namespace fcdp {

/// Lists that a collective fills anew; kept by the caller, one per thread, so
/// that the steady state allocates nothing.
struct CollectiveScratch {
  std::vector<Send> sends;
  std::vector<Recv> recvs;
  std::vector<const std::byte *> chunks;

  void reserve(size_t ranks);
};

/// `Collective` says what they do. Throw TransportError, or std::runtime_error
/// for misuse. Of a reduction over the world `locals` is the ranks of a node:
/// theirs are summed first.
void allGather(Transport &transport, const Collective &collective,
               CollectiveScratch &scratch);
void reduceScatter(Transport &transport, const Collective &collective,
                   CollectiveScratch &scratch, size_t locals = 1);

/// Gives all[r] the number of rank r; without a transport there is one rank.
void exchangeNumbers(Transport *transport, double own, std::span<double> all,
                     CollectiveScratch &scratch, const char *what);

/// All ranks' values, in rank order: transport.size() * values.size() of them.
std::vector<double> gatherValues(Transport &transport,
                                 std::span<const double> values,
                                 const char *what);

/// Returns once all ranks of the group have called it.
void barrier(Transport &transport, const char *what);

} // namespace fcdp
