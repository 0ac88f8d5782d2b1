// SPDX-License-Identifier: Apache-2.0
//
// Compares facts that must be equal on all ranks, and describes a difference.
#pragma once

#include "core/Mesh.h"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace fcdp {

/// A fact that must be equal on all ranks: an option, or the content of a file.
struct Fact {
  /// The name in messages: "--steps", "--input ids".
  std::string name;
  /// The value that is compared and shown.
  std::string value;
  /// Shown before the value but not compared, since a file may have another
  /// path on each node.
  std::string place{};
  /// Whether only the ranks that have the fact are compared. Otherwise a rank
  /// without it differs.
  bool isOfSome = false;
};

/// Returns "digest " and the checksum of a value that is too large to show.
std::string digestOf(std::span<const std::byte> value);

/// Returns null if there is no fact of this name.
const Fact *findFact(const std::vector<Fact> &facts, const std::string &name);

std::string encode(const std::vector<Fact> &facts);
/// Parses the output of `encode`. Throws std::runtime_error for another text.
std::vector<Fact> decodeFacts(const std::string &text);

/// Returns "" if the facts of all ranks agree, or a message about the first
/// that does not: "the ranks differ in --steps: 10 on rank 0 (node 0, local 0);
/// 20 on rank 1 (node 0, local 1) and 2 more ranks; ...".
std::string describeDifference(const Mesh &mesh,
                               const std::vector<std::vector<Fact>> &facts);

} // namespace fcdp
