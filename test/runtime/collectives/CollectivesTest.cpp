// SPDX-License-Identifier: Apache-2.0
//
// Tests what the conformance suite does not cover: the small control
// collectives, and misuse. The conformance suite tests gathers and reductions.

#include "collectives/Collectives.h"
#include "collectives/InProcessTransport.h"

#include <functional>
#include <gtest/gtest.h>
#include <thread>

using namespace fcdp;

static void onRanks(uint32_t size,
                    const std::function<void(Transport &)> &body) {
  std::vector<uint32_t> worldRanks;
  for (uint32_t rank = 0; rank < size; ++rank)
    worldRanks.push_back(rank);
  InProcessGroup group(worldRanks);
  std::vector<std::unique_ptr<Transport>> transports;
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < size; ++rank)
    transports.push_back(group.join(rank));
  for (auto &transport : transports)
    threads.emplace_back([&] { body(*transport); });
  for (std::thread &thread : threads)
    thread.join();
}

TEST(Collectives, ValuesAreGatheredInRankOrder) {
  for (uint32_t size : {1, 2, 3, 4})
    onRanks(size, [&](Transport &transport) {
      double own[] = {transport.rank() + 0.5, transport.rank() * 1e-300};
      auto all = gatherValues(transport, own, "losses");
      ASSERT_EQ(all.size(), 2 * size);
      for (uint32_t rank = 0; rank < size; ++rank) {
        EXPECT_EQ(all[2 * rank], rank + 0.5);
        EXPECT_EQ(all[2 * rank + 1], rank * 1e-300);
      }
      EXPECT_EQ(transport.bytesSent(), 16u * (size - 1));
    });
}

TEST(Collectives, ABarrierWaitsForAll) {
  std::atomic<uint32_t> arrived{0};
  onRanks(4, [&](Transport &transport) {
    std::this_thread::sleep_for(
        std::chrono::milliseconds(20 * transport.rank()));
    ++arrived;
    barrier(transport, "barrier");
    EXPECT_EQ(arrived.load(), 4u);
  });
}

TEST(Collectives, RefuseUnequalChunks) {
  SingleTransport single(0);
  CollectiveScratch scratch;
  float value = 0, out = 0;
  Collective reduction{};
  reduction.in = reinterpret_cast<std::byte *>(&value);
  reduction.out = reinterpret_cast<std::byte *>(&out);
  reduction.bytes = 3;
  reduction.inType = reduction.outType = DType::F32;
  reduction.what = "reduce-scatter of bucket 'b'";
  try {
    reduceScatter(single, reduction, scratch);
    FAIL();
  } catch (const std::runtime_error &error) {
    EXPECT_STREQ(error.what(), "reduce-scatter of bucket 'b': cannot cut 3 "
                               "bytes of f32 in 1 equal chunks");
  }
}

TEST(Collectives, RefuseNodesThatDoNotFillTheWorld) {
  SingleTransport single(0);
  CollectiveScratch scratch;
  float value = 0, out = 0;
  Collective reduction{};
  reduction.in = reinterpret_cast<std::byte *>(&value);
  reduction.out = reinterpret_cast<std::byte *>(&out);
  reduction.bytes = 4;
  reduction.inType = reduction.outType = DType::F32;
  reduction.what = "reduce-scatter of bucket 'b'";
  try {
    reduceScatter(single, reduction, scratch, /*locals=*/2);
    FAIL();
  } catch (const std::runtime_error &error) {
    EXPECT_STREQ(error.what(), "reduce-scatter of bucket 'b': cannot group 1 "
                               "ranks as nodes of 2");
  }
}
