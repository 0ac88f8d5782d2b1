// SPDX-License-Identifier: Apache-2.0
//
// The rendezvous of a job's ranks. Each publishes a record, reads the records
// of all others, and reaches the same verdict.
#pragma once

#include "core/Mesh.h"
#include "store/KeyValueStore.h"

namespace fcdp {

/// The record that a rank publishes about itself.
struct JoinRecord {
  uint32_t launcherRank = 0;
  uint32_t launcherSize = 1;
  Mesh mesh;
  Place place;
  uint32_t abi = 0;
  std::string planHash;
  std::string hostName;
  /// The address of its Gloo sockets.
  std::string address;
  bool servesStore = false;
};

std::string encode(const JoinRecord &record);
/// Throws std::runtime_error if `encode` did not make `text`.
JoinRecord decode(const std::string &text);

/// Returns "" if the ranks fill one mesh and all their settings agree, and
/// otherwise a message that names the ranks that differ.
std::string checkRecords(const std::vector<JoinRecord> &records);

/// Publishes `own`, waits for the other ranks, checks all records, and returns
/// them in the order of world rank. If the check fails, it throws
/// std::runtime_error on all ranks.
std::vector<JoinRecord> meet(KeyValueStore &store, const JoinRecord &own,
                             double seconds);

} // namespace fcdp
