// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/Backend.h"
#include "files/StateFile.h"
#include "plan/StepPlan.h"

#include <array>
#include <memory>

namespace fcdp {

/// The first byte of each arena, by arena; null for an arena without bytes and
/// for files.
using ArenaBases =
    std::array<std::shared_ptr<std::byte>, size_t(plan::Arena::MAX) + 1>;

/// Returns the bases of a step's arenas. They own no memory: both arenas are
/// the backend's. An arena with memory of its own would be owned here.
ArenaBases findArenas(const StepPlan &plan, Backend &backend);

/// Allocates the file arena of a step in `folders`. Returns null if it is
/// empty. Throws std::runtime_error if there is no folder, or no space in one.
std::shared_ptr<StateFile> makeFiles(const StepPlan &plan,
                                     const std::vector<std::string> &folders);

} // namespace fcdp
