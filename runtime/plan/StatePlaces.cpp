// SPDX-License-Identifier: Apache-2.0
#include "plan/StatePlaces.h"

#include <algorithm>
#include <map>
#include <stdexcept>

namespace fcdp {

StateRules rulesOf(plan::StateRole role) {
  switch (role) {
#define FCDP_STATE_ROLE(role, type, scope, shape, isSaved)                     \
  case plan::StateRole::role:                                                  \
    return {StateType::type, StateScope::scope, StateShape::shape, isSaved};
#include "plan/StateRoles.inc"
#undef FCDP_STATE_ROLE
  }
  throw std::logic_error("unknown role of a state");
}

namespace {

int64_t numStateElements(plan::StateRole role, const Shape &shape,
                         std::optional<uint32_t> maxSide) {
  std::optional<Shape> own = stateShape(role, shape, maxSide);
  return own ? numElements(*own) : 0;
}

/// Returns the shape of a square, or none if `shape` is no matrix or the side
/// is too long.
std::optional<Shape> squareShape(StateShape rule, const Shape &shape,
                                 std::optional<uint32_t> maxSide) {
  size_t rank = shape.size();
  if (rank < 2 || numElements(shape) == 0 ||
      numElements(shape) != shape[rank - 1] * shape[rank - 2])
    return std::nullopt;
  int64_t side = shape[rank - (rule == StateShape::rowSquare ? 2 : 1)];
  if (side > int64_t(maxSide.value_or(0)))
    return std::nullopt;
  Shape own = shape;
  own[rank - 1] = own[rank - 2] = side;
  return own;
}

/// Returns the part that contains a parameter which is whole in a part.
uint64_t partWith(const plan::ParameterT &parameter,
                  const plan::BucketT &bucket) {
  return parameter.offsetElements / std::max<uint64_t>(bucket.shardElements, 1);
}

/// Returns the number of elements of the state before the parameter's own in
/// its part.
int64_t firstFactor(const StepPlan &plan, const plan::ParameterT &parameter,
                    plan::StateRole role) {
  const plan::BucketT &bucket = *plan.buckets[parameter.bucket];
  int64_t first = 0;
  for (const auto &other : plan.parameters)
    if (other->bucket == parameter.bucket &&
        other->offsetElements < parameter.offsetElements &&
        partWith(*other, bucket) == partWith(parameter, bucket))
      first += numPlaceElements(role, other->shape, bucket.maxSide);
  return first;
}

/// Returns the elements of a parameter in [begin, begin + elements) of its
/// bucket.
ShardRange rangeIn(const plan::ParameterT &parameter, int64_t begin,
                   int64_t elements) {
  auto offset = int64_t(parameter.offsetElements);
  int64_t first = std::max(begin, offset);
  int64_t end =
      std::min(begin + elements, offset + numElements(parameter.shape));
  if (first >= end)
    return {};
  return {first - offset, first - begin, end - first};
}

} // namespace

bool isScale(plan::StateRole role) {
  return rulesOf(role).shape == StateShape::block;
}

bool isFactor(plan::StateRole role) {
  StateShape shape = rulesOf(role).shape;
  return shape != StateShape::element && shape != StateShape::block;
}

int64_t numPlaceElements(plan::StateRole role, const Shape &shape,
                         std::optional<uint32_t> maxSide) {
  constexpr int64_t alignment = kSquareAlignment;
  int64_t elements = numStateElements(role, shape, maxSide);
  if (!isSquare(rulesOf(role).shape))
    return elements;
  return (elements + alignment - 1) / alignment * alignment;
}

std::optional<Shape> stateShape(plan::StateRole role, const Shape &shape,
                                std::optional<uint32_t> maxSide) {
  StateShape rule = rulesOf(role).shape;
  if (isScale(role))
    return Shape{numElements(shape) / kStateBlock};
  if (isSquare(rule))
    return squareShape(rule, shape, maxSide);
  if (!isFactor(role))
    return shape;
  bool hasMeans = shape.size() >= 2 && numElements(shape) != 0;
  if (hasMeans == (rule == StateShape::withoutMeans))
    return std::nullopt;
  Shape own = shape;
  if (hasMeans)
    own[own.size() - (rule == StateShape::rowMean ? 1 : 2)] = 1;
  return own;
}

ShardRange rangeOf(const plan::ParameterT &parameter,
                   const plan::BucketT &bucket, uint32_t part) {
  auto elements = int64_t(bucket.shardElements);
  return rangeIn(parameter, int64_t(part) * elements, elements);
}

ShardRange sliceRangeOf(const StepPlan &plan, const plan::ParameterT &parameter,
                        uint32_t local) {
  auto elements =
      int64_t(plan.buckets[parameter.bucket]->elements / plan.mesh.locals);
  return rangeIn(parameter, int64_t(local) * elements, elements);
}

std::vector<PaddingRange> paddingOfSlice(const StepPlan &plan, size_t bucket,
                                         uint32_t local) {
  std::map<int64_t, int64_t> members; // first element and end in the slice
  for (const auto &parameter : plan.parameters)
    if (parameter->bucket == bucket)
      if (ShardRange range = sliceRangeOf(plan, *parameter, local);
          range.elements != 0)
        members[range.inShard] = range.inShard + range.elements;
  auto end = int64_t(plan.buckets[bucket]->elements / plan.mesh.locals);
  members[end] = end;
  std::vector<PaddingRange> padding;
  int64_t first = 0;
  for (auto [begin, next] : members) {
    if (begin > first)
      padding.push_back({uint64_t(first), uint64_t(begin - first)});
    first = next;
  }
  return padding;
}

ShardRange stateRangeOf(const StepPlan &plan, const plan::ParameterT &parameter,
                        uint32_t part, plan::StateRole role) {
  const plan::BucketT &bucket = *plan.buckets[parameter.bucket];
  if (isFactor(role)) {
    int64_t elements = numStateElements(role, parameter.shape, bucket.maxSide);
    if (elements == 0 || partWith(parameter, bucket) != part)
      return {};
    return {0, firstFactor(plan, parameter, role), elements};
  }
  ShardRange range = rangeOf(parameter, bucket, part);
  int64_t each = isScale(role) ? kStateBlock : 1;
  return {range.inParameter / each, range.inShard / each,
          range.elements / each};
}

int64_t numFactorElements(const StepPlan &plan, const plan::BucketT &bucket,
                          plan::StateRole role) {
  std::map<uint64_t, int64_t> counts;
  int64_t most = 0;
  for (const auto &parameter : plan.parameters)
    if (plan.buckets[parameter->bucket].get() == &bucket)
      most = std::max(most,
                      counts[partWith(*parameter, bucket)] +=
                      numPlaceElements(role, parameter->shape, bucket.maxSide));
  return most;
}

} // namespace fcdp
