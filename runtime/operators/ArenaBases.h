// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/Backend.h"
#include "plan/StepPlan.h"

#include <array>
#include <memory>

namespace fcdp {

/// The first byte of each arena, by arena; null for an arena without bytes.
using ArenaBases =
    std::array<std::shared_ptr<std::byte>, size_t(plan::Arena::MAX) + 1>;

/// Returns the bases of a step's arenas. Memory of the backend stays the
/// backend's. Throws std::runtime_error if other memory is not available.
ArenaBases findArenas(const StepPlan &plan, Backend &backend);

} // namespace fcdp
