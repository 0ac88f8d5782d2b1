// SPDX-License-Identifier: Apache-2.0
//
// Tests how groups on NCCL begin and end.

#include "CudaWorld.h"
#include "core/LibrarySettings.h"
#include "cuda/StreamTable.h"
#include "fake/FakeNccl.h"
#include "nccl/NcclAxes.h"
#include "nccl/NcclMemory.h"
#include "nccl/SharedMemory.h"

#include <chrono>
#include <cstdlib>
#include <future>

using namespace fcdp;

namespace {

class Nccl : public testing::Test {
protected:
  Nccl() {
    fake::resetNccl();
    fake::Machine &machine = fake::Machine::instance();
    std::lock_guard<std::recursive_mutex> lock(machine.mutex);
    machine.setPolicy(fake::Policy::Late, 0);
    machine.calls.clear();
  }

  NcclGroupOptions options(uint32_t rank, std::vector<uint32_t> worldRanks) {
    NcclGroupOptions made;
    made.nccl = nccl;
    made.cuda = fakeCuda();
    made.device = int(worldRanks[rank]);
    made.worldRanks = std::move(worldRanks);
    made.rank = rank;
    made.ids = exchangeOver(*store);
    made.name = "node-gather";
    made.joinSeconds = joinSeconds;
    return made;
  }
  /// Returns all ranks' groups, or their errors.
  std::vector<std::unique_ptr<DeviceGroup>>
  joinAll(const std::vector<uint32_t> &worldRanks,
          std::vector<std::string> &errors) {
    std::vector<std::unique_ptr<DeviceGroup>> groups(worldRanks.size());
    errors.assign(worldRanks.size(), "");
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < worldRanks.size(); ++rank)
      threads.emplace_back([&, rank] {
        try {
          auto group = makeNcclGroup(options(rank, worldRanks));
          DeviceArena memory(fakeCuda(), 64 * gatheredBytes,
                             cudaMemory(fakeCuda()));
          group->connect({{gatheredBytes}, {32}}, memory.base(), memory.size());
          groups[rank] = std::move(group);
        } catch (const std::exception &error) {
          errors[rank] = error.what();
        }
      });
    for (std::thread &thread : threads)
      thread.join();
    return groups;
  }
  static void endAll(std::vector<std::unique_ptr<DeviceGroup>> &groups) {
    std::vector<std::thread> threads;
    for (auto &group : groups)
      threads.emplace_back([&] { group.reset(); });
    for (std::thread &thread : threads)
      thread.join();
  }
  static uint64_t calls(const char *entryPoint) {
    fake::Machine &machine = fake::Machine::instance();
    std::lock_guard<std::recursive_mutex> lock(machine.mutex);
    return machine.calls[entryPoint];
  }

  /// Registers memory of that source with two ranks' groups. Returns what each
  /// of them has obtained, and `liveText` then.
  std::vector<std::pair<Registration, std::string>>
  registerAll(const DeviceMemorySource &source) {
    // The ids of other groups are not theirs.
    store = std::make_unique<MemoryStore>();
    std::vector<std::string> errors;
    std::array<DeviceArena, 2> arenas{DeviceArena(fakeCuda(), 4096, source),
                                      DeviceArena(fakeCuda(), 4096, source)};
    auto groups = joinAll({0, 1}, errors);
    EXPECT_EQ(errors, std::vector<std::string>(2));
    std::array<std::future<Registration>, 2> made;
    for (size_t rank = 0; rank < 2; ++rank)
      made[rank] = std::async(std::launch::async, [&, rank] {
        return groups[rank]->registerMemory(arenas[rank].base(), 4096);
      });
    // The other rank may still register when the first has failed.
    for (auto &one : made)
      one.wait();
    std::shared_ptr<void> end(nullptr, [&](void *) { endAll(groups); });
    Registration first = made[0].get(), second = made[1].get();
    return {{first, liveText()}, {second, liveText()}};
  }
  static std::string liveText() {
    return std::to_string(fake::liveRegistrations() + fake::liveWindows()) +
           " registrations, " + std::to_string(fake::liveWindows()) +
           " of them windows";
  }

