// SPDX-License-Identifier: Apache-2.0
//
// One rank of a job on GPUs, for CudaJobTest. It joins, checks collectives
// and the host cache between processes, and reports the result by its exit code
// and a line on its standard output. Ranks share a device if there are too few.
//   cuda-rank SCENARIO NODES LOCALS NODE LOCAL PORT CUDART NCCL

#include "core/LibrarySettings.h"
#include "cuda/CudaBackend.h"
#include "job/Job.h"
#include "nccl/NcclAxes.h"
#include "nccl/NcclMemory.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <unistd.h>

using namespace fcdp;

namespace {

// The exit codes of cuda-rank.
enum ExitCode { ok, wrong, refused, explained, toldByMonitor };

constexpr size_t shard = 3000, shardBytes = shard * sizeof(float);
/// Elements of a message of `saturate`.
constexpr size_t chunk = 32 << 10, chunkBytes = chunk * sizeof(float);
constexpr uint64_t hostBytes = 1 << 20;

[[noreturn]] void end(ExitCode code, const std::string &line) {
  printf("%s\n", line.c_str());
  fflush(stdout);
  _exit(code);
}

struct Rank {
  std::string scenario, cudart, nccl;
  JobOptions options;
  std::unique_ptr<Job> job;
  std::unique_ptr<CudaBackend> backend;

