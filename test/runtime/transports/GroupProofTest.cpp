// SPDX-License-Identifier: Apache-2.0

#include "transports/GroupProof.h"
#include "transports/InProcessTransport.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <thread>

using namespace fcdp;

namespace {

/// Has a rank for each secret prove itself; returns what each has found.
std::vector<uint32_t> prove(const std::vector<std::string> &secrets,
                            const std::vector<std::string> &groups) {
  const uint32_t ranks = secrets.size();
  std::vector<uint32_t> worldRanks(ranks), found(ranks);
  for (uint32_t rank = 0; rank < ranks; ++rank)
    worldRanks[rank] = rank;
  InProcessGroup group(worldRanks);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      auto transport = group.join(rank);
      found[rank] = proveToPeers(
          {secrets[rank], groups[rank], rank, ranks},
          [&](std::span<const Send> sends, std::span<const Recv> recvs) {
            transport->exchange(sends, recvs, "proof");
          });
    });
  for (std::thread &thread : threads)
    thread.join();
  return found;
}

} // namespace

TEST(GroupProof, RanksWithOneSecretBelieveEachOther) {
  EXPECT_EQ(prove({"key", "key", "key"}, {"node", "node", "node"}),
            (std::vector<uint32_t>{3, 3, 3}));
}

TEST(GroupProof, ARankWithAnotherSecretIsNamed) {
  EXPECT_EQ(prove({"key", "key", "other"}, {"node", "node", "node"}),
            (std::vector<uint32_t>{2, 2, 0}));
}

TEST(GroupProof, AnAnswerIsOfOneGroup) {
  EXPECT_EQ(prove({"key", "key"}, {"node", "control"}),
            (std::vector<uint32_t>{1, 0}));
}

// Who has no secret sends back what it gets: the challenge, and then the answer
// of the other side.
TEST(GroupProof, AnEchoIsNoAnswer) {
  auto echo = [&](std::span<const Send> sends, std::span<const Recv> recvs) {
    std::copy_n(sends[0].data, sends[0].bytes, recvs[0].data);
  };
  EXPECT_EQ(proveToPeers({"key", "node", 0, 2}, echo), 1u);
}
