// SPDX-License-Identifier: Apache-2.0
//
// Tests what the conformance suite does not cover: the small control
// collectives, and misuse. The conformance suite tests gathers and reductions.

#include "transports/Collectives.h"
#include "transports/InProcessTransport.h"

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

// In f32, 2^25 + 1 is 2^25: the order of a sum shows. Rank l N + n is local
// rank l of node n; ranks of a node are added first.
TEST(Collectives, SumsAreInTheOrderOfRanks) {
  constexpr float big = 0x1p25F;
  const float values[] = {big, -big, 1, 1};
  for (auto [locals, expected] : {std::pair(1, 2.F), {2, 0.F}, {4, 2.F}})
    onRanks(4, [&, locals = locals, expected = expected](Transport &transport) {
      std::vector<float> in(4, values[transport.rank()]), chunks(4);
      float out = -1;
      CollectiveScratch scratch;
      scratch.reserve(4);
      Collective reduction{};
      reduction.stream = StreamId::IntraReduce;
      reduction.in = reinterpret_cast<std::byte *>(in.data());
      reduction.out = reinterpret_cast<std::byte *>(&out);
      reduction.scratch = reinterpret_cast<std::byte *>(chunks.data());
      reduction.bytes = sizeof(float) * in.size();
      reduction.inType = reduction.outType = DType::F32;
      reduction.what = "reduce-scatter of bucket 'b'";
      reduceScatter(transport, reduction, scratch, size_t(locals));
      EXPECT_EQ(out, expected) << locals << " ranks in a node";
    });
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

namespace {

/// Buffers of one rank of a coded collective of parts of `count` bf16 values.
struct CodedBuffers {
  CodedBuffers(uint32_t ranks, size_t count)
      : in(count), out(ranks * count), cache(ranks * count),
        messages(codedReductionBytes(ranks, 2 * count)) {
    scratch.reserve(ranks);
    scratch.codec.reserve();
  }

  Collective gather(uint64_t generation) {
    Collective gather{};
    gather.axis = AxisId::Node;
    gather.stream = StreamId::Inter;
    gather.in = reinterpret_cast<const std::byte *>(in.data());
    gather.out = reinterpret_cast<std::byte *>(out.data());
    gather.bytes = 2 * in.size();
    gather.inType = gather.outType = DType::BF16;
    gather.what = "all-gather of bucket 'b'";
    gather.message.code = WireCode::Delta;
    gather.message.memory = messages.data();
    gather.message.reference =
        reinterpret_cast<const std::byte *>(cache.data());
    gather.message.generation = generation;
    return gather;
  }

  std::vector<uint16_t> in, out, cache;
  std::vector<std::byte> messages;
  CollectiveScratch scratch;
};

/// The value of one rank in one step. Few values change from step to step.
uint16_t valueOf(uint32_t rank, size_t index, int step) {
  return uint16_t(0x3f80 + 64 * rank + index % 64 + (index % 50 == 0) * step);
}

} // namespace

TEST(Collectives, GathersOfDifferencesSendWhatHasChanged) {
  constexpr size_t count = 20000;
  for (uint32_t size : {1, 2, 3, 4})
    onRanks(size, [&](Transport &transport) {
      CodedBuffers buffers(size, count);
      for (int step = 0; step < 4; ++step) {
        for (size_t i = 0; i < count; ++i)
          buffers.in[i] = valueOf(transport.rank(), i, step);
        uint64_t before = transport.bytesSent();
        allGather(transport, buffers.gather(step), buffers.scratch);
        for (uint32_t rank = 0; rank < size; ++rank)
          for (size_t i = 0; i < count; ++i)
            ASSERT_EQ(buffers.out[rank * count + i], valueOf(rank, i, step));
        buffers.cache = buffers.out;
        uint64_t sent = transport.bytesSent() - before;
        if (step == 0)
          EXPECT_EQ(sent, (size - 1) * (kMessageHeaderBytes +
                                        kChunkHeaderBytes + 2 * count));
        else
          EXPECT_LE(sent, (size - 1) * count / 8);
      }
    });
}

TEST(Collectives, AGatherThatRefersToSomethingElseIsRefusedByName) {
  onRanks(2, [&](Transport &transport) {
    CodedBuffers buffers(2, 1000);
    // Rank 1 has another slice than rank 0 of rank 0's part.
    buffers.cache[5] = uint16_t(transport.rank());
    try {
      allGather(transport, buffers.gather(1), buffers.scratch);
      EXPECT_EQ(transport.rank(), 0u);
    } catch (const TransportError &error) {
      EXPECT_EQ(transport.rank(), 1u);
      EXPECT_EQ(std::string(error.what()),
                "all-gather of bucket 'b': rank 1: the coded message of rank "
                "0: its values do not have the sender's checksum: the message "
                "is damaged, or was coded with other values than the last "
                "gathered ones");
    }
  });
}

TEST(Collectives, CodedReductionsHaveTheBitsOfRawOnes) {
  constexpr size_t count = 4000;
  for (uint32_t size : {1, 2, 3, 4})
    onRanks(size, [&](Transport &transport) {
      CodedBuffers buffers(size, count);
      std::vector<uint16_t> in(size * count), chunks(size * count);
      for (size_t i = 0; i < in.size(); ++i)
        in[i] = uint16_t(0x3c00 + (i * 37 + transport.rank() * 91) % 900);
      std::vector<float> sums[2] = {std::vector<float>(count),
                                    std::vector<float>(count)};
      uint64_t sent[2];
      for (bool coded : {false, true}) {
        Collective reduce = buffers.gather(0);
        reduce.stream = StreamId::InterReduce;
        reduce.in = reinterpret_cast<const std::byte *>(in.data());
        reduce.out = reinterpret_cast<std::byte *>(sums[coded].data());
        reduce.scratch = reinterpret_cast<std::byte *>(chunks.data());
        reduce.bytes = 2 * in.size();
        reduce.outType = DType::F32;
        reduce.message.code = coded ? WireCode::Coded : WireCode::Raw;
        uint64_t before = transport.bytesSent();
        reduceScatter(transport, reduce, buffers.scratch);
        sent[coded] = transport.bytesSent() - before;
      }
      EXPECT_EQ(sums[0], sums[1]);
      EXPECT_EQ(sent[0], (size - 1) * 2 * count);
      if (size > 1)
        EXPECT_LT(double(sent[1]), 0.8 * double(sent[0]));
    });
}

TEST(Collectives, CodedMessagesNeedMemory) {
  SingleTransport single(0);
  CodedBuffers buffers(1, 10);
  buffers.scratch.codec = {};
  EXPECT_THROW(allGather(single, buffers.gather(0), buffers.scratch),
               std::runtime_error);
}
