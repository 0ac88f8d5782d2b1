// SPDX-License-Identifier: Apache-2.0
//
// The dialect's enums, and facts about their values. It does not use the IR, so
// that problems and solvers can use it.
#pragma once

#include "runtime/core/EnumArray.h"

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/ArrayRef.h"
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
inline constexpr size_t kNumArenas = getMaxEnumValForArena() + 1;

/// A value for each arena.
template <typename T>
using ArenaArray = EnumArray<Arena, T, kNumArenas>;

/// The result of a collective: the inputs of its ranks, in order, or this
/// rank's part of the sum of the inputs.
enum class CollectiveKind { allGather, reduceScatter };
inline constexpr CollectiveKind kCollectiveKinds[] = {
    CollectiveKind::allGather, CollectiveKind::reduceScatter};

/// The kinds of work that operations do.
enum class WorkKind : uint8_t {
  none,
  operators,  ///< an ATen operator
  memory,     ///< only accesses the device's memory
  collective, ///< sends over links between ranks
  copy,       ///< copies to or from host memory
  update,     ///< the optimizer's update
  agreement,  ///< works on all gradients, for which ranks exchange numbers
  hostUpdate, ///< an update of states in host memory
};

/// Returns the names of collectives in profiles: one for each kind and each
/// form in which it may send values.
llvm::ArrayRef<std::string> getCollectiveNames();

/// Returns whether a copy of a bucket of `sharding` can have this residency.
bool isPossible(Sharding sharding, Residency residency);

/// Returns whether a copy is kept as a node slice by `residency` or `carry`, so
/// that a gather must yield that slice as an intermediate result.
bool keepsSlice(Residency residency, Residency carry);

/// Returns the residency of a copy between two uses in a micro-batch. A copy
/// that stays on the device until the next micro-batch, if `isCarried`, is also
/// used within one.
Residency getResidencyWithin(Residency residency, Residency carry,
                             bool isCarried);

/// Returns whether gradients are reduced within the node before they are
/// accumulated, and between nodes only afterwards.
bool sumsSlice(Accumulation accumulation);

/// Return whether gathers of a copy, or reductions of gradients, run in one
/// step over all ranks of a mesh of two levels.
bool gathersFlat(Collectives collectives, Residency residency, Residency carry);
bool reducesFlat(Collectives collectives, Accumulation accumulation);

} // namespace fcdp
