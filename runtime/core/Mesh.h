// SPDX-License-Identifier: Apache-2.0
//
// The mesh of a job and the position of a rank in it.
#pragma once

#include <cstdint>
#include <string>

namespace fcdp {

/// A mesh of `nodes` x `locals` ranks.
struct Mesh {
  uint32_t nodes = 1;
  uint32_t locals = 1;

  uint32_t size() const { return nodes * locals; }
};

/// Rank (node, local) of a mesh. Its world rank is node * locals + local, which
/// may differ from the launcher's number.
struct Place {
  uint32_t node = 0;
  uint32_t local = 0;

  bool operator==(const Place &) const = default;
};

inline uint32_t worldRank(const Mesh &mesh, const Place &place) {
  return place.node * mesh.locals + place.local;
}

inline Place placeOf(const Mesh &mesh, uint32_t worldRank) {
  return {worldRank / mesh.locals, worldRank % mesh.locals};
}

/// Returns "rank 2 (node 1, local 0)", the spelling in all messages.
inline std::string describeRank(const Mesh &mesh, uint32_t worldRank) {
  Place place = placeOf(mesh, worldRank);
  return "rank " + std::to_string(worldRank) + " (node " +
         std::to_string(place.node) + ", local " + std::to_string(place.local) +
         ")";
}

} // namespace fcdp
