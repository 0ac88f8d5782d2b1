// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace fcdp {

struct CheckpointOptions {
  /// The folder of the run, shared by all nodes. It is made if it is missing.
  std::string folder;
  /// Keep this many checkpoints, the latest ones. None: all.
  std::optional<uint32_t> keep = std::nullopt;
};

/// A checkpoint that is complete.
struct SavedCheckpoint {
  std::string path;
  int64_t step = 0;
  /// The time that training waited: for the last save, and for the copy.
  double exposedSeconds = 0;
  /// The time from then until the checkpoint was complete.
  double writeSeconds = 0;
  /// The size of all files of ranks.
  uint64_t bytes = 0;
  /// Why an older checkpoint was not removed, or "". The next save tries again.
  std::string notRemoved;
};

/// The parameters whose masters only the checkpoint or only the step has.
struct MasterChanges {
  /// Their masters start from the parameters' values.
  size_t started = 0;
  /// They have the values of the parameters, the masters' rounding.
  size_t dropped = 0;
};

/// What became of the residuals of reductions in 8 or 4 bits.
struct ResidualChanges {
  /// The parameters that the checkpoint has none of: they begin as zeros.
  size_t started = 0;
  /// The parameters that the step has none of: theirs are lost.
  size_t dropped = 0;
  /// Other nodes than those that saved them have them now, or other parts.
  bool areMoved = false;
};

/// What became of the states of outer steps.
struct OuterChanges {
  /// The checkpoint has none: all nodes begin with its parameters.
  bool started = false;
  /// The step has none: what they add to the parameters is lost.
  bool dropped = false;
  /// Other nodes than the saved ones, or one job, go on from the outer
  /// parameters: what saved nodes have changed since is lost.
  bool areJoined = false;
};

struct StateChanges {
  MasterChanges masters = {};
  ResidualChanges residuals = {};
  OuterChanges outer = {};
};

/// A checkpoint that states were loaded from.
struct LoadedCheckpoint {
  std::string path;
  /// Optimizer steps done when it was saved.
  int64_t step = 0;
  /// The settings that its program gave, a JSON object.
  std::string job;
  StateChanges changes = {};
  /// It has digests, with which what was read was compared. Those that older
  /// releases saved have none.
  bool isVerified = true;
};

} // namespace fcdp
