// SPDX-License-Identifier: Apache-2.0
//
// The tiers: for each residency, where a bucket's gathered copy is kept between
// two uses, what fills it, and how a use fetches it. The pass --fcdp-cache, the
// estimates of memory and time, and the reports read this table. The prover
// does not; it states the same independently. It does not use the IR.
#pragma once

#include "dialects/Fcdp/Enums.h"
#include "runtime/core/Links.h"

#include <array>
#include <optional>

namespace fcdp {

/// The part of a copy that a rank keeps.
enum class CopyPart { none, slice, whole };

/// The operation that fills the tier: the gather, whose result is in the
/// tier's memory, or a copy of a slice from the device to other memory.
enum class CopyFill { none, gather, store };

/// The way in which a use gets the copy from the tier.
enum class CopyFetch {
  /// The copy is on the device.
  view,
  /// The slice is on the device; a gather within the node yields the copy.
  gatherWithin,
  /// A load from other memory yields the slice, and a gather within the node
  /// the copy.
  load,
  /// A gather between nodes yields this rank's slice, and one within the node
  /// the copy; or one flat gather does.
  gatherAll
};

/// The ranks that a tier's memory belongs to. The ranks of a node share memory
/// that belongs to the node, and each has a part of it.
enum class CopyOwner { none, rank, node };

struct Tier {
  Residency residency;
  /// The memory; none if copies are dropped.
  std::optional<Arena> arena;
  /// The role of the state that keeps the copy for later functions.
  std::optional<StateRole> role;
  CopyPart part;
  CopyFill filledBy;
  CopyFetch fetchedBy;
  CopyOwner owner;

  /// Returns the bytes that each rank keeps of a copy.
  constexpr int64_t getKeptBytes(int64_t wholeBytes, int64_t sliceBytes) const {
    return part == CopyPart::whole   ? wholeBytes
           : part == CopyPart::slice ? sliceBytes
                                     : 0;
  }
};

/// The tiers in the order of residencies, which is the descending order of the
/// device memory that they use.
inline constexpr std::array<Tier, kNumResidencies> kTiers = {{
    {Residency::full, Arena::device, StateRole::resident, CopyPart::whole,
     CopyFill::gather, CopyFetch::view, CopyOwner::rank},
    {Residency::node, Arena::device, StateRole::resident, CopyPart::slice,
     CopyFill::gather, CopyFetch::gatherWithin, CopyOwner::rank},
    {Residency::host, Arena::host, StateRole::cache, CopyPart::slice,
     CopyFill::store, CopyFetch::load, CopyOwner::node},
    {Residency::drop, std::nullopt, std::nullopt, CopyPart::none,
     CopyFill::none, CopyFetch::gatherAll, CopyOwner::none},
}};

constexpr const Tier &getTier(Residency residency) {
  return kTiers[static_cast<size_t>(residency)];
}

constexpr bool areInOrder() {
  for (size_t i = 0; i < kTiers.size(); ++i)
    if (kTiers[i].residency != static_cast<Residency>(i))
      return false;
  return true;
}
static_assert(areInOrder(), "expected a row for each residency, in order");

/// Returns whether a tier keeps copies in states of `role` in `arena`.
constexpr bool isKeptIn(StateRole role, Arena arena) {
  for (const Tier &tier : kTiers)
    if (tier.role == role && tier.arena == arena)
      return true;
  return false;
}

/// Returns the owner of memory in an arena of a tier.
constexpr CopyOwner getOwner(Arena arena) {
  // No copies are in files, only states of optimizers.
  if (arena == Arena::file)
    return CopyOwner::rank;
  for (const Tier &tier : kTiers)
    if (tier.arena == arena)
      return tier.owner;
  return CopyOwner::none;
}

/// The residencies in the order in which searches prefer them among equally
/// good plans: the least device memory comes first.
inline constexpr auto kSearchedResidencies = [] {
  std::array<Residency, kNumResidencies> order{};
  for (size_t i = 0; i < order.size(); ++i)
    order[i] = kTiers[order.size() - 1 - i].residency;
  return order;
}();

/// The stream and the link of all copies between a device and other memory.
struct CopyRoute {
  Stream stream;
  LinkId link;
};
inline constexpr CopyRoute kStoreRoute = {Stream::d2h, LinkId::D2H};
inline constexpr CopyRoute kLoadRoute = {Stream::h2d, LinkId::H2D};

} // namespace fcdp
