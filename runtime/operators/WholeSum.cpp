// SPDX-License-Identifier: Apache-2.0
#include "operators/WholeSum.h"

#include <algorithm>
#include <bit>
#include <stdexcept>

namespace fcdp {

/// Returns the logarithm with which ATen chooses the length of a block.
static int64_t findPower(int64_t rows, int64_t levels) {
  const int64_t log =
      rows <= 2 ? 1 : std::bit_width(static_cast<uint64_t>(rows - 1));
  return std::max<int64_t>(4, log / levels);
}

template <typename Sum>
Cascade<Sum>::Cascade(int64_t count, bool isNarrow)
    : isNarrow(isNarrow), loadElements(isNarrow ? 2 * kLanes : kLanes),
      rows(count / loadElements / kStreams), power(findPower(rows, kLevels)) {}

template <typename Sum>
template <typename Element>
void Cascade<Sum>::add(const Element *elements, int64_t count) {
  const Element *end = elements + count;
  auto keep = [&] { pending[pendingCount++] = static_cast<Sum>(*elements++); };
  while (pendingCount != 0 && elements != end) {
    keep();
    if (pendingCount == loadElements) {
      addLoad(pending.data());
      pendingCount = 0;
    }
  }
  for (; end - elements >= loadElements; elements += loadElements)
    addLoad(elements);
  while (elements != end)
    keep();
}

template <typename Sum>
template <typename Element>
void Cascade<Sum>::addLoad(const Element *elements) {
  const bool isDealt = nextLoad < rows * kStreams;
  if (!isDealt)
    mergeLevels();
  Vector &sum = sums[0][isDealt ? nextLoad % kStreams : 0];
  for (int64_t i = 0; i < kLanes; ++i) {
    Sum value = static_cast<Sum>(elements[i]);
    if (isNarrow)
      value += static_cast<Sum>(elements[i + kLanes]);
    sum[i] += value;
  }
  ++nextLoad;
  if (isDealt && nextLoad % (kStreams << power) == 0)
    carry(nextLoad / kStreams);
}

/// Adds a full level to the next one.
template <typename Sum>
void Cascade<Sum>::carry(int64_t rowsSoFar) {
  const int64_t mask = (int64_t(1) << power) - 1;
  for (int64_t level = 1; level < kLevels; ++level) {
    for (int64_t k = 0; k < kStreams; ++k)
      for (int64_t i = 0; i < kLanes; ++i) {
        sums[level][k][i] += sums[level - 1][k][i];
        sums[level - 1][k][i] = 0;
      }
    if ((rowsSoFar & (mask << (level * power))) != 0)
      break;
  }
}

template <typename Sum>
void Cascade<Sum>::mergeLevels() {
  if (isMerged)
    return;
  isMerged = true;
  for (int64_t level = 1; level < kLevels; ++level)
    for (int64_t k = 0; k < kStreams; ++k)
      for (int64_t i = 0; i < kLanes; ++i)
        sums[0][k][i] += sums[level][k][i];
}

template <typename Sum>
Sum Cascade<Sum>::finish() {
  mergeLevels();
  for (int64_t k = 1; k < kStreams; ++k)
    for (int64_t i = 0; i < kLanes; ++i)
      sums[0][0][i] += sums[0][k][i];
  Sum all = 0;
  for (int64_t i = 0; i < pendingCount; ++i)
    all += pending[i];
  for (Sum lane : sums[0][0])
    all += lane;
  return all;
}

static std::variant<Cascade<float>, Cascade<double>>
makeSum(int64_t count, at::ScalarType type) {
  if (type == at::kDouble)
    return Cascade<double>(count, /*isNarrow=*/false);
  return Cascade<float>(count, /*isNarrow=*/type != at::kFloat);
}

WholeSum::WholeSum(int64_t count, at::ScalarType type)
    : sum(makeSum(count, type)) {}

void WholeSum::add(const at::Tensor &part) {
  auto addAs = [&](const auto *elements) {
    std::visit([&](auto &of) { of.add(elements, part.numel()); }, sum);
  };
  switch (part.scalar_type()) {
  case at::kDouble:
    return addAs(part.const_data_ptr<double>());
  case at::kFloat:
    return addAs(part.const_data_ptr<float>());
  case at::kBFloat16:
    return addAs(part.const_data_ptr<at::BFloat16>());
  case at::kHalf:
    return addAs(part.const_data_ptr<at::Half>());
  default:
    throw std::runtime_error("expected a sum of floats");
  }
}

double WholeSum::finish() {
  return std::visit([](auto &of) { return double(of.finish()); }, sum);
}

} // namespace fcdp
