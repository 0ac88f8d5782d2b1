// SPDX-License-Identifier: Apache-2.0
#include "operators/ArenaBases.h"

namespace fcdp {

ArenaBases findArenas(const StepPlan &plan, Backend &backend) {
  ArenaBases bases;
  auto borrow = [&](plan::Arena arena, std::byte *base) {
    bases[size_t(arena)] = {std::shared_ptr<std::byte>(), base};
  };
  borrow(plan::Arena::device, backend.deviceBase());
  if (plan.arenaBytes(plan::Arena::host) != 0)
    borrow(plan::Arena::host, backend.hostBase());
  return bases;
}

} // namespace fcdp
