// SPDX-License-Identifier: Apache-2.0
//
// Rows that are smaller than the inputs of a step of several shapes.
#pragma once

#include "plan/StepPlan.h"

#include <cstddef>
#include <span>
#include <vector>

namespace fcdp {

/// The bytes of one element.
using PadElement = std::vector<std::byte>;

/// Returns `value` as an element of `input`. Throws std::runtime_error if the
/// input may not hold it.
PadElement makePadding(const plan::InputT &input, double value);

/// Copies what both shapes have in common from `from` to `to`, whose other
/// elements become `pad`. Pre: shapes of one rank.
void copyPadded(std::span<const std::byte> from, const Shape &fromShape,
                std::span<std::byte> to, const Shape &toShape,
                const PadElement &pad);

/// Returns whether all elements of `data`, of `shape`, are `pad` that are
/// outside `inner`, which is no greater than `shape`.
bool isPaddedBeyond(const Shape &inner, std::span<const std::byte> data,
                    const Shape &shape, const PadElement &pad);

} // namespace fcdp
