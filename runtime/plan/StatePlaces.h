// SPDX-License-Identifier: Apache-2.0
//
// Computes the shapes of parameters' states, and their places in a rank's part
// of a bucket's state. A state has the parameter's shape, a number for each
// block of it, Adafactor's second moments (`row_var` in plan/Plan.fbs), or a
// square of a side.
#pragma once

#include "core/StateRules.h"
#include "plan/StepPlan.h"

#include <optional>
#include <vector>

namespace fcdp {

/// The rules of a state, which its record has.
struct StateRules {
  StateType type;
  StateScope scope;
  StateShape shape;
  bool isSaved; ///< checkpoints have it
};
StateRules rulesOf(plan::StateRole role);

/// Returns whether a state has one number for each block.
bool isScale(plan::StateRole role);
/// Returns whether a state depends on the parameter's dimensions: it is one of
/// Adafactor's second moments, of which a parameter has either `variance` or
/// both others, or a square of a side. The parameter is whole in a part.
bool isFactor(plan::StateRole role);

/// Returns the shape of a state, or none if a parameter of `shape` has no such
/// state. `maxSide` is that of the bucket.
std::optional<Shape> stateShape(plan::StateRole role, const Shape &shape,
                                std::optional<uint32_t> maxSide);
/// Returns the number of elements that such a state takes in a part, where the
/// states of parameters follow each other. Squares begin at multiples of 64
/// bytes.
int64_t numPlaceElements(plan::StateRole role, const Shape &shape,
                         std::optional<uint32_t> maxSide);

/// The elements of a parameter or its state that are in one part of a bucket.
struct ShardRange {
  /// The index of the first one in the parameter or its state, and in the part.
  int64_t inParameter = 0, inShard = 0;
  int64_t elements = 0; ///< may be 0
};
ShardRange rangeOf(const plan::ParameterT &parameter,
                   const plan::BucketT &bucket, uint32_t part);
/// Returns the elements that are in local rank `local`'s slice of a bucket.
ShardRange sliceRangeOf(const StepPlan &plan, const plan::ParameterT &parameter,
                        uint32_t local);
/// Does the same for elements of a state.
ShardRange stateRangeOf(const StepPlan &plan, const plan::ParameterT &parameter,
                        uint32_t part, plan::StateRole role);

/// Returns the padding in local rank `local`'s slice of a bucket, in order.
std::vector<PaddingRange> paddingOfSlice(const StepPlan &plan, size_t bucket,
                                         uint32_t local);

/// Returns the number of elements in each part of the bucket's state, for which
/// `isFactor` must hold.
int64_t numFactorElements(const StepPlan &plan, const plan::BucketT &bucket,
                          plan::StateRole role);

} // namespace fcdp