  /// Joins the ranks of a node by `joinAxes`, registers their arenas, and has
  /// them exchange chunks of 8 bytes. Returns what each has received.
  std::vector<std::string> exchangeInNode(bool endsAfterFailure) {
    std::vector<std::string> received(2);
    MemoryStore store;
    // Loaded again for its version.
    std::shared_ptr<const NcclLibrary> library =
        NcclLibrary::load(FCDP_FAKE_NCCL);
    auto run = [&](uint32_t rank) {
      NcclAxesOptions axes;
      axes.nccl = library;
      axes.cuda = fakeCuda();
      axes.device = int(rank);
      axes.mesh = {1, 2};
      axes.place = {0, rank};
      axes.nodeGroups = {false, false};
      axes.ids = exchangeOver(store);
      axes.endsAfterFailure = endsAfterFailure;
      NcclAxes made = joinAxes(axes);
      DeviceGroup &group = *made[size_t(AxisId::Local)].reduce;
      DeviceArena arena(fakeCuda(), 4096, ncclMemory(library));
      (void)group.registerMemory(arena.base(), 4096);
      group.connect({{}, {8}, {}}, arena.base(), arena.size());
      auto text = [&](size_t at) {
        return reinterpret_cast<char *>(
            fake::Machine::instance().translate(arena.base() + at, 8));
      };
      for (size_t peer = 0; peer < 2; ++peer)
        std::snprintf(text(peer * 8), 8, "%u to %zu", rank, peer);
      fakeCuda()->useDevice(int(rank));
      StreamTable streams(fakeCuda(), int(rank));
      group.exchangeChunks(arena.base(), arena.base() + 1024, 8,
                           streams.at(StreamId::Intra));
      while (!streams.isIdle(StreamId::Intra))
        std::this_thread::yield();
      received[rank] = text(1024 + (1 - rank) * 8);
    };
    auto first = std::async(std::launch::async, run, 0),
         second = std::async(std::launch::async, run, 1);
    first.get();
    second.get();
    return received;
  }

  std::unique_ptr<MemoryStore> store = std::make_unique<MemoryStore>();
  std::shared_ptr<const NcclLibrary> nccl = fakeNccl();
  /// Long enough for a busy machine. Tests of the time-out have less.
  double joinSeconds = 60;
  /// Bytes of the first gather, from each rank.
  size_t gatheredBytes = 64;
};

std::string ncclLoadError(const std::string &path) {
  try {
    NcclLibrary::load(path);
  } catch (const std::runtime_error &error) {
    return error.what();
  }
  return "";
}

} // namespace

TEST_F(Nccl, AnOldVersionIsRefused) {
  fake::setNcclVersion(22605);
  EXPECT_EQ(ncclLoadError(FCDP_FAKE_NCCL),
            "expected NCCL of version 2.27.0 or newer, found version 2.26.5 "
            "as " FCDP_FAKE_NCCL);
  fake::setNcclVersion(22700);
  EXPECT_EQ(ncclLoadError(FCDP_FAKE_NCCL), "");
}

TEST_F(Nccl, ALibraryThatIsNotThereIsNamed) {
  std::string error = ncclLoadError("/nowhere/libnccl.so.2");
  EXPECT_NE(error.find("NCCL is not found: expected version 2.27.0 or newer"),
            std::string::npos)
      << error;
  EXPECT_NE(error.find("/nowhere/libnccl.so.2"), std::string::npos) << error;
}

TEST_F(Nccl, ALibraryThatIsAnotherIsRefused) {
  EXPECT_NE(ncclLoadError(FCDP_FAKE_CUDART).find("found version 0.0.0"),
            std::string::npos);
}

TEST(SharedMemory, LittleIsNamedWithTheRemedy) {
  EXPECT_EQ(describeSmallSharedMemory("/dev/shm", uint64_t(64) << 20),
            "/dev/shm has 64 MiB, through which NCCL connects the ranks of "
            "this machine, and its documentation asks for 1024: if it fails, "
            "start the container with --shm-size=1g or --ipc=host");
  EXPECT_EQ(describeSmallSharedMemory("/dev/shm", uint64_t(1) << 30), "");
  EXPECT_EQ(describeSmallSharedMemory("/nowhere"), "");
}

