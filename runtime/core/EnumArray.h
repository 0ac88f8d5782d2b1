// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>

namespace fcdp {

/// A value for each of the first `Size` values of an enum, in their order.
template <typename Enum, typename T, size_t Size>
struct EnumArray {
  // Not {}, which needs constructors that are not explicit.
  std::array<T, Size> values = std::array<T, Size>();

  constexpr T &operator[](Enum index) { return values[size_t(index)]; }
  constexpr const T &operator[](Enum index) const {
    return values[size_t(index)];
  }
};

} // namespace fcdp
