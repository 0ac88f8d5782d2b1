// SPDX-License-Identifier: Apache-2.0
//
// Gathers and reductions over a transport. A reduction is an all-to-all
// followed by a local sum, because Gloo's reduce-scatter moves twice as many
// bytes.
#pragma once

#include "codec/WireCodec.h"
#include "core/Backend.h"
#include "transports/Transport.h"

namespace fcdp {

/// Lists that each collective fills again. The caller keeps one object per
/// thread, so that the steady state does not allocate.
struct CollectiveScratch {
  std::vector<Send> sends;
  std::vector<Recv> recvs;
  std::vector<const std::byte *> chunks;
  /// The codec of messages.
  WireCodec codec;

  void reserve(size_t ranks);
  /// Allocates what collectives with messages need.
  void reserveMessages() { codec.reserve(); }
};

/// Run the collective that `Collective` describes. Throw TransportError, also
/// if a coded message cannot be decoded, or std::runtime_error for misuse. For
/// a reduction over the world, `locals` is the number of ranks per node, whose
/// chunks are summed first.
void allGather(Transport &transport, const Collective &collective,
               CollectiveScratch &scratch);
void reduceScatter(Transport &transport, const Collective &collective,
                   CollectiveScratch &scratch, size_t locals = 1);

/// Sets all[r] to the value `own` of rank r. Without a transport there is one
/// rank.
void exchangeNumbers(Transport *transport, double own, std::span<double> all,
                     CollectiveScratch &scratch, const char *what);

/// Returns the values of all ranks in rank order: transport.size() *
/// values.size() of them.
std::vector<double> gatherValues(Transport &transport,
                                 std::span<const double> values,
                                 const char *what);

/// Returns once all ranks of the group have called it.
void barrier(Transport &transport, const char *what);

} // namespace fcdp