TEST_F(Nccl, GroupsEndInGoodOrder) {
  size_t before = fake::liveCommunicators();
  std::vector<std::string> errors;
  auto groups = joinAll({2, 5, 7}, errors);
  EXPECT_EQ(errors, std::vector<std::string>(3));
  EXPECT_EQ(fake::liveCommunicators() - before, 3u);
  EXPECT_EQ(groups[1]->describePeers(), "ranks 2, 7");
  endAll(groups);
  EXPECT_EQ(fake::liveCommunicators(), before);
  EXPECT_EQ(calls("ncclCommDestroy"), 3u);
  EXPECT_EQ(calls("ncclCommAbort"), 0u);
}

TEST_F(Nccl, SharedMemoryBecomesAWindow) {
  for (const auto &[one, what] : registerAll(ncclMemory(fakeNccl()))) {
    EXPECT_EQ(one.kind, Registration::Kind::Window);
    EXPECT_EQ(one.problem, "");
    EXPECT_EQ(what, "2 registrations, 2 of them windows");
  }
  EXPECT_EQ(liveText(), "0 registrations, 0 of them windows");
}

TEST_F(Nccl, WithoutAWindowItIsABuffer) {
  fake::failRegistrations(fake::RegistrationFault::NoWindows);
  for (const auto &[one, what] : registerAll(ncclMemory(fakeNccl()))) {
    EXPECT_EQ(one.kind, Registration::Kind::Buffer);
    EXPECT_EQ(one.problem, "");
    EXPECT_EQ(what, "2 registrations, 0 of them windows");
  }
  EXPECT_EQ(liveText(), "0 registrations, 0 of them windows");
}

TEST_F(Nccl, CopyEnginesExchangeWithinANodeIfTheProcessEndsAfterFailures) {
  const std::vector<std::string> expected{"1 to 0", "0 to 1"};
  EXPECT_EQ(exchangeInNode(/*endsAfterFailure=*/true), expected);
  EXPECT_EQ(calls("ncclAlltoAll"), 4u); // two ranks, first and second time
  EXPECT_EQ(calls("ncclSend"), 0u);
  EXPECT_EQ(exchangeInNode(/*endsAfterFailure=*/false), expected);
  EXPECT_EQ(calls("ncclAlltoAll"), 4u);
  EXPECT_EQ(calls("ncclSend"), 4u);
}

TEST_F(Nccl, WithoutAWindowOrBefore2_28MultiprocessorsExchange) {
  const std::vector<std::string> expected{"1 to 0", "0 to 1"};
  fake::failRegistrations(fake::RegistrationFault::NoWindows);
  EXPECT_EQ(exchangeInNode(/*endsAfterFailure=*/true), expected);
  fake::resetNccl();
  fake::setNcclVersion(NCCL_VERSION(2, 27, 3));
  EXPECT_EQ(exchangeInNode(/*endsAfterFailure=*/true), expected);
  EXPECT_EQ(calls("ncclAlltoAll"), 0u);
  EXPECT_EQ(calls("ncclSend"), 8u);
}

TEST_F(Nccl, AWindowThatIsALocalRegistrationIsABuffer) {
  fake::setNcclVersion(NCCL_VERSION(2, 28, 9));
  fake::failRegistrations(fake::RegistrationFault::LocalWindows);
  nccl = NcclLibrary::load(FCDP_FAKE_NCCL);
  for (const auto &[one, what] : registerAll(ncclMemory(nccl))) {
    EXPECT_EQ(one.kind, Registration::Kind::Buffer);
    EXPECT_EQ(describe({one}),
              "NCCL has the device arena as buffer of node-gather");
  }
  EXPECT_EQ(liveText(), "0 registrations, 0 of them windows");
  // Others are windows, whose memory is also registered as a buffer.
  fake::failRegistrations(fake::RegistrationFault::None);
  EXPECT_EQ(registerAll(ncclMemory(nccl))[0].first.kind,
            Registration::Kind::Window);
  EXPECT_EQ(liveText(), "0 registrations, 0 of them windows");
}

// cudaMalloc's memory cannot be mapped by other ranks.
TEST_F(Nccl, OtherMemoryIsAnError) {
  EXPECT_THROW(registerAll(cudaMemory(fakeCuda())), DeviceGroupError);
}

TEST_F(Nccl, ARefusalIsToldOf) {
  fake::failRegistrations(fake::RegistrationFault::Refused);
  auto made = registerAll(ncclMemory(fakeNccl()));
  EXPECT_EQ(made[0].first.kind, Registration::Kind::None);
  EXPECT_EQ(describe({made[0].first}),
            "NCCL has the device arena as nothing of node-gather "
            "(ncclCommWindowRegister: invalid usage (the fake says no more), "
            "ncclCommRegister: invalid usage (the fake says no more))");
}

