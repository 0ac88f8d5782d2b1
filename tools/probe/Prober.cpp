// SPDX-License-Identifier: Apache-2.0
#include "probe/Prober.h"

#include "session/OverRanks.h"

namespace fcdp::probe {

Prober::~Prober() = default;

void Prober::finish() {
  backend->synchronize();
  if (backend->failed())
    throw TransportError(backend->failure());
}

double Prober::mean(double own) {
  return secondsOverRanks(job.mesh(), std::nullopt,
                          job.gather({&own, 1}, "exchange of the probe"));
}

} // namespace fcdp::probe
