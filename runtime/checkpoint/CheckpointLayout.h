// SPDX-License-Identifier: Apache-2.0
//
// Divides a step's states into the pieces that each rank saves, so that every
// element is saved once.
#pragma once

#include "checkpoint/CheckpointIndex.h"
#include "weights/SafetensorsWriter.h"

#include <optional>
#include <vector>

namespace fcdp {

/// A piece that a rank saves, and the memory that has it.
struct SavedPiece {
  /// The piece's position in the index.
  size_t state = 0, piece = 0;
  /// The region of a bucket's state that contains the piece, and the piece's
  /// offset there.
  std::optional<plan::Buf> region = std::nullopt;
  uint64_t byteOffset = 0;
  /// A buffer of the plan, if `region` is none. If both are none, the piece is
  /// the random state.
  std::optional<size_t> buffer = std::nullopt;
  uint64_t bytes = 0;
};

/// Returns whether each node has its own state of this role of a bucket, of
/// which each of its ranks has a slice. This holds for saved states whose scope
/// is a slice and, with outer steps, for all states except the outer parameters
/// and their momentum.
bool isOfNodes(plan::StateRole role, const plan::BucketT &bucket);

/// The layout of a plan's checkpoints, the same on all ranks. Immutable.
struct CheckpointLayout {
  /// `randomBytes` is the size of a rank's random state.
  CheckpointLayout(const StepPlan &plan, uint64_t randomBytes);

  /// Returns the tensors of a rank's file, in the order of its pieces.
  std::vector<SafetensorsWriter::Entry> entriesOf(uint32_t rank) const;

  /// The index without the step, the job and the numbers of updates.
  CheckpointIndex index;
  /// The bucket whose updates a state of the index counts, or none.
  std::vector<std::optional<size_t>> countedBucket;
  std::vector<std::vector<SavedPiece>> ofRank;

private:
  /// The bytes that each rank saves.
  std::vector<uint64_t> bytesOfRank;

  /// Returns the rank of `replicas` that saves the fewest bytes so far.
  uint32_t chooseSaver(const std::vector<uint32_t> &replicas) const;
  size_t addState(CheckpointState state,
                  std::optional<size_t> bucket = std::nullopt);
  void addPiece(size_t state, uint32_t rank, CheckpointPiece piece,
                SavedPiece saved);
  /// Adds pieces that are the whole of a state, one for each rank.
  void addOwn(size_t state, const SavedPiece &saved);
  void addBucket(const StepPlan &plan, size_t bucket,
                 const std::vector<const plan::ParameterT *> &members);
  /// Adds the parts of a state that all ranks share.
  void addParts(const StepPlan &plan, size_t state,
                const plan::ParameterT &parameter, const plan::State &region);
  /// Adds the slices of a state that each node has for itself.
  void addSlices(const StepPlan &plan, size_t state,
                 const plan::ParameterT &parameter, const plan::State &region);
  void addBuffers(const StepPlan &plan);
};

} // namespace fcdp
