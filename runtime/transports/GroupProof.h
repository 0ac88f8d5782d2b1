// SPDX-License-Identifier: Apache-2.0
//
// Lets the ranks of a group prove to each other that they belong to the job.
// Any process that can connect to a rank's port might otherwise take the place
// of a rank.
#pragma once

#include "transports/Transport.h"

#include <functional>
#include <string>

namespace fcdp {

/// Performs all transfers and returns when they are done. Throws
/// TransportError.
using ExchangeOfGroup =
    std::function<void(std::span<const Send>, std::span<const Recv>)>;

/// A rank of a group that takes part in the proof.
struct GroupMember {
  std::string secret;
  /// The name that distinguishes the group from others of the job.
  std::string group;
  uint32_t rank = 0, ranks = 1;
};

/// Sends each peer a random challenge, and the answer to the peer's challenge,
/// which requires the secret. Returns the first peer whose answer is wrong, or
/// `member.ranks` if there is none.
uint32_t proveToPeers(const GroupMember &member,
                      const ExchangeOfGroup &exchange);

} // namespace fcdp
