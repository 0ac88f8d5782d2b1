// SPDX-License-Identifier: Apache-2.0
//
// Finds the stored tensors for the tensors of a step, over several files.
#pragma once

#include "weights/WeightNames.h"

#include <optional>

namespace fcdp {

/// All names of a tensor of a step. A tied parameter has several.
using TensorNames = std::vector<std::string>;

/// A stored tensor.
struct WeightPlace {
  size_t file;
  std::string name;

  auto operator<=>(const WeightPlace &) const = default;
};

/// The stored tensors for one tensor of a step.
struct WeightMatch {
  /// The places are equally specific, so their values must be equal. There are
  /// none if the tensor is not found.
  std::vector<WeightPlace> places;
  /// The less specific places, which are not used.
  std::vector<WeightPlace> others;
  Likeness likeness = Likeness::Equal;
};

/// The files to search, and how to search them.
struct WeightSearch {
  /// By file: a fallback is used only for tensors that no other file has.
  std::vector<bool> isFallback{};
  /// Whether new adapters get copies of the model's own tensors.
  bool makesCopies = true;
};

/// Matches names in the order of likeness over all files: a file with a more
/// specific name takes precedence, in whatever order the files are given. A
/// stored tensor is used for one tensor of the step, except for copies. Throws
/// std::runtime_error that names the tensors if it could be used for two.
std::vector<WeightMatch> matchWeights(const std::vector<TensorNames> &wanted,
                                      const std::vector<WeightNames> &files,
                                      const WeightSearch &search = {});

} // namespace fcdp
