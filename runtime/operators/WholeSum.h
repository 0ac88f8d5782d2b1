// SPDX-License-Identifier: Apache-2.0
//
// Adds up the elements of a tensor of which only parts are there, in the order
// in which at::sum adds up the whole on one thread of a CPU.
#pragma once

#include <ATen/core/Tensor.h>
#include <array>
#include <cstdint>
#include <variant>

namespace fcdp {

/// ATen deals elements to four vectors in turn. Each adds up a block of them,
/// then blocks of blocks, and so on: four levels, whose lengths depend on the
/// number of all elements. `Sum` is float or double. Thread-compatible.
template <typename Sum>
class Cascade {
public:
  /// Elements that are narrower than `Sum` are added in pairs first.
  Cascade(int64_t count, bool isNarrow);

  template <typename Element>
  void add(const Element *elements, int64_t count);
  Sum finish();

private:
  static constexpr int64_t kLevels = 4, kStreams = 4;
#ifdef __aarch64__
  static constexpr int64_t kLanes = 16 / sizeof(Sum);
#else
  static constexpr int64_t kLanes = 32 / sizeof(Sum);
#endif
  using Vector = std::array<Sum, kLanes>;

  template <typename Element>
  void addLoad(const Element *elements);
  void carry(int64_t rows);
  void mergeLevels();

  const bool isNarrow;
  const int64_t loadElements, rows, power;
  std::array<std::array<Vector, kStreams>, kLevels> sums{};
  /// Elements that do not fill a vector yet.
  std::array<Sum, 2 * kLanes> pending{};
  int64_t pendingCount = 0, nextLoad = 0;
  bool isMerged = false;
};

/// Thread-compatible.
class WholeSum {
public:
  /// Expects `count` elements of a type of floats, at least 8.
  WholeSum(int64_t count, at::ScalarType type);

  /// Adds the next elements, which are contiguous and on a CPU.
  void add(const at::Tensor &part);
  /// Returns the sum of all, before it is rounded to the type.
  double finish();

private:
  std::variant<Cascade<float>, Cascade<double>> sum;
};

} // namespace fcdp
