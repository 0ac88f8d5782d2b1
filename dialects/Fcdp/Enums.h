// SPDX-License-Identifier: Apache-2.0
//
// The dialect's enums, and facts about their values. Knows no IR, so that
// problems and solvers can use it.
#pragma once

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/DenseMapInfo.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdint>
#include <optional>
#include <string>

#include "dialects/Fcdp/FcdpEnums.h.inc"

namespace fcdp {

inline constexpr size_t kNumRoles = getMaxEnumValForRole() + 1;
inline constexpr size_t kNumStreams = getMaxEnumValForStream() + 1;
inline constexpr size_t kNumStateRoles = getMaxEnumValForStateRole() + 1;
inline constexpr size_t kNumResidencies = getMaxEnumValForResidency() + 1;

/// Returns whether a copy of a bucket of `sharding` can live where `residency`
/// says.
bool isPossible(Sharding sharding, Residency residency);

/// Returns whether a copy that lives as `residency` and `carry` say is kept as
/// the slice of a node, so that a gather must yield that slice on its way.
bool keepsSlice(Residency residency, Residency carry);

/// Returns where a copy lives between two uses in a micro-batch. A copy that
/// stays on the device until the next micro-batch, if `isCarried`, serves these
/// uses, too.
Residency getResidencyWithin(Residency residency, Residency carry,
                             bool isCarried);

/// Returns whether gradients are reduced within the node before they are
/// summed, and between nodes only afterwards.
bool sumsSlice(Accumulation accumulation);

/// Return whether gathers of a copy, or reductions of gradients, run in one
/// step over all ranks of a mesh of two levels.
bool gathersFlat(Collectives collectives, Residency residency, Residency carry);
bool reducesFlat(Collectives collectives, Accumulation accumulation);

} // namespace fcdp
