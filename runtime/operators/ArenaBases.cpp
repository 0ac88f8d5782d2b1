// SPDX-License-Identifier: Apache-2.0
#include "operators/ArenaBases.h"

#include "core/StateRules.h"

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

std::shared_ptr<StateFile> makeFiles(const StepPlan &plan,
                                     const std::vector<std::string> &folders) {
  static_assert(StateFile::kBlockBytes == kFileBlock);
  const uint64_t bytes = plan.arenaBytes(plan::Arena::file);
  if (bytes == 0)
    return nullptr;
  if (folders.empty())
    throw std::runtime_error(
        "the step has " + std::to_string(bytes) +
        " bytes of states in files on each rank: expected folders on local "
        "disks for them, as by --state-path=DIR[,DIR], got none");
  return std::make_shared<StateFile>(folders, bytes);
}

} // namespace fcdp