  uint32_t ranks() const { return job->mesh().size(); }
  uint32_t owned() const {
    return job->place().local * job->mesh().nodes + job->place().node;
  }
  /// Returns this rank's part of the node's host memory.
  std::byte *host() {
    return backend->hostBase() +
           hostBytes / job->mesh().locals * job->place().local;
  }
  void makeBackend();
  Collective collective(AxisId axis, size_t in, size_t out, size_t bytes);
  void upload(size_t at, const std::vector<float> &values);
  std::vector<float> download(size_t at, size_t count);
  void checkGathers();
  void checkReductions(AxisId axis);
  void checkCounters();
  void saturate();
  void loopUntilFailure();
};

void Rank::makeBackend() {
  CudaBackendOptions made;
  made.cuda = CudaLibrary::load(cudart);
  int devices = 0;
  made.cuda->check(made.cuda->cudaGetDeviceCount(&devices),
                   "cudaGetDeviceCount");
  made.device = devices ? int(job->rank()) % devices : 0;
  if (int(ranks()) > devices)
    shareDevice(job->segmentName(), job->rank());
  made.deviceBytes = 8 << 20;
  made.numEvents = 4;
  made.worldRank = job->rank();
  made.ranksPerNode = job->mesh().locals;
  made.control = &job->control();
  made.collectiveSeconds = 60;
  HostCacheOptions cache;
  cache.device = made.device;
  cache.segment.name = job->segmentName();
  cache.segment.local = job->place().local;
  cache.segment.locals = job->mesh().locals;
  cache.segment.bytes = hostBytes;
  cache.segment.part = {0, hostBytes};
  made.host = CudaHostCache(made.cuda, cache);
  NcclAxesOptions axes;
  if (ranks() > 1) {
    axes.nccl = NcclLibrary::load(nccl);
    made.memory = ncclMemory(axes.nccl);
  }
  axes.cuda = made.cuda;
  axes.device = made.device;
  axes.mesh = job->mesh();
  axes.place = job->place();
  axes.worldGroups = {true, true};
  axes.hasAll = true;
  axes.ids = {[this](const std::string &key, const std::string &value) {
                job->set(key, value);
              },
              [this](const std::string &key, double seconds) {
                return job->get(key, seconds);
              }};
  // The first collective of a kind waits in its call for the peers, which the
  // orders of `saturate` would make wait for each other.
  for (WarmUp &messages : made.messages)
    messages = {{shardBytes, job->mesh().nodes * shardBytes, chunkBytes},
                {shardBytes, job->mesh().nodes * shardBytes, chunkBytes},
                {}};
  made.axes = joinAxes(axes);
  made.all = joinAll(axes);
  backend = makeCudaBackend(std::move(made));
}

#define REQUIRE(condition)                                                     \
  do                                                                           \
    if (!(condition))                                                          \
      end(wrong, "wrong: " #condition " " + backend->failure());               \
  while (false)

void Rank::upload(size_t at, const std::vector<float> &values) {
  std::memcpy(host(), values.data(), values.size() * sizeof(float));
  backend->copy(StreamId::H2D, backend->deviceBase() + at, host(),
                values.size() * sizeof(float));
  backend->synchronize();
}

std::vector<float> Rank::download(size_t at, size_t count) {
  backend->synchronize();
  backend->copy(StreamId::D2H, host(), backend->deviceBase() + at,
                count * sizeof(float));
  backend->synchronize();
  std::vector<float> values(count);
  std::memcpy(values.data(), host(), count * sizeof(float));
  return values;
}

Collective Rank::collective(AxisId axis, size_t in, size_t out, size_t bytes) {
  Collective made{};
  made.axis = axis;
  made.stream = axis == AxisId::Local ? StreamId::Intra : StreamId::Inter;
  made.in = backend->deviceBase() + in;
  made.out = backend->deviceBase() + out;
  made.bytes = bytes;
  made.inType = made.outType = DType::F32;
  made.what = "collective of bucket 'b' (model.py:12)";
  return made;
}

/// Gathers in two levels, in place, and in one step, and checks every element.
void Rank::checkGathers() {
  const uint32_t N = job->mesh().nodes;
  const size_t sliceAt = job->place().local * N * shardBytes;
  std::vector<float> own(shard);
  std::iota(own.begin(), own.end(), float(owned() * shard));
  for (bool isTwoLevel : {true, false}) {
    upload(0, std::vector<float>(ranks() * shard, -1.0f));
    upload(owned() * shardBytes, own);
    if (isTwoLevel) {
      backend->allGather(
          collective(AxisId::Node, owned() * shardBytes, sliceAt, shardBytes));
      backend->record(0, StreamId::Inter);
      backend->wait(0, StreamId::Intra);
      backend->allGather(collective(AxisId::Local, sliceAt, 0, N * shardBytes));
    } else {
      backend->allGather(
          collective(AxisId::World, owned() * shardBytes, 0, shardBytes));
    }
    std::vector<float> bucket = download(0, ranks() * shard);
    REQUIRE(!backend->failed());
    for (size_t i = 0; i < bucket.size(); ++i)
      REQUIRE(bucket[i] == float(i));
  }
}

/// The values are small integers, so that sums are exact, and differ by rank
/// and element.
void Rank::checkReductions(AxisId axis) {
  const uint32_t G = ranks(), g = job->mesh().locals;
  const size_t total = G * shard, bytes = total * sizeof(float);
  const size_t scratch = bytes, slice = 2 * bytes, out = 3 * bytes;
  std::vector<float> values(total);
  for (size_t i = 0; i < total; ++i)
    values[i] = float((job->rank() + 1) * 100 + i % 97);
  upload(0, values);
  auto reduce = [&](AxisId over, size_t in, size_t to, size_t ofBytes) {
    Collective made = collective(over, in, to, ofBytes);
    made.stream =
        over == AxisId::Local ? StreamId::IntraReduce : StreamId::InterReduce;
    made.scratch = backend->deviceBase() + scratch;
    backend->reduceScatter(made);
  };
  if (axis == AxisId::World) {
    reduce(AxisId::World, 0, out, bytes);
  } else {
    reduce(AxisId::Local, 0, slice, bytes);
    backend->record(1, StreamId::IntraReduce);
    backend->wait(1, StreamId::InterReduce);
    reduce(AxisId::Node, slice, out, bytes / g);
  }
  std::vector<float> result = download(out, shard);
  REQUIRE(!backend->failed());
  for (size_t i = 0; i < shard; ++i)
    REQUIRE(result[i] ==
            float(100 * G * (G + 1) / 2 + G * ((owned() * shard + i) % 97)));
}

void Rank::checkCounters() {
  const uint32_t N = job->mesh().nodes, g = job->mesh().locals, G = N * g;
  ByteCounters counters = backend->counters();
  // Gathered and reduced, in two levels and in one step.
  REQUIRE(counters.links[LinkId::Inter] ==
          2 * ((N - 1) + (G - g)) * shardBytes);
  REQUIRE(counters.links[LinkId::Intra] ==
          2 * ((g - 1) * N + (g - 1)) * shardBytes);
  double own = job->rank() + 0.5, sum = 0;
  std::memcpy(host(), &own, sizeof(own));
  backend->copy(StreamId::Compute, backend->deviceBase(), host(), sizeof(own));
  auto *number = reinterpret_cast<double *>(backend->deviceBase());
  backend->sumOverRanks(number, number + 1, "numbers");
  backend->copy(StreamId::Compute, host(), number, sizeof(sum));
  backend->synchronize();
  std::memcpy(&sum, host(), sizeof(sum));
  REQUIRE(!backend->failed());
  REQUIRE(sum == G * G / 2.0);
}

/// Keeps the four streams of collectives full: each has 100 rounds queued
/// before the host waits for any, and the ranks of a group issue the streams in
/// different orders. A gather's input is the peer's shard of the round before,
/// so after an even number of rounds each rank has its own again. Reductions
/// accumulate. Needs 2 x 2 ranks.
void Rank::saturate() {
  constexpr int rounds = 100;
  constexpr size_t region = 8 * chunkBytes;
  REQUIRE(job->mesh().nodes == 2 && job->mesh().locals == 2);
  const StreamId streams[] = {StreamId::Inter, StreamId::Intra,
                              StreamId::InterReduce, StreamId::IntraReduce};
  const Place place = job->place();
  auto placeIn = [&](int stream) {
    return stream % 2 ? place.local : place.node;
  };
  // The parts of each region are input, output, scratch, and the accumulated
  // sum.
  auto at = [&](int stream, int part) {
    return stream * region + part * 2 * chunkBytes;
  };
  auto device = [&](size_t offset) { return backend->deviceBase() + offset; };
  auto number = [&](int stream, size_t i) {
    return float((job->rank() + 1) * 10 + stream + i % 89);
  };
  std::vector<float> values(2 * chunk), zeros(chunk);
  for (int stream = 0; stream < 4; ++stream) {
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = number(stream, i);
    upload(at(stream, 0), values);
    upload(at(stream, 3), zeros);
  }
  for (int round = 0; round < rounds; ++round)
    for (int turn = 0; turn < 4; ++turn) {
      const int i = int(turn + job->rank()) % 4;
      Collective made =
          collective(i % 2 ? AxisId::Local : AxisId::Node, at(i, 0), at(i, 1),
                     i < 2 ? chunkBytes : 2 * chunkBytes);
      made.stream = streams[i];
      made.scratch = device(at(i, 2));
      if (i < 2) {
        backend->allGather(made);
        const size_t peers = at(i, 1) + (1 - placeIn(i)) * chunkBytes;
        backend->copy(streams[i], device(at(i, 0)), device(peers), chunkBytes);
      } else {
        backend->reduceScatter(made);
        backend->add(streams[i], reinterpret_cast<float *>(device(at(i, 3))),
                     reinterpret_cast<float *>(device(at(i, 1))), chunk);
      }
    }
  for (int stream = 0; stream < 4; ++stream) {
    const bool isGather = stream < 2;
    const size_t first = isGather ? 0 : placeIn(stream) * chunk;
    const uint32_t distance = stream % 2 ? 1 : 2;
    const int peer = placeIn(stream) ? -int(distance) : int(distance);
    std::vector<float> got = download(at(stream, isGather ? 0 : 3), chunk);
    REQUIRE(!backend->failed());
    for (size_t i = 0; i < chunk; ++i) {
      const float own = number(stream, first + i);
      REQUIRE(got[i] == (isGather ? own : rounds * (2 * own + 10 * peer)));
    }
  }
}

/// Runs until a peer has ended. The last rank ends.
void Rank::loopUntilFailure() {
  for (int step = 0;; ++step) {
    if (step == 20 && job->rank() == ranks() - 1)
      raise(SIGKILL);
    backend->allGather(collective(AxisId::World, 0, 1 << 20, shardBytes));
    backend->synchronize();
    if (backend->failed())
      end(explained, job->explainFailure(backend->failure()));
  }
}

void run(Rank &rank) {
  try {
    rank.job = joinJob(rank.options);
    rank.makeBackend();
  } catch (const std::runtime_error &error) {
    end(refused, error.what());
  }
  if (rank.scenario == "kill")
    rank.loopUntilFailure();
  if (rank.scenario == "saturate") {
    rank.saturate();
  } else {
    rank.checkGathers();
    rank.checkReductions(AxisId::Node);
    rank.checkReductions(AxisId::World);
    rank.checkCounters();
  }
  rank.backend.reset();
  rank.job->finish();
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 9)
    return wrong;
  std::signal(SIGPIPE, SIG_IGN); // as in fcdp-run
  reserveLibrarySettings();
  Rank rank;
  JobOptions &options = rank.options;
  auto number = [&](int i) { return uint32_t(std::atoi(argv[i])); };
  rank.scenario = argv[1];
  options.mesh = {number(2), number(3)};
  options.place = {number(4), number(5)};
  options.port = uint16_t(number(6));
  rank.cudart = argv[7];
  rank.nccl = argv[8];
  options.launcherRank = worldRank(options.mesh, options.place);
  options.launcherSize = options.mesh.size();
  options.servesStore = options.launcherRank == 0;
  options.planHash = "abc";
  // Only small messages go over Gloo.
  options.nodeGroups = options.localGroups = {false, false};
  options.abi = 1;
  options.joinSeconds = 30;
  options.onStorePort = [](uint16_t port) {
    printf("port %d\n", port);
    fflush(stdout);
  };
  options.onFailure = [](const std::string &message) {
    end(toldByMonitor, message);
  };
  run(rank);
  return ok;
}
