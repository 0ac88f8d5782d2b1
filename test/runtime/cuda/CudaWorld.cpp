// SPDX-License-Identifier: Apache-2.0

#include "CudaWorld.h"
#include "fake/FakeNccl.h"
#include "nccl/NcclMemory.h"

#include <atomic>
#include <unistd.h>

namespace fcdp {

static std::atomic<int> worlds{0};

std::shared_ptr<const CudaLibrary> fakeCuda() {
  static auto library = CudaLibrary::load(FCDP_FAKE_CUDART);
  return library;
}

std::shared_ptr<const NcclLibrary> fakeNccl() {
  static auto library = NcclLibrary::load(FCDP_FAKE_NCCL);
  return library;
}

IdExchange exchangeOver(MemoryStore &store) {
  return {[&](const std::string &key, const std::string &value) {
            store.set(key, value);
          },
          [&](const std::string &key, double seconds) {
            return store.get(key, seconds);
          }};
}

CudaWorld::CudaWorld(const conformance::WorldOptions &options,
                     fake::Policy policy, std::array<WarmUp, kNumAxes> messages,
                     bool reducesByLibrary, OnBlocked onBlocked)
    : mesh(options.mesh), messages(std::move(messages)),
      reducesByLibrary(reducesByLibrary), onBlocked(std::move(onBlocked)),
      store(std::make_shared<MemoryStore>()) {
  int world = ++worlds;
  fake::resetNccl();
  {
    fake::Machine &machine = fake::Machine::instance();
    std::lock_guard<std::recursive_mutex> lock(machine.mutex);
    machine.setPolicy(policy, uint32_t(world));
    machine.failure.clear();
  }
  std::vector<uint32_t> everybody;
  for (uint32_t rank = 0; rank < mesh.size(); ++rank)
    everybody.push_back(rank);
  controlGroup =
      std::make_unique<InProcessGroup>(everybody, options.timeoutSeconds);
  controls.resize(mesh.size());
  backends.resize(mesh.size());
  std::string name =
      "cuda-" + std::to_string(getpid()) + "-" + std::to_string(world);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < mesh.size(); ++rank)
    threads.emplace_back([&, rank] { makeRank(rank, options, name); });
  for (std::thread &thread : threads)
    thread.join();
}

CudaWorld::~CudaWorld() {
  // Destroy them at the same time, as processes would, because a rank that ends
  // waits for its peers.
  std::vector<std::thread> threads;
  for (auto &backend : backends)
    threads.emplace_back([&] { backend.reset(); });
  for (std::thread &thread : threads)
    thread.join();
  fake::Machine &machine = fake::Machine::instance();
  std::lock_guard<std::recursive_mutex> lock(machine.mutex);
  EXPECT_EQ(machine.failure, "");
}

void CudaWorld::kill(uint32_t rank) { fake::killDevice(int(rank)); }
void CudaWorld::hang(uint32_t rank) { fake::hangDevice(int(rank)); }

void CudaWorld::makeRank(uint32_t rank, const conformance::WorldOptions &world,
                         const std::string &name) {
  Place place = placeOf(mesh, rank);
  CudaBackendOptions options;
  options.cuda = fakeCuda();
  options.device = int(rank);
  options.deviceBytes = world.deviceBytes;
  options.messages = messages;
  options.reducesByLibrary = reducesByLibrary;
  options.memory = ncclMemory(fakeNccl());
  options.numEvents = world.numEvents;
  options.worldRank = rank;
  options.ranksPerNode = mesh.locals;
  options.collectiveSeconds = world.timeoutSeconds;
  options.noticeSeconds = noticeSeconds;
  options.onBlocked = onBlocked;
  HostCacheOptions cache;
  cache.device = int(rank);
  cache.segment.name = name + "-" + std::to_string(place.node);
  cache.segment.local = place.local;
  cache.segment.locals = mesh.locals;
  cache.segment.bytes = world.hostBytes;
  // Ranks of the tests use all of it.
  cache.segment.part = {0, world.hostBytes};
  options.host = CudaHostCache(fakeCuda(), cache);
  NcclAxesOptions groups;
  groups.nccl = fakeNccl();
  groups.cuda = fakeCuda();
  groups.device = int(rank);
  groups.mesh = mesh;
  groups.place = place;
  groups.worldGroups = {true, true};
  groups.hasAll = true;
  groups.ids = exchangeOver(*store);
  options.axes = joinAxes(groups);
  options.all = joinAll(groups);
  controls[rank] = controlGroup->join(rank);
  options.control = controls[rank].get();
  backends[rank] = makeCudaBackend(std::move(options));
}

} // namespace fcdp
