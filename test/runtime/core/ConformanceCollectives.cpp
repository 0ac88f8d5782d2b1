// SPDX-License-Identifier: Apache-2.0
//
// Tests gathers and reductions. Every rank has different data, every element is
// checked, and the bytes must equal the closed forms.

#include "Conformance.h"

#include <cmath>
#include <cstring>
#include <latch>
#include <numeric>
#include <random>

namespace fcdp::conformance {
namespace {

constexpr Mesh meshes[] = {{1, 1}, {2, 1}, {1, 2}, {3, 1}, {1, 3},
                           {4, 1}, {1, 4}, {2, 2}, {3, 2}, {2, 3}};

StreamId gatherStream(AxisId axis) {
  return axis == AxisId::Local ? StreamId::Intra : StreamId::Inter;
}

StreamId reduceStream(AxisId axis) {
  return axis == AxisId::Local ? StreamId::IntraReduce : StreamId::InterReduce;
}

uint32_t sizeOf(AxisId axis, const Mesh &mesh) {
  return axis == AxisId::Node ? mesh.nodes : mesh.locals;
}

/// Returns the parts that one rank sends over the world: to other nodes, and
/// within its node.
std::pair<uint64_t, uint64_t> worldParts(const Mesh &mesh) {
  return {mesh.size() - mesh.locals, mesh.locals - 1};
}

uint32_t positionOf(AxisId axis, const Place &place) {
  return axis == AxisId::Node ? place.node : place.local;
}

Collective makeGather(AxisId axis, const std::byte *in, std::byte *out,
                      size_t bytes) {
  Collective collective{};
  collective.axis = axis;
  collective.stream = gatherStream(axis);
  collective.in = in;
  collective.out = out;
  collective.bytes = bytes;
  collective.what = "all-gather of bucket 'b' (model.py:1)";
  return collective;
}

Collective makeReduction(AxisId axis, const std::byte *in, std::byte *out,
                         std::byte *scratch, size_t bytes, DType type) {
  Collective collective = makeGather(axis, in, out, bytes);
  collective.stream = reduceStream(axis);
  collective.scratch = scratch;
  collective.inType = collective.outType = type;
  collective.what = "reduce-scatter of bucket 'b' (model.py:1)";
  return collective;
}

/// Returns values whose sums depend on the order.
std::vector<float> randomValues(uint32_t seed, size_t count) {
  std::mt19937 random(seed);
  std::normal_distribution<float> distribution;
  std::vector<float> values(count);
  for (float &value : values)
    value = distribution(random) * std::exp2(float(int(random() % 20) - 10));
  return values;
}

/// Returns the bits of values, because -0 == 0 and NaN != NaN would blur
/// comparisons.
std::vector<uint32_t> bitsOf(const std::vector<float> &values) {
  std::vector<uint32_t> bits(values.size());
  std::memcpy(bits.data(), values.data(), values.size() * sizeof(float));
  return bits;
}

} // namespace

TEST_P(Conformance, AnAxisGathersInItsOrder) {
  for (const Mesh &shape : meshes)
    for (AxisId axis : {AxisId::Node, AxisId::Local})
      for (bool inPlace : {false, true})
        for (size_t count : {size_t(1), size_t(1000)}) {
          auto world = make(shape);
          size_t out = 1 << 16;
          onAllRanks(*world, [&](uint32_t rank, Backend &backend) {
            Place place = placeOf(shape, rank);
            std::vector<uint32_t> own(count);
            std::iota(own.begin(), own.end(), rank * 100000);
            size_t bytes = count * sizeof(uint32_t);
            size_t in = inPlace ? out + positionOf(axis, place) * bytes : 0;
            upload(rank, backend, in, own);
            std::byte *base = backend.deviceBase();
            backend.allGather(makeGather(axis, base + in, base + out, bytes));
            auto got = download<uint32_t>(rank, backend, out,
                                          count * sizeOf(axis, shape));
            ASSERT_FALSE(backend.failed()) << backend.failure();
            for (uint32_t peer = 0; peer < sizeOf(axis, shape); ++peer) {
              Place from = place;
              (axis == AxisId::Node ? from.node : from.local) = peer;
              for (size_t i = 0; i < count; ++i)
                ASSERT_EQ(got[peer * count + i],
                          worldRank(shape, from) * 100000 + i);
            }
          });
        }
}

// Rank (n, l) owns shard l N + n, so the gather over nodes gives a contiguous
// slice, and the gather over locals gives the bucket in order.
TEST_P(Conformance, TwoLevelGatherYieldsTheBucketInOrder) {
  for (const Mesh &shape : {Mesh{2, 2}, Mesh{3, 2}, Mesh{2, 3}}) {
    auto world = make(shape);
    const size_t shard = 96, bytes = shard * sizeof(uint32_t);
    const uint32_t N = shape.nodes, g = shape.locals;
    onAllRanks(*world, [&](uint32_t rank, Backend &backend) {
      Place place = placeOf(shape, rank);
      uint32_t owned = place.local * N + place.node;
      std::vector<uint32_t> own(shard);
      std::iota(own.begin(), own.end(), owned * shard);
      // In place, at the shard's own position in the bucket.
      upload(rank, backend, owned * bytes, own);
      std::byte *bucket = backend.deviceBase();
      std::byte *slice = bucket + place.local * N * bytes;
      backend.allGather(
          makeGather(AxisId::Node, bucket + owned * bytes, slice, bytes));
      backend.record(0, StreamId::Inter);
      backend.wait(0, StreamId::Intra);
      backend.allGather(makeGather(AxisId::Local, slice, bucket, N * bytes));
      auto got = download<uint32_t>(rank, backend, 0, shard * N * g);
      for (size_t i = 0; i < got.size(); ++i)
        ASSERT_EQ(got[i], i);
      ByteCounters counters = backend.counters();
      EXPECT_EQ(counters.links[LinkId::Inter], (N - 1) * bytes);
      EXPECT_EQ(counters.links[LinkId::Intra], (g - 1) * N * bytes);
    });
  }
}

TEST_P(Conformance, TwoLevelReductionYieldsTheOwnShard) {
  for (const Mesh &shape : {Mesh{2, 2}, Mesh{3, 2}, Mesh{2, 3}}) {
    auto world = make(shape);
    const uint32_t N = shape.nodes, g = shape.locals;
    const size_t shard = 160, total = shard * N * g;
    std::vector<std::vector<float>> grads;
    for (uint32_t rank = 0; rank < shape.size(); ++rank)
      grads.push_back(randomValues(rank + 1, total));
    // The canonical order: locals in a node first, then nodes.
    std::vector<float> expected(total);
    for (size_t i = 0; i < total; ++i)
      for (uint32_t n = 0; n < N; ++n) {
        float ofNode = grads[n * g][i];
        for (uint32_t l = 1; l < g; ++l)
          ofNode += grads[n * g + l][i];
        expected[i] = n == 0 ? ofNode : expected[i] + ofNode;
      }
    onAllRanks(*world, [&](uint32_t rank, Backend &backend) {
      Place place = placeOf(shape, rank);
      size_t bytes = total * sizeof(float), sliceBytes = bytes / g;
      size_t scratch = bytes, slice = 2 * bytes, out = 3 * bytes;
      upload(rank, backend, 0, grads[rank]);
      std::byte *base = backend.deviceBase();
      backend.reduceScatter(makeReduction(AxisId::Local, base, base + slice,
                                          base + scratch, bytes, DType::F32));
      backend.record(0, StreamId::IntraReduce);
      backend.wait(0, StreamId::InterReduce);
      backend.reduceScatter(makeReduction(AxisId::Node, base + slice,
                                          base + out, base + scratch,
                                          sliceBytes, DType::F32));
      auto got = download<float>(rank, backend, out, shard);
      size_t first = (place.local * N + place.node) * shard;
      std::vector<float> want(expected.begin() + first,
                              expected.begin() + first + shard);
      EXPECT_EQ(bitsOf(got), bitsOf(want)) << "rank " << rank;
      ByteCounters counters = backend.counters();
      EXPECT_EQ(counters.links[LinkId::Intra], bytes / g * (g - 1));
      EXPECT_EQ(counters.links[LinkId::Inter], sliceBytes / N * (N - 1));
    });
  }
}

TEST_P(Conformance, AWorldGatherYieldsTheBucketInOrder) {
  for (const Mesh &shape : meshes)
    for (bool inPlace : {false, true}) {
      auto world = make(shape);
      const size_t shard = 96, bytes = shard * sizeof(uint32_t);
      onAllRanks(*world, [&](uint32_t rank, Backend &backend) {
        uint32_t owned = shardOf(shape, placeOf(shape, rank));
        std::vector<uint32_t> own(shard);
        std::iota(own.begin(), own.end(), owned * shard);
        std::byte *bucket = backend.deviceBase();
        size_t in = inPlace ? owned * bytes : 1 << 16;
        upload(rank, backend, in, own);
        backend.allGather(
            makeGather(AxisId::World, bucket + in, bucket, bytes));
        auto got = download<uint32_t>(rank, backend, 0, shard * shape.size());
        ASSERT_FALSE(backend.failed()) << backend.failure();
        for (size_t i = 0; i < got.size(); ++i)
          ASSERT_EQ(got[i], i);
        auto [outside, within] = worldParts(shape);
        EXPECT_EQ(backend.counters().links[LinkId::Inter], outside * bytes);
        EXPECT_EQ(backend.counters().links[LinkId::Intra], within * bytes);
      });
    }
}

// Sums of bf16 are rounded within nodes before they are summed between nodes.
TEST_P(Conformance, AWorldReductionHasTheBitsOfTwoLevels) {
  for (const Mesh &shape :
       {Mesh{2, 2}, Mesh{3, 2}, Mesh{2, 3}, Mesh{4, 1}, Mesh{1, 4}, Mesh{1, 1}})
    for (DType type : {DType::F32, DType::BF16}) {
      auto world = make(shape);
      const uint32_t N = shape.nodes, g = shape.locals;
      const size_t shard = 160, total = shard * N * g;
      const size_t bytes = total * byteSize(type), sliceBytes = bytes / g;
      onAllRanks(*world, [&](uint32_t rank, Backend &backend) {
        size_t slice = 1 << 17, two = 2 << 17, one = 3 << 17, scratch = 4 << 17;
        // As bf16 these are twice as many values, of any exponent but the
        // greatest, whose sums would be infinite.
        std::vector<float> values = randomValues(rank + 1, total);
        upload(rank, backend, 0, values);
        std::byte *base = backend.deviceBase();
        auto reduce = [&](AxisId axis, size_t in, size_t out, size_t ofBytes,
                          DType outType) {
          Collective reduction = makeReduction(axis, base + in, base + out,
                                               base + scratch, ofBytes, type);
          reduction.outType = outType;
          backend.reduceScatter(reduction);
        };
        // An axis of one rank has no step.
        if (N == 1)
          reduce(AxisId::Local, 0, two, bytes, DType::F32);
        else if (g == 1)
          reduce(AxisId::Node, 0, two, bytes, DType::F32);
        else {
          reduce(AxisId::Local, 0, slice, bytes, type);
          backend.record(0, StreamId::IntraReduce);
          backend.wait(0, StreamId::InterReduce);
          reduce(AxisId::Node, slice, two, sliceBytes, DType::F32);
        }
        auto want = download<uint32_t>(rank, backend, two, shard);
        ByteCounters before = backend.counters();
        reduce(AxisId::World, 0, one, bytes, DType::F32);
        auto got = download<uint32_t>(rank, backend, one, shard);
        ASSERT_FALSE(backend.failed()) << backend.failure();
        EXPECT_EQ(got, want) << "rank " << rank;
        auto [outside, within] = worldParts(shape);
        size_t part = bytes / shape.size();
        ByteCounters after = backend.counters();
        EXPECT_EQ(after.links[LinkId::Inter] - before.links[LinkId::Inter],
                  outside * part);
        EXPECT_EQ(after.links[LinkId::Intra] - before.links[LinkId::Intra],
                  within * part);
      });
    }
}

TEST_P(Conformance, AReductionConverts) {
  for (const Mesh &shape : {Mesh{1, 1}, Mesh{2, 1}, Mesh{3, 1}}) {
    auto world = make(shape);
    onAllRanks(*world, [&](uint32_t rank, Backend &backend) {
      const size_t chunk = 5, total = chunk * shape.nodes;
      // The value is bf16 1 + rank, so that sums are exact.
      float own = 1.0f + rank;
      uint32_t bits;
      std::memcpy(&bits, &own, 4);
      upload(rank, backend, 0,
             std::vector<uint16_t>(total, uint16_t(bits >> 16)));
      std::byte *base = backend.deviceBase();
      Collective reduction = makeReduction(AxisId::Node, base, base + 8192,
                                           base + 4096, total * 2, DType::BF16);
      reduction.outType = DType::F32;
      backend.reduceScatter(reduction);
      float sum = float(shape.nodes * (shape.nodes + 1) / 2);
      EXPECT_EQ(download<float>(rank, backend, 8192, chunk),
                std::vector<float>(chunk, sum));
    });
  }
}

// In any other order the ones would be lost next to the large numbers.
TEST_P(Conformance, NumbersOfRanksAreSummedInTheOrderOfShards) {
  for (const Mesh &shape : meshes) {
    auto world = make(shape);
    const uint32_t ranks = shape.size();
    onAllRanks(*world, [&](uint32_t rank, Backend &backend) {
      uint32_t shard = shardOf(shape, placeOf(shape, rank));
      double own = shard == 0 ? 1e16 : shard == 1 ? -1e16 : 1;
      upload(rank, backend, 0, std::vector<double>{own});
      auto *number = reinterpret_cast<double *>(backend.deviceBase());
      backend.sumOverRanks(number, number + 1, "sum of numbers");
      double want = ranks == 1 ? 1e16 : ranks - 2;
      EXPECT_EQ(download<double>(rank, backend, 0, 1), std::vector{want});
      EXPECT_FALSE(backend.failed()) << backend.failure();
      ByteCounters counters = backend.counters();
      EXPECT_EQ(counters.controlSent, sizeof(double) * (ranks - 1));
      EXPECT_EQ(counters.links[LinkId::Inter] + counters.links[LinkId::Intra],
                0u);
    });
  }
}

TEST_P(Conformance, NoBytesMeansNoTransfer) {
  auto world = make(Mesh{2, 1});
  onAllRanks(*world, [&](uint32_t, Backend &backend) {
    std::byte *base = backend.deviceBase();
    backend.allGather(makeGather(AxisId::Node, base, base, 0));
    backend.reduceScatter(
        makeReduction(AxisId::Node, base, base, base, 0, DType::F32));
    backend.synchronize();
    EXPECT_FALSE(backend.failed()) << backend.failure();
    EXPECT_EQ(backend.counters().links[LinkId::Inter], 0u);
  });
}

// Many collectives in flight at once, over both axes.
TEST_P(Conformance, AxesOverlapWithoutMixing) {
  Mesh shape{2, 2};
  WorldOptions options;
  options.mesh = shape;
  options.queueCapacity = 4;
  auto world = make(options);
  const size_t bytes = 256, rounds = 200;
  onAllRanks(*world, [&](uint32_t rank, Backend &backend) {
    Place place = placeOf(shape, rank);
    upload(rank, backend, 0, std::vector<uint32_t>(bytes / 4, rank));
    std::byte *base = backend.deviceBase();
    for (size_t i = 0; i < rounds; ++i) {
      backend.allGather(makeGather(AxisId::Node, base, base + 4096, bytes));
      backend.allGather(makeGather(AxisId::Local, base, base + 8192, bytes));
    }
    auto nodes = download<uint32_t>(rank, backend, 4096, 2 * bytes / 4);
    auto locals = download<uint32_t>(rank, backend, 8192, 2 * bytes / 4);
    for (uint32_t peer = 0; peer < 2; ++peer)
      for (size_t i = 0; i < bytes / 4; ++i) {
        ASSERT_EQ(nodes[peer * bytes / 4 + i],
                  worldRank(shape, {peer, place.local}));
        ASSERT_EQ(locals[peer * bytes / 4 + i],
                  worldRank(shape, {place.node, peer}));
      }
    EXPECT_EQ(backend.counters().links[LinkId::Inter], rounds * bytes);
    EXPECT_EQ(backend.counters().links[LinkId::Intra], rounds * bytes);
  });
}

// Gathers and reductions in flight at once over one axis.
TEST_P(Conformance, GathersAndReductionsOverlapWithoutMixing) {
  for (AxisId axis : {AxisId::Node, AxisId::Local}) {
    Mesh shape = axis == AxisId::Node ? Mesh{3, 1} : Mesh{1, 3};
    WorldOptions options;
    options.mesh = shape;
    options.queueCapacity = 4;
    auto world = make(options);
    const size_t count = 96, bytes = count * sizeof(float), rounds = 200;
    onAllRanks(*world, [&](uint32_t rank, Backend &backend) {
      upload(rank, backend, 0, std::vector<float>(count, float(rank + 1)));
      std::byte *base = backend.deviceBase();
      for (size_t i = 0; i < rounds; ++i) {
        backend.allGather(makeGather(axis, base, base + 4096, bytes));
        backend.reduceScatter(makeReduction(axis, base, base + 8192,
                                            base + 12288, bytes, DType::F32));
      }
      auto gathered = download<float>(rank, backend, 4096, 3 * count);
      auto reduced = download<float>(rank, backend, 8192, count / 3);
      ASSERT_FALSE(backend.failed()) << backend.failure();
      for (size_t i = 0; i < gathered.size(); ++i)
        ASSERT_EQ(gathered[i], float(i / count + 1));
      for (float sum : reduced)
        ASSERT_EQ(sum, 6.0f);
      ByteCounters counters = backend.counters();
      uint64_t sent = rounds * (2 * bytes + 2 * bytes / 3);
      EXPECT_EQ(counters.links[LinkId::Inter], axis == AxisId::Node ? sent : 0);
      EXPECT_EQ(counters.links[LinkId::Intra],
                axis == AxisId::Local ? sent : 0);
    });
  }
}

// The last rank reduces only after the others' gathers are done.
TEST_P(Conformance, AGatherDoesNotWaitForAReduction) {
  for (AxisId axis : {AxisId::Node, AxisId::Local}) {
    Mesh shape = axis == AxisId::Node ? Mesh{2, 1} : Mesh{1, 2};
    WorldOptions options;
    options.mesh = shape;
    options.timeoutSeconds = 10;
    auto world = make(options);
    std::latch gathered(2);
    onAllRanks(*world, [&](uint32_t rank, Backend &backend) {
      std::byte *base = backend.deviceBase();
      auto reduce = [&] {
        backend.reduceScatter(makeReduction(axis, base, base + 4096,
                                            base + 8192, 64, DType::F32));
      };
      if (rank == 0)
        reduce();
      backend.allGather(makeGather(axis, base + 12288, base + 16384, 64));
      backend.record(0, gatherStream(axis));
      backend.wait(0, StreamId::Compute);
      EXPECT_FALSE(backend.failed()) << backend.failure();
      gathered.arrive_and_wait();
      if (rank == 1)
        reduce();
      backend.synchronize();
      EXPECT_FALSE(backend.failed()) << backend.failure();
    });
  }
}

TEST_P(Conformance, ADeadPeerFailsTheSurvivorsAndNobodyHangs) {
  auto world = make(Mesh{2, 1});
  world->kill(1);
  Backend &backend = world->backend(0);
  std::byte *base = backend.deviceBase();
  upload(0, backend, 64, std::vector<uint32_t>(16, 5));
  backend.allGather(makeGather(AxisId::Node, base, base + 4096, 64));
  backend.record(0, StreamId::Inter);
  backend.wait(0, StreamId::D2H);
  backend.copy(StreamId::D2H, backend.hostBase() + 4096, base + 64, 64);
  backend.wait(0, StreamId::Compute);
  backend.synchronize();
  ASSERT_TRUE(backend.failed());
  std::string text = backend.failure();
  for (const char *part : {"all-gather of bucket 'b'", "rank 0", "rank 1"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
  // Work that waited for the failed gather did not run.
  EXPECT_EQ(backend.hostBase()[4096], std::byte(0));
}

TEST_P(Conformance, TheHostDoesNotWaitForADeadPeer) {
  auto world = make(Mesh{2, 1});
  world->kill(1);
  Backend &backend = world->backend(0);
  std::byte *base = backend.deviceBase();
  backend.allGather(makeGather(AxisId::Node, base, base + 4096, 64));
  backend.record(0, StreamId::Inter);
  backend.waitOnHost(0);
  EXPECT_TRUE(backend.failed());
}

TEST_P(Conformance, ASilentPeerEndsAtTheTimeOut) {
  WorldOptions options;
  options.mesh = {2, 1};
  options.timeoutSeconds = 0.3;
  auto world = make(options);
  world->hang(1);
  Backend &backend = world->backend(0);
  std::byte *base = backend.deviceBase();
  backend.allGather(makeGather(AxisId::Node, base, base + 4096, 64));
  backend.synchronize();
  EXPECT_TRUE(backend.failed());
  EXPECT_NE(backend.failure().find("rank 1"), std::string::npos)
      << backend.failure();
}

// The other streams' collectives would end only at the time-out of 30 s.
TEST_P(Conformance, AFailureEndsTheOtherStreams) {
  auto world = make(Mesh{2, 2});
  world->hang(1); // node 0, local 1: the peer on the local axis
  Backend &backend = world->backend(0);
  std::byte *base = backend.deviceBase();
  backend.allGather(makeGather(AxisId::Local, base, base + 4096, 64));
  backend.reduceScatter(makeReduction(AxisId::Local, base, base + 12288,
                                      base + 16384, 64, DType::F32));
  world->kill(2); // node 1, local 0: the peer on the node axis
  auto start = std::chrono::steady_clock::now();
  backend.allGather(makeGather(AxisId::Node, base, base + 8192, 64));
  backend.synchronize();
  EXPECT_TRUE(backend.failed());
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

// The same holds for a collective over all ranks while another stream waits
// over one axis.
TEST_P(Conformance, AFailureEndsTheCollectivesOverTheWorld) {
  auto world = make(Mesh{2, 2});
  world->hang(3); // node 1, local 1: only the world joins it with rank 0
  Backend &backend = world->backend(0);
  std::byte *base = backend.deviceBase();
  backend.allGather(makeGather(AxisId::World, base, base + 4096, 64));
  backend.reduceScatter(makeReduction(AxisId::World, base, base + 12288,
                                      base + 16384, 64, DType::F32));
  world->kill(1);
  auto start = std::chrono::steady_clock::now();
  backend.allGather(makeGather(AxisId::Local, base, base + 8192, 64));
  backend.synchronize();
  EXPECT_TRUE(backend.failed());
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Conformance);

} // namespace fcdp::conformance
