// SPDX-License-Identifier: Apache-2.0
#include "transports/GroupProof.h"
#include "store/Secret.h"

namespace fcdp {
namespace {

constexpr size_t kGroupChallengeBytes = 16;

/// A text for each rank of the group.
using Texts = std::vector<std::string>;

std::span<const std::byte> bytesOf(const std::string &text) {
  return std::as_bytes(std::span(text));
}

/// Sends `own` to the peers. Returns the texts that they have sent, of equal
/// sizes.
Texts exchangeTexts(const GroupMember &member, const ExchangeOfGroup &exchange,
                    const Texts &own) {
  Texts theirs(member.ranks);
  std::vector<Send> sends;
  std::vector<Recv> recvs;
  for (uint32_t peer = 0; peer < member.ranks; ++peer) {
    if (peer == member.rank)
      continue;
    theirs[peer].resize(own[peer].size());
    sends.push_back({peer, bytesOf(own[peer]).data(), own[peer].size()});
    recvs.push_back({peer,
                     std::as_writable_bytes(std::span(theirs[peer])).data(),
                     theirs[peer].size()});
  }
  exchange(sends, recvs);
  return theirs;
}

/// Returns the answer of rank `from` to a challenge of rank `to`.
std::string answerOf(const GroupMember &member, uint32_t from, uint32_t to,
                     const std::string &challenge) {
  return proofOf(member.secret, {"group", member.group, std::to_string(from),
                                 std::to_string(to), challenge});
}

} // namespace

uint32_t proveToPeers(const GroupMember &member,
                      const ExchangeOfGroup &exchange) {
  Texts challenges(member.ranks), answers(member.ranks);
  for (std::string &challenge : challenges)
    challenge = randomBytes(kGroupChallengeBytes);
  const Texts asked = exchangeTexts(member, exchange, challenges);
  for (uint32_t peer = 0; peer < member.ranks; ++peer)
    answers[peer] = answerOf(member, member.rank, peer, asked[peer]);
  const Texts answered = exchangeTexts(member, exchange, answers);
  for (uint32_t peer = 0; peer < member.ranks; ++peer)
    if (peer != member.rank &&
        !isSameProof(answered[peer],
                     answerOf(member, peer, member.rank, challenges[peer])))
      return peer;
  return member.ranks;
}

} // namespace fcdp
