// SPDX-License-Identifier: Apache-2.0
//
// The ranks of a group prove to each other that they belong to the job, because
// whoever reaches a rank's port could have taken the connection of another one.
#pragma once

#include "collectives/Transport.h"

#include <functional>
#include <string>

namespace fcdp {

/// Has all transfers done. Throws TransportError.
using ExchangeOfGroup =
    std::function<void(std::span<const Send>, std::span<const Recv>)>;

/// A rank of a group that proves itself.
struct GroupMember {
  std::string secret;
  /// Tells the group apart from others of the job.
  std::string group;
  uint32_t rank = 0, ranks = 1;
};

/// Sends each peer a random challenge, and the answer to its own, which only
/// one who has the secret can know. Returns the first peer whose answer is
/// wrong, or `member.ranks` if there is none.
uint32_t proveToPeers(const GroupMember &member,
                      const ExchangeOfGroup &exchange);

} // namespace fcdp
