// SPDX-License-Identifier: Apache-2.0
//
// How the ranks of a job meet: each says who it is, reads what the others say,
// and all come to the same verdict.
#pragma once

#include "collectives/KeyValueStore.h"
#include "core/Mesh.h"

namespace fcdp {

/// What a rank says about itself.
struct JoinRecord {
  uint32_t launcherRank = 0;
  uint32_t launcherSize = 1;
  Mesh mesh;
  Place place;
  uint32_t abi = 0;
  std::string planHash;
  std::string hostName;
  /// Where its Gloo sockets listen.
  std::string address;
  bool servesStore = false;
};

std::string encode(const JoinRecord &record);
/// Throws std::runtime_error if `text` was not made by `encode`.
JoinRecord decode(const std::string &text);

/// Returns "" if the ranks fill one mesh and agree in all they must agree in,
/// else a message that names the ranks that do not.
std::string checkRecords(const std::vector<JoinRecord> &records);

/// Publishes `own`, waits for the others, checks, and returns the records in
/// order of world rank. Throws std::runtime_error on all ranks alike.
std::vector<JoinRecord> meet(KeyValueStore &store, const JoinRecord &own,
                             double seconds);

} // namespace fcdp
