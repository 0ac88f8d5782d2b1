// SPDX-License-Identifier: Apache-2.0
//
// The records of state roles (FcdpStateRoles.td).
#pragma once

#include "dialects/Fcdp/Enums.h"
#include "runtime/core/StateRules.h"

#include <optional>

namespace fcdp {

enum class StateKind {
  parameters,
  optimizer, ///< a master too
  outer,     ///< of outer steps
  copy,      ///< a gathered copy
  sum,       ///< accumulated gradients
  other,
};

struct StateRoleRecord {
  unsigned index; ///< the value of the role
  StateKind kind;
  StateType type;
  StateScope scope;
  StateShape shape;
  /// None for a copy in a tier, which has the arena.
  std::optional<Arena> arena;
  /// Whether the plan lists the state.
  bool isInPlan;
  /// Whether the state belongs to gradients. All others belong to parameters,
  /// copies of them, or their updates.
  bool isOfGradients;
};

const StateRoleRecord &getRecord(StateRole role);

} // namespace fcdp
