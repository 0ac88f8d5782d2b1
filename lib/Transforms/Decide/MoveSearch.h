// SPDX-License-Identifier: Apache-2.0
//
// Searches the states and the values of the forward pass that are to be in host
// memory so that a step fits its device.
#pragma once

#include "MovableStates.h"
#include "PrivateCopy.h"
#include "fcdp/Cluster/Cluster.h"
#include "fcdp/Transforms/Options/ActivationsSpec.h"
#include "fcdp/Transforms/Options/StatesSpec.h"

#include <optional>

namespace fcdp {

/// The things that may leave the device.
struct MoveChoices {
  StatesSpec states;
  ActivationsMode activations = ActivationsMode::Device;
  /// The bytes of a device that a plan may use.
  int64_t limit = 0;
};

/// A choice, and what a step needs with it.
struct Moves {
  /// By movable states, in the order of findMovableStates, whether they are in
  /// host memory.
  llvm::SmallVector<bool> states;
  /// Whether values of the forward pass may be there, as few as are needed.
  bool hasActivations = false;
  int64_t deviceBytes = 0;
  /// Seconds of a step, with all copies.
  double seconds = 0;

  int64_t countStates() const;
  /// Returns `activations in host memory`, for remarks.
  std::string describe() const;
};

/// Compares plans of a step in phase sharded, in which residencies are decided.
/// Each passes through the real passes on a copy.
class MoveSearch {
public:
  /// Times are those of `cluster`, or else of A100 GPUs.
  MoveSearch(mlir::ModuleOp module, const std::optional<Cluster> &cluster,
             const MoveChoices &choices);

  /// Returns the fastest plan that fits among: none moves, as few values of the
  /// forward pass as possible move, as few states as possible move, or hidden
  /// values and then as few states as possible. If none of them fits, returns
  /// the one that needs the fewest bytes when all may move.
  mlir::FailureOr<Moves> find();

  /// Returns what the last search compared, with nothing in host memory first.
  llvm::ArrayRef<Moves> getCompared() const { return compared; }

private:
  mlir::LogicalResult measure(Moves &moves, ActivationsMode activations);
  mlir::FailureOr<Moves> moveStates(ActivationsMode activations);
  bool fits(const Moves &moves) const {
    return moves.deviceBytes <= choices.limit;
  }

  PrivateCopy copy;
  /// The cluster that is given, and the one for times.
  std::optional<Cluster> cluster;
  Cluster times;
  const MoveChoices choices;
  llvm::SmallVector<MovableStates> movable;
  llvm::SmallVector<Moves> compared;
};

} // namespace fcdp
