// SPDX-License-Identifier: Apache-2.0
//
// Finds the stored tensors for the tensors of a step, over several files.
#pragma once

#include "checkpoint/WeightNames.h"

#include <optional>

namespace fcdp {

/// A tensor of a step: all of its names, of which a tied parameter has several.
using TensorNames = std::vector<std::string>;

/// A stored tensor.
struct WeightPlace {
  size_t file;
  std::string name;

  auto operator<=>(const WeightPlace &) const = default;
};

/// The stored tensors for one tensor of a step.
struct WeightMatch {
  /// They are equally specific, so their values must be equal. There are none
  /// if the tensor is not found.
  std::vector<WeightPlace> places;
  /// These are less specific and not used.
  std::vector<WeightPlace> others;
  Likeness likeness = Likeness::Equal;
};

/// Which files are looked at, and how.
struct WeightSearch {
  /// Of these files a tensor is taken that is in no other.
  std::vector<bool> isFallback{};
  /// New adapters get copies of the model's own tensors.
  bool makesCopies = true;
};

/// Matches in the order of likeness over all files: a file with a more specific
/// name comes before one with a less specific name, whatever their order. A
/// stored tensor serves one tensor of the step, except as a copy. Throws
/// std::runtime_error that names the tensors, if one could serve two.
std::vector<WeightMatch> matchWeights(const std::vector<TensorNames> &wanted,
                                      const std::vector<WeightNames> &files,
                                      const WeightSearch &search = {});

} // namespace fcdp
