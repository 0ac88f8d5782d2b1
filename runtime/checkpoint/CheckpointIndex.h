// SPDX-License-Identifier: Apache-2.0
//
// The index of a checkpoint: its states, and the files that have their pieces.
// docs/checkpoints.md describes the format.
#pragma once

#include "plan/StepPlan.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fcdp {

/// Names of roles that the runtime uses.
inline constexpr const char *kValueRole = "value";
inline constexpr const char *kMasterRole = "master";
inline constexpr const char *kBufferRole = "buffer";
inline constexpr const char *kRandomRole = "random";
/// The name of the random state.
inline constexpr const char *kRandomName = "torch";

/// Returns the role of a bucket's state in checkpoints, or null if it does not
/// outlive a step.
const char *checkpointRole(plan::StateRole role);

/// A contiguous range of a state's elements in row-major order, in a file.
struct CheckpointPiece {
  uint32_t file = 0;
  int64_t offset = 0, length = 0; ///< in elements
  /// The rank or the node that the piece belongs to, for states that each rank
  /// or each node has for itself.
  std::optional<uint32_t> rank = std::nullopt;
  std::optional<uint32_t> node = std::nullopt;

  std::optional<uint32_t> owner() const { return rank ? rank : node; }
};

struct CheckpointState {
  /// The canonical name, followed by the names of tied parameters.
  std::vector<std::string> names;
  std::string role;
  DType dtype = DType::F32;
  Shape shape;
  /// For a parameter's value, the number of the optimizer's updates so far.
  std::optional<int64_t> updates = std::nullopt;
  std::optional<bool> trainable = std::nullopt;
  /// For a buffer, whether PyTorch's state_dict has it.
  std::optional<bool> persistent = std::nullopt;
  std::vector<CheckpointPiece> pieces = {};
  /// For the bytes of a packed matrix, how they are packed (`describePacked`).
  std::optional<std::string> packed = std::nullopt;

  bool belongsToRanks() const { return !pieces.empty() && pieces[0].rank; }
  bool belongsToNodes() const { return !pieces.empty() && pieces[0].node; }
};

struct CheckpointFile {
  std::string name;
  uint64_t bytes = 0;
  /// The digest of the header, which has the digests of the data. None in
  /// checkpoints of the first version.
  std::optional<std::string> digest = std::nullopt;
};

struct CheckpointIndex {
  /// Optimizer steps done.
  int64_t step = 0;
  uint32_t worldSize = 1, nodes = 1;
  std::string planHash;
  /// Data that the program which saved the checkpoint needs to continue.
  nlohmann::json job = nlohmann::json::object();
  std::vector<CheckpointFile> files;
  std::vector<CheckpointState> states;

  /// Returns whether the files have digests. Older releases saved none.
  bool hasDigests() const { return files.empty() || files[0].digest; }

  /// Returns the index as JSON. All files must have a digest.
  std::string toJson() const;
};

/// Returns a JSON object with the digest of its text added as its last member.
std::string sealIndex(std::string json);

/// Reads an index, and checks its digest and everything that does not need the
/// files. Throws std::runtime_error that names the place in the text.
CheckpointIndex parseCheckpointIndex(std::string_view text);

/// Returns the name of a piece in its file: "value/wte.weight@8192",
/// "buffer/bn.running_mean@0#3" for rank 3, or "residual/wte.weight@0#node1".
std::string pieceName(const CheckpointState &state,
                      const CheckpointPiece &piece);

/// Returns, for example, "rank-00000-of-00004.safetensors".
std::string rankFileName(uint32_t rank, uint32_t worldSize);

} // namespace fcdp
