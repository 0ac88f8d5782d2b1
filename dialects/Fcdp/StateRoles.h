// SPDX-License-Identifier: Apache-2.0
//
// The records of state roles (FcdpStateRoles.td).
#pragma once

#include "dialects/Fcdp/Enums.h"
#include "llvm/ADT/StringRef.h"

namespace fcdp {

enum class StateKind {
  parameters,
  optimizer, ///< a master too
  outer,     ///< of outer steps
  copy,      ///< a gathered copy
  sum,       ///< accumulated gradients
  other,
};

/// The type of a state's elements.
enum class StateType {
  storage,
  wire,
  optimizer, ///< the master's type, or `storage` without a master
  f32,
  u8,
};

/// The part of a bucket that a rank's state is for.
enum class StateScope { shard, slice, whole };

/// The numbers that a state has for a parameter: one for each element or for
/// each block of 256 elements; for a parameter of two or more dimensions the
/// means over the last one (`rowMean`) or over the one before it
/// (`columnMean`); one for each element of any other parameter
/// (`withoutMeans`); for a matrix of r x c elements r x r (`rowSquare`) or
/// c x c (`columnSquare`), unless the side is longer than `max_side` of the
/// bucket.
enum class StateShape {
  element,
  block,
  rowMean,
  columnMean,
  withoutMeans,
  rowSquare,
  columnSquare
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
