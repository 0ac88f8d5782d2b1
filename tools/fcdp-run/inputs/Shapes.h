// SPDX-License-Identifier: Apache-2.0
//
// Finds the shape of a step that rows of files need.
#pragma once

#include "policy/Padding.h"
#include "policy/StepNeeds.h"

#include <map>
#include <string>

namespace fcdp::run {

/// The shapes of a step. Rows have the greatest shape. A row needs the least
/// variant outside of whose shapes it has only padding. Immutable, hence
/// thread-safe.
class Shapes {
public:
  /// `padding` has the values that are padding, by input name; 0 for other
  /// inputs. Throws std::runtime_error if it names no input of the step, or one
  /// that cannot have that value, or if the step has one shape.
  Shapes(const StepPlan &plan, const std::map<std::string, double> &padding);

  /// Returns whether the step has several shapes.
  bool areSeveral() const { return variants > 1; }
  /// Returns the padding of an input, or null if the step has one shape.
  const PadElement *padding(size_t input) const {
    return areSeveral() ? &paddings[input] : nullptr;
  }
  /// Returns the least variant that the rows of a step need: all inputs of
  /// micro-batch 0, then those of micro-batch 1, and so on.
  uint32_t find(const std::vector<std::vector<std::byte>> &rows) const;
  /// Copies the part of a row that is in the shape that a step needs.
  void cut(size_t input, const StepNeeds &needs, std::span<const std::byte> row,
           std::span<std::byte> out) const;

private:
  bool fits(size_t input, uint32_t variant,
            std::span<const std::byte> row) const;

  const StepPlan &plan;
  const StepPlan::Inputs greatest;
  const uint32_t variants;
  const std::vector<PadElement> paddings;
};

} // namespace fcdp::run
