// SPDX-License-Identifier: Apache-2.0
//
// Combines values that each node has for itself.
#pragma once

#include "core/Backend.h"

#include <cstddef>
#include <functional>
#include <span>

namespace fcdp {

/// Fills `all` with the values of all nodes, in the nodes' order. `own` has the
/// values of this node. All ranks must call it.
using GatherOverNodes = std::function<void(std::span<const std::byte> own,
                                           std::span<std::byte> all)>;

/// Writes the mean over nodes of values that have the type `dtype` to `out`, as
/// many bytes as `own` has. It is added in f64 in the nodes' order and rounded
/// once, so if all nodes have the same value, the mean is that value. Large
/// values are gathered in pieces.
void writeNodeMean(uint32_t nodes, DType dtype, std::span<const std::byte> own,
                   std::byte *out, const GatherOverNodes &gather);

} // namespace fcdp
