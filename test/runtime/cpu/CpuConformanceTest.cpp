// SPDX-License-Identifier: Apache-2.0
//
// Runs the conformance suite on the CPU backend, with threads as ranks.

#include "Conformance.h"
#include "cpu/CpuBackend.h"
#include "transports/InProcessTransport.h"

#include <array>
#include <atomic>
#include <numeric>
#include <unistd.h>

using namespace fcdp;
using namespace fcdp::conformance;

namespace {

std::atomic<int> worlds{0};

class CpuWorld final : public World {
public:
  explicit CpuWorld(const WorldOptions &options) : mesh(options.mesh) {
    for (uint32_t local = 0; local < mesh.locals; ++local) {
      std::vector<uint32_t> ranks;
      for (uint32_t node = 0; node < mesh.nodes; ++node)
        ranks.push_back(worldRank(mesh, {node, local}));
      nodeGroups.push_back(makeGroups(ranks, options.timeoutSeconds));
    }
    for (uint32_t node = 0; node < mesh.nodes; ++node) {
      std::vector<uint32_t> ranks;
      for (uint32_t local = 0; local < mesh.locals; ++local)
        ranks.push_back(worldRank(mesh, {node, local}));
      localGroups.push_back(makeGroups(ranks, options.timeoutSeconds));
    }
    std::vector<uint32_t> inShardOrder;
    for (uint32_t local = 0; local < mesh.locals; ++local)
      for (uint32_t node = 0; node < mesh.nodes; ++node)
        inShardOrder.push_back(worldRank(mesh, {node, local}));
    worldGroups = makeGroups(inShardOrder, options.timeoutSeconds);
    std::vector<uint32_t> everybody(mesh.size());
    std::iota(everybody.begin(), everybody.end(), 0);
    controlGroup =
        std::make_unique<InProcessGroup>(everybody, options.timeoutSeconds);
    controls.resize(mesh.size());
    std::string name = "conformance-" + std::to_string(getpid()) + "-" +
                       std::to_string(++worlds);
    backends.resize(mesh.size());
    transports.resize(2 * kNumAxes * mesh.size());
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < mesh.size(); ++rank)
      threads.emplace_back([&, rank] { makeRank(rank, options, name); });
    for (std::thread &thread : threads)
      thread.join();
  }
  ~CpuWorld() override { backends.clear(); }

  Backend &backend(uint32_t rank) override { return *backends[rank]; }
  void kill(uint32_t rank) override {
    Place place = placeOf(mesh, rank);
    for (auto &group : nodeGroups[place.local])
      group->kill(place.node);
    for (auto &group : localGroups[place.node])
      group->kill(place.local);
    for (auto &group : worldGroups)
      group->kill(shardOf(mesh, place));
  }
  void hang(uint32_t rank) override {
    Place place = placeOf(mesh, rank);
    for (auto &group : nodeGroups[place.local])
      group->hang(place.node);
    for (auto &group : localGroups[place.node])
      group->hang(place.local);
    for (auto &group : worldGroups)
      group->hang(shardOf(mesh, place));
  }

private:
  /// The groups of gathers and of reductions.
  using Groups = std::array<std::unique_ptr<InProcessGroup>, 2>;

  static Groups makeGroups(const std::vector<uint32_t> &ranks,
                           double timeoutSeconds) {
    return {std::make_unique<InProcessGroup>(ranks, timeoutSeconds),
            std::make_unique<InProcessGroup>(ranks, timeoutSeconds)};
  }
  /// Joins both groups, and keeps the transports from index `first` on.
  AxisTransports join(Groups &groups, uint32_t position, size_t first) {
    for (size_t i = 0; i < groups.size(); ++i)
      transports[first + i] = groups[i]->join(position);
    return {transports[first].get(), transports[first + 1].get()};
  }
  void makeRank(uint32_t rank, const WorldOptions &world,
                const std::string &name) {
    Place place = placeOf(mesh, rank);
    HostSegmentOptions segment;
    segment.name = name + "-" + std::to_string(place.node);
    segment.local = place.local;
    segment.locals = mesh.locals;
    segment.bytes = world.hostBytes;
    segment.part = {0, world.hostBytes};
    CpuBackendOptions options;
    options.deviceBytes = world.deviceBytes;
    options.numEvents = world.numEvents;
    options.host = HostSegment(segment);
    size_t first = 2 * kNumAxes * rank;
    options.node = join(nodeGroups[place.local], place.node, first);
    options.local = join(localGroups[place.node], place.local, first + 2);
    options.world = join(worldGroups, shardOf(mesh, place), first + 4);
    options.ranksPerNode = mesh.locals;
    controls[rank] = controlGroup->join(rank);
    options.control = controls[rank].get();
    options.queueCapacity = world.queueCapacity;
    backends[rank] = makeCpuBackend(std::move(options));
  }

  Mesh mesh;
  std::vector<Groups> nodeGroups, localGroups;
  Groups worldGroups;
  std::unique_ptr<InProcessGroup> controlGroup;
  std::vector<std::unique_ptr<Transport>> transports, controls;
  std::vector<std::unique_ptr<Backend>> backends;
};

} // namespace

INSTANTIATE_TEST_SUITE_P(Cpu, Conformance,
                         testing::Values(Factory{
                             "InProcess",
                             [](const WorldOptions &options) {
                               return std::make_unique<CpuWorld>(options);
                             }}),
                         [](const auto &info) { return info.param.name; });

TEST(CpuBackend, RefusesACollectiveThatNoTransportIsGivenFor) {
  CpuBackendOptions options;
  options.deviceBytes = 4096;
  SingleTransport single(0);
  options.node = {&single, nullptr};
  auto backend = makeCpuBackend(std::move(options));
  Collective collective{};
  collective.axis = AxisId::Node;
  collective.stream = StreamId::Inter;
  collective.in = collective.out = backend->deviceBase();
  collective.bytes = 64;
  collective.what = "all-gather of bucket 'b'";
  backend->allGather(collective);
  backend->synchronize();
  EXPECT_FALSE(backend->failed()) << backend->failure();
  EXPECT_THROW(backend->reduceScatter(collective), std::runtime_error);
  collective.axis = AxisId::World;
  try {
    backend->allGather(collective);
    FAIL();
  } catch (const std::runtime_error &error) {
    EXPECT_STREQ(error.what(), "all-gather of bucket 'b': the backend was "
                               "given no transport for it");
  }
}
