// SPDX-License-Identifier: Apache-2.0
//
// Reads the plan that an object contains.
#pragma once

#include "plan/StepPlan.h"

namespace fcdp {

/// Verifies, reads and checks the bytes of a plan. It checks everything that
/// the runtime relies on later, so that no index or range needs another check.
/// `hash` is the hash of the bytes. Throws std::runtime_error that names the
/// field.
StepPlan loadPlan(std::span<const std::byte> bytes, std::string_view hash,
                  std::span<const std::byte> constants);

} // namespace fcdp
