// SPDX-License-Identifier: Apache-2.0
//
// One rank of a job, for GlooTest. It joins, runs its scenario, and reports
// the result by its exit code and a line on its standard output.
//   gloo-rank SCENARIO NODES LOCALS NODE LOCAL PORT [VICTIM [HOST]]

#include "cpu/CpuBackend.h"
#include "job/Job.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <thread>
#include <unistd.h>

using namespace fcdp;

namespace {

enum ExitCode { ok, wrong, refused, explained, toldByMonitor, failedItself };

[[noreturn]] void end(ExitCode code, const std::string &line) {
  printf("%s\n", line.c_str());
  fflush(stdout);
  _exit(code);
}

struct Rank {
  std::string scenario;
  JobOptions options;
  uint32_t victim = ~0u;
  std::unique_ptr<Job> job;
  std::unique_ptr<Backend> backend;

  bool isVictim() const { return job->rank() == victim; }
  void makeBackend(uint32_t queueCapacity = 64);
  void gather(AxisId axis, size_t in, size_t out, size_t bytes);
  void reduce(AxisId axis, size_t in, size_t out, size_t scratch, size_t bytes);
  void checkCollectives();
  void checkWorld();
  void checkOverlap();
  void loopUntilFailure();
};

void Rank::makeBackend(uint32_t queueCapacity) {
  HostSegmentOptions segment;
  segment.name = job->segmentName();
  segment.local = job->place().local;
  segment.locals = job->mesh().locals;
  segment.bytes = 1 << 20;
  segment.part = {0, segment.bytes};
  CpuBackendOptions cpu;
  cpu.deviceBytes = 8 << 20;
  cpu.numEvents = 4;
  cpu.host = HostSegment(segment);
  cpu.node = job->transports(AxisId::Node);
  cpu.local = job->transports(AxisId::Local);
  cpu.world = job->transports(AxisId::World);
  cpu.ranksPerNode = job->mesh().locals;
  cpu.control = &job->control();
  cpu.queueCapacity = queueCapacity;
  backend = makeCpuBackend(std::move(cpu));
}

void Rank::gather(AxisId axis, size_t in, size_t out, size_t bytes) {
  Collective collective{};
  collective.axis = axis;
  collective.stream = axis == AxisId::Local ? StreamId::Intra : StreamId::Inter;
  collective.in = backend->deviceBase() + in;
  collective.out = backend->deviceBase() + out;
  collective.bytes = bytes;
  collective.what = "all-gather of bucket 'b' (model.py:12)";
  backend->allGather(collective);
}

void Rank::reduce(AxisId axis, size_t in, size_t out, size_t scratch,
                  size_t bytes) {
  Collective collective{};
  collective.axis = axis;
  collective.stream =
      axis == AxisId::Local ? StreamId::IntraReduce : StreamId::InterReduce;
  collective.in = backend->deviceBase() + in;
  collective.out = backend->deviceBase() + out;
  collective.scratch = backend->deviceBase() + scratch;
  collective.bytes = bytes;
  collective.inType = collective.outType = DType::F32;
  collective.what = "reduce-scatter of bucket 'b' (model.py:12)";
  backend->reduceScatter(collective);
}

#define REQUIRE(condition)                                                     \
  do                                                                           \
    if (!(condition))                                                          \
      end(wrong, "wrong: " #condition " " + backend->failure());               \
  while (false)

/// Gathers and reduces in two levels, in place, and checks every element.
void Rank::checkCollectives() {
  makeBackend();
  const uint32_t N = job->mesh().nodes, g = job->mesh().locals;
  const uint32_t G = N * g;
  const size_t shard = 3000, bytes = shard * 4, total = G * shard;
  const uint32_t owned = job->place().local * N + job->place().node;
  auto *bucket = reinterpret_cast<float *>(backend->deviceBase());
  const size_t scratch = total * 4, slice = 2 * scratch, out = 3 * scratch;

  std::iota(bucket + owned * shard, bucket + (owned + 1) * shard,
            float(owned * shard));
  const size_t sliceAt = job->place().local * N * bytes;
  gather(AxisId::Node, owned * bytes, sliceAt, bytes);
  backend->record(0, StreamId::Inter);
  backend->wait(0, StreamId::Intra);
  gather(AxisId::Local, sliceAt, 0, N * bytes);
  backend->record(1, StreamId::Intra);
  backend->wait(1, StreamId::Compute);
  for (size_t i = 0; i < total; ++i)
    REQUIRE(bucket[i] == float(i));

  // The values are small integers, so that sums are exact, and differ by rank
  // and element.
  for (size_t i = 0; i < total; ++i)
    bucket[i] = float((job->rank() + 1) * 100 + i % 97);
  reduce(AxisId::Local, 0, slice, scratch, total * 4);
  backend->record(0, StreamId::IntraReduce);
  backend->wait(0, StreamId::InterReduce);
  reduce(AxisId::Node, slice, out, scratch, total * 4 / g);
  backend->synchronize();
  REQUIRE(!backend->failed());
  auto *result = reinterpret_cast<float *>(backend->deviceBase() + out);
  for (size_t i = 0; i < shard; ++i)
    REQUIRE(result[i] ==
            float(100 * G * (G + 1) / 2 + G * ((owned * shard + i) % 97)));

  std::vector<double> losses =
      job->gather(std::vector<double>{job->rank() + 0.25}, "losses");
  for (uint32_t rank = 0; rank < G; ++rank)
    REQUIRE(losses[rank] == rank + 0.25);
  ByteCounters counters = backend->counters();
  REQUIRE(counters.links[LinkId::Inter] == 2 * (N - 1) * bytes);
  REQUIRE(counters.links[LinkId::Intra] == 2 * (g - 1) * N * bytes);
  REQUIRE(counters.controlSent == 8 * (G - 1));

  if (job->rank() == 0)
    job->set("word", "hello");
  REQUIRE(job->get("word", 10) == "hello");
  job->barrier("barrier");
}

/// Does the same in one step.
void Rank::checkWorld() {
  const uint32_t N = job->mesh().nodes, g = job->mesh().locals, G = N * g;
  const size_t shard = 3000, bytes = shard * 4, total = G * shard;
  const uint32_t owned = job->place().local * N + job->place().node;
  auto *bucket = reinterpret_cast<float *>(backend->deviceBase());
  const size_t scratch = total * 4, out = 2 * scratch;
  ByteCounters before = backend->counters();
  std::fill(bucket, bucket + total, -1.0f);
  std::iota(bucket + owned * shard, bucket + (owned + 1) * shard,
            float(owned * shard));
  gather(AxisId::World, owned * bytes, 0, bytes);
  backend->synchronize();
  for (size_t i = 0; i < total; ++i)
    REQUIRE(bucket[i] == float(i));
  for (size_t i = 0; i < total; ++i)
    bucket[i] = float((job->rank() + 1) * 100 + i % 97);
  reduce(AxisId::World, 0, out, scratch, total * 4);
  backend->synchronize();
  REQUIRE(!backend->failed());
  auto *result = reinterpret_cast<float *>(backend->deviceBase() + out);
  for (size_t i = 0; i < shard; ++i)
    REQUIRE(result[i] ==
            float(100 * G * (G + 1) / 2 + G * ((owned * shard + i) % 97)));
  ByteCounters after = backend->counters();
  REQUIRE(after.links[LinkId::Inter] - before.links[LinkId::Inter] ==
          2 * (G - g) * bytes);
  REQUIRE(after.links[LinkId::Intra] - before.links[LinkId::Intra] ==
          2 * (g - 1) * bytes);
}

/// The last rank reduces only after the gathers of all ranks.
void Rank::checkOverlap() {
  const uint32_t last = job->mesh().size() - 1;
  const size_t bytes = 240 << 10, in = 0, out = 2 << 20, scratch = 5 << 20;
  for (AxisId axis : {AxisId::Node, AxisId::Local}) {
    auto reduceHere = [&] { reduce(axis, in, out, scratch, bytes); };
    if (job->rank() != last)
      reduceHere();
    gather(axis, in, out + bytes, bytes);
    backend->record(0,
                    axis == AxisId::Node ? StreamId::Inter : StreamId::Intra);
    backend->wait(0, StreamId::Compute);
    REQUIRE(!backend->failed());
    job->barrier("gathers");
    if (job->rank() == last)
      reduceHere();
    backend->synchronize();
    REQUIRE(!backend->failed());
  }
}

/// Gathers and reduces over both axes, as a training step would, until
/// something fails.
void Rank::loopUntilFailure() {
  makeBackend();
  REQUIRE(!job->transports(AxisId::World).gather &&
          !job->transports(AxisId::World).reduce);
  for (int step = 0;; ++step) {
    if (isVictim() && step == 20) {
      if (scenario == "kill")
        raise(SIGKILL);
      if (scenario == "stop")
        raise(SIGSTOP);
      job->publishFailure("input 'ids' is out of range");
      end(failedItself, "input 'ids' is out of range");
    }
    gather(AxisId::Node, 0, 1 << 20, 1 << 16);
    gather(AxisId::Local, 0, 4 << 20, 1 << 16);
    reduce(AxisId::Local, 0, 5 << 20, 6 << 20, 1 << 16);
    reduce(AxisId::Node, 0, 3 << 20, 7 << 20, 1 << 16);
    backend->synchronize();
    if (backend->failed())
      end(explained, job->explainFailure(backend->failure()));
  }
}

void runRank(Rank &rank) {
  if (rank.scenario == "wrong-hash" && rank.options.launcherRank == 1)
    rank.options.planHash = "other";
  if (rank.scenario == "wrong-mesh" && rank.options.launcherRank == 1)
    rank.options.place = {0, 0};
  try {
    rank.job = joinJob(rank.options);
  } catch (const std::runtime_error &error) {
    end(refused, error.what());
  }
  if (rank.scenario == "collectives") {
    rank.checkCollectives();
    rank.checkWorld();
    rank.checkOverlap();
    // Rank 0 serves the store, so it must not be the first to end.
    if (rank.job->rank() == rank.job->mesh().size() - 1)
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
    rank.job->finish();
    rank.backend.reset();
    rank.job.reset();
    return;
  }
  if (rank.scenario == "kill-compute") {
    // No rank communicates or joins any more, so only the monitor can notice.
    rank.job->set("joined-" + std::to_string(rank.job->rank()), "yes");
    if (!rank.isVictim())
      pause();
    for (uint32_t other = 0; other < rank.job->mesh().size(); ++other)
      rank.job->get("joined-" + std::to_string(other), 20);
    raise(SIGKILL);
  }
  rank.loopUntilFailure();
}

} // namespace

int main(int argc, char **argv) {
  if (argc < 7)
    return wrong;
  std::signal(SIGPIPE, SIG_IGN); // as in fcdp-run
  Rank rank;
  JobOptions &options = rank.options;
  rank.scenario = argv[1];
  auto number = [&](int i) { return uint32_t(std::atoi(argv[i])); };
  options.mesh = {number(2), number(3)};
  options.place = {number(4), number(5)};
  options.port = uint16_t(number(6));
  if (argc > 7)
    rank.victim = number(7);
  if (argc > 8)
    options.host = argv[8];
  // Launcher ranks are numbered across the nodes, unlike the mesh.
  options.launcherRank =
      options.place.local * options.mesh.nodes + options.place.node;
  options.launcherSize = options.mesh.size();
  options.servesStore = options.launcherRank == 0;
  options.planHash = "abc";
  // Otherwise as for a plan without collectives over all ranks.
  options.worldGroups.gather = options.worldGroups.reduce =
      rank.scenario == "collectives";
  options.abi = 1;
  options.joinSeconds = 20;
  options.onStorePort = [](uint16_t port) {
    printf("port %d\n", port);
    fflush(stdout);
  };
  options.onFailure = [](const std::string &message) {
    end(toldByMonitor, message);
  };
  runRank(rank);
  return ok;
}