TEST_F(Nccl, AnErrorOfARegistrationIsAnError) {
  fake::failRegistrations(fake::RegistrationFault::SystemError);
  EXPECT_THROW(registerAll(ncclMemory(fakeNccl())), DeviceGroupError);
}

TEST_F(Nccl, AGroupOfOneNeedsNoCommunicator) {
  auto group = makeNcclGroup(options(0, {3}));
  EXPECT_EQ(group->size(), 1u);
  EXPECT_EQ(calls("ncclGetUniqueId"), 0u);
}

TEST_F(Nccl, APeerThatDoesNotComeEndsTheJoiningAtTheTimeOut) {
  joinSeconds = 0.3;
  size_t before = fake::liveCommunicators();
  auto start = std::chrono::steady_clock::now();
  NcclGroupOptions made = options(0, {0, 4, 6});
  std::string told;
  made.onBlocked = [&](const Failure &failure) {
    told = failure.what();
    EXPECT_EQ(calls("ncclCommAbort"), 0u);
  };
  try {
    makeNcclGroup(made);
    FAIL();
  } catch (const DeviceGroupError &error) {
    EXPECT_STREQ(error.what(),
                 "group node-gather: ncclCommInitRankConfig with ranks 4, 6: "
                 "timed out after 0.3 s");
    EXPECT_EQ(error.what(), told);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  EXPECT_EQ(fake::liveCommunicators(), before);
  EXPECT_EQ(calls("ncclCommAbort"), 1u);
}

// Sizes that the memory does not allow are smaller; here 4096 / 2 and 4096 / 4.
TEST_F(Nccl, ConnectsWithTheSizesThatMemoryAllows) {
  std::vector<std::string> errors;
  auto groups = joinAll({0, 1}, errors);
  uint64_t before = calls("connections");
  std::vector<std::thread> threads;
  for (auto &group : groups)
    threads.emplace_back([&] {
      DeviceArena memory(fakeCuda(), 4096, cudaMemory(fakeCuda()));
      group->connect({{64, 5000, 1 << 20}, {1 << 20}}, memory.base(),
                     memory.size());
      group->connect({{2048}, {1024}}, memory.base(), memory.size());
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(calls("connections") - before, 4u); // one of each kind and rank
  endAll(groups);
}

// A call that returns before its work is in the stream would have the issuer
// poll for it, and NCCL start a thread.
TEST_F(Nccl, IssuingStartsNoThreadAndPollsNothing) {
  std::vector<std::string> errors;
  auto groups = joinAll({0, 1}, errors);
  fakeCuda()->useDevice(0);
  StreamTable streams(fakeCuda(), 0);
  DeviceArena memory(fakeCuda(), 4096, cudaMemory(fakeCuda()));
  const auto &stream = fake::streamOf(streams.at(StreamId::Inter));
  uint64_t threads = calls("threads of NCCL"),
           queries = calls("ncclCommGetAsyncError");
  groups[0]->allGather(memory.base(), memory.base(), 64,
                       streams.at(StreamId::Inter));
  EXPECT_EQ(stream->issued, 1u);
  groups[0]->exchangeChunks(memory.base(), memory.base() + 64, 32,
                            streams.at(StreamId::Inter));
  EXPECT_EQ(stream->issued, 2u);
  EXPECT_EQ(calls("threads of NCCL"), threads);
  EXPECT_EQ(calls("ncclCommGetAsyncError"), queries);
  groups[0]->abort();
  endAll(groups);
}

// As NCCL's source has it, so that a count of threads means something.
TEST_F(Nccl, TheFakeStartsAThreadForACallThatDoesNotBlock) {
  auto nccl = fakeNccl();
  fakeCuda()->useDevice(0);
  StreamTable streams(fakeCuda(), 0);
  DeviceArena memory(fakeCuda(), 4096, cudaMemory(fakeCuda()));
  for (int blocking : {0, 1}) {
    ncclUniqueId id;
    ASSERT_EQ(nccl->ncclGetUniqueId(&id), ncclSuccess);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = blocking;
    ncclComm_t comm = nullptr;
    const ncclResult_t returned = blocking ? ncclSuccess : ncclInProgress;
    auto settle = [&](ncclResult_t result) {
      EXPECT_EQ(result, returned);
      while (result == ncclInProgress)
        ASSERT_EQ(nccl->ncclCommGetAsyncError(comm, &result), ncclSuccess);
      EXPECT_EQ(result, ncclSuccess);
    };
    auto gather = [&] {
      settle(nccl->ncclAllGather(memory.base(), memory.base(), 64, ncclInt8,
                                 comm, streams.at(StreamId::Inter)));
    };
    settle(nccl->ncclCommInitRankConfig(&comm, 1, id, 0, &config));
    gather(); // connects
    uint64_t before = calls("threads of NCCL");
    gather();
    EXPECT_EQ(calls("threads of NCCL") - before, blocking ? 0u : 1u);
    while (!streams.isIdle(StreamId::Inter))
      ;
    EXPECT_EQ(nccl->ncclCommDestroy(comm), ncclSuccess);
  }
}

TEST_F(Nccl, AnIdThatDoesNotComeIsAnError) {
  joinSeconds = 0.3;
  EXPECT_THROW(makeNcclGroup(options(1, {0, 1})), StoreError);
}

// The peer joins but takes no part in the first collective. Joining itself must
// take less time than this on a busy machine, with sanitizers, too.
TEST_F(Nccl, ASilentPeerEndsTheFirstCollectiveAtTheTimeOut) {
  joinSeconds = 2.5;
  size_t before = fake::liveCommunicators();
  fake::hangDevice(1);
  std::vector<std::string> errors;
  auto groups = joinAll({0, 1}, errors);
  EXPECT_EQ(errors[0], "group node-gather: the first collective with rank 1: "
                       "timed out after 2.5 s");
  EXPECT_EQ(fake::liveCommunicators(), before);
}

TEST_F(Nccl, AFirstCollectiveHasTheTimeOfASlowNetwork) {
  joinSeconds = 2.5;
  gatheredBytes = 4 << 20;
  fake::hangDevice(1);
  std::vector<std::string> errors;
  auto groups = joinAll({0, 1}, errors);
  EXPECT_EQ(errors[0], "group node-gather: the first collective with rank 1: "
                       "timed out after 2.9 s");
}

// The call itself does not return, as while NCCL connects the ranks.
TEST_F(Nccl, ACallThatDoesNotReturnEndsTheFirstCollectiveAtTheTimeOut) {
  joinSeconds = 2.5;
  size_t before = fake::liveCommunicators();
  fake::fillCalls(0);
  fake::fillCalls(1);
  std::vector<std::string> errors;
  auto groups = joinAll({0, 1}, errors);
  EXPECT_EQ(errors[0], "group node-gather: the first collective with rank 1: "
                       "timed out after 2.5 s");
  EXPECT_EQ(fake::liveCommunicators(), before);
}

TEST_F(Nccl, APeerThatDiesWhileJoiningIsAnError) {
  joinSeconds = 2.5;
  fake::killDevice(1);
  std::vector<std::string> errors;
  auto groups = joinAll({0, 1}, errors);
  EXPECT_NE(errors[0].find("with rank 1: remote process exited"),
            std::string::npos)
      << errors[0];
}

TEST_F(Nccl, AnAbortedGroupRefusesWork) {
  std::vector<std::string> errors;
  auto groups = joinAll({0, 1}, errors);
  for (auto &group : groups)
    group->abort();
  EXPECT_EQ(groups[0]->findError(), std::nullopt);
  EXPECT_THROW(groups[0]->allGather(nullptr, nullptr, 64, nullptr),
               DeviceGroupError);
  EXPECT_THROW(groups[0]->exchangeChunks(nullptr, nullptr, 64, nullptr),
               DeviceGroupError);
  endAll(groups);
  EXPECT_EQ(calls("ncclCommAbort"), 2u);
}

TEST_F(Nccl, RanksOnOneDeviceGetHostsOfTheirOwn) {
  unsetenv("NCCL_HOSTID");
  EXPECT_THROW(shareDevice("job", 3), std::runtime_error);
  EXPECT_EQ(std::getenv("NCCL_HOSTID"), nullptr);
  reserveLibrarySettings();
  shareDevice("job", 3);
  EXPECT_STREQ(std::getenv("NCCL_HOSTID"), "job-3");
  unsetenv("NCCL_HOSTID");
}
