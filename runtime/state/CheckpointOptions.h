// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace fcdp {

struct CheckpointOptions {
  /// The folder of the run, shared by all nodes. It is created if it does not
  /// exist.
  std::string folder;
  /// The number of latest checkpoints to keep; none for all.
  std::optional<uint32_t> keep = std::nullopt;
};

/// A checkpoint that is complete.
struct SavedCheckpoint {
  std::string path;
  int64_t step = 0;
  /// Seconds that training waited: for the last save, and for the copy.
  double exposedSeconds = 0;
  /// Seconds from then until the checkpoint was complete.
  double writeSeconds = 0;
  /// The bytes of all ranks' files.
  uint64_t bytes = 0;
  /// The reason why an older checkpoint was not removed, or "". The next save
  /// tries again.
  std::string notRemoved;
};

/// The parameters whose masters only the checkpoint or only the step has.
struct MasterChanges {
  /// Parameters whose masters start from the parameters' values.
  size_t started = 0;
  /// Parameters that get the rounded values of the checkpoint's masters.
  size_t dropped = 0;
};

/// The changes to states of which each node has its own (NodeSums.h).
struct NodeSumChanges {
  /// Parameters whose states the checkpoint lacks. They start as zeros.
  size_t started = 0;
  /// Parameters whose states the step lacks. They are lost.
  size_t dropped = 0;
  /// Whether states are now on other nodes than the ones that saved them, or
  /// belong to other parts.
  bool areMoved = false;
};

/// The changes to the states of outer steps.
struct OuterChanges {
  /// Whether the checkpoint lacks these states. All nodes then start from its
  /// parameters.
  bool started = false;
  /// Whether the step lacks these states. Their contribution to the parameters
  /// is lost.
  bool dropped = false;
  /// Whether other nodes than the saved ones, or one job without outer steps,
  /// continue from the outer parameters. The changes that the saved nodes have
  /// made since are lost.
  bool areJoined = false;
};

struct StateChanges {
  MasterChanges masters = {};
  NodeSumChanges nodeSums = {};
  OuterChanges outer = {};
};

/// A checkpoint that states were loaded from.
struct LoadedCheckpoint {
  std::string path;
  /// The number of optimizer steps when it was saved.
  int64_t step = 0;
  /// The settings of the program that saved it, a JSON object.
  std::string job;
  StateChanges changes = {};
  /// Whether the checkpoint has digests, with which the data was compared.
  /// Checkpoints of older releases have none.
  bool isVerified = true;
};

} // namespace fcdp
