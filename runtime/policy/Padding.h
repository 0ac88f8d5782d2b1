// SPDX-License-Identifier: Apache-2.0
//
// Pads rows that are smaller than the inputs of a step of several shapes.
#pragma once

#include "plan/StepPlan.h"

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace fcdp {

/// The bytes of one element.
using PadElement = std::vector<std::byte>;

/// Returns `value` as an element of `input`. Throws std::runtime_error if the
/// input may not hold it.
PadElement makePadding(const plan::InputT &input, double value);

/// Adds the value in `text`, such as "labels=-100". Throws std::runtime_error
/// that begins with `option` if the text has another form or repeats a name.
void addPadding(std::map<std::string, double> &values, const std::string &text,
                const std::string &option);

/// Returns the padding of each input of a step of several shapes: its entry in
/// `values`, or 0. Throws std::runtime_error if there is no input of such a
/// name, if the input may not have the value, or if values are given for a step
/// of one shape.
std::vector<PadElement>
makePaddings(const StepPlan &plan, const std::map<std::string, double> &values);

/// Copies the elements that both shapes have in common from `from` to `to`, and
/// sets the other elements of `to` to `pad`. Pre: both shapes have the same
/// number of dimensions.
void copyPadded(std::span<const std::byte> from, const Shape &fromShape,
                std::span<std::byte> to, const Shape &toShape,
                const PadElement &pad);

/// Returns whether all elements of `data`, of `shape`, that are outside of
/// `inner` are `pad`. `inner` is no greater than `shape`.
bool isPaddedBeyond(const Shape &inner, std::span<const std::byte> data,
                    const Shape &shape, const PadElement &pad);

} // namespace fcdp
