// SPDX-License-Identifier: Apache-2.0
#include "probe/Probe.h"

#include "core/StepRecorder.h"
#include "cpu/CpuBackend.h"
#include "cpu/MemoryLimit.h"
#include "output/Failure.h"
#include "output/OutputFiles.h"
#include "output/Progress.h"
#include "probe/ProbeCompute.h"
#include "probe/ProbedCluster.h"
#include "profile/OverRanks.h"
#include "session/JobSetup.h"

#include <ATen/Parallel.h>
#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <iostream>

namespace fcdp::run {

namespace {

constexpr size_t kLeastBytes = 1 << 10, kMostBytes = 4 << 20;
constexpr size_t kGrowth = 4;
/// Copies go round in so much memory, that a cache may not hold it.
constexpr size_t kWindow = 32 << 20;
constexpr int kRepetitions = 5;
/// No larger size is tried of a transfer that takes longer.
constexpr double kLongSeconds = 0.5;
/// A clock's tick, where something took less.
constexpr double kLeastSeconds = 1e-9;

/// Used by one thread of each rank.
class Probe {
public:
  Probe(const ProbeOptions &options, Job &job) : options(options), job(job) {}

  void run();

private:
  void makeBackend();
  void measureCompute();
  void measureMemory();
  /// A transfer of so many bytes, and the axis along which it is a collective.
  struct Transfer {
    std::function<void(size_t bytes)> run;
    std::optional<Axis> axis;
    /// A link has to carry each byte so often.
    double perByte = 1;
  };
  double timeTransfer(const Transfer &transfer, size_t bytes,
                      std::optional<uint32_t> onlyLocal = {});
  uint32_t findSharers(const Transfer &transfer, size_t bytes,
                       double secondsOfAll);
  std::vector<TimedSize> measureSizes(const Transfer &transfer);
  SharedLink measureLink(const Transfer &transfer,
                         const std::vector<TimedSize> &times);
  /// Collectives of all ranks along `axis`.
  Collective makeCollective(Axis axis, StreamId stream) const;
  void runCollective(const Collective &collective, bool isReduction);
  SharedLink measureCollectives(Axis axis, StreamId stream, uint32_t ranks,
                                ProbedCollectives &measured);
  SharedLink measureCopies(StreamId stream);
  /// The mean of what ranks have measured.
  double mean(double own) {
    return secondsOverRanks(job.mesh(), std::nullopt,
                            job.gather({&own, 1}, "exchange of the probe"));
  }

  const ProbeOptions &options;
  Job &job;
  std::unique_ptr<Backend> backend;
  ProbedCluster found;
};

void Probe::makeBackend() {
  const Mesh &mesh = job.mesh();
  CpuBackendOptions made;
  // A reduction has its input, as much to receive, and its part.
  made.deviceBytes = std::max(
      kWindow, kMostBytes * (1 + 2 * std::max(mesh.nodes, mesh.locals)));
  HostSegmentOptions segment;
  segment.name = job.segmentName();
  segment.local = job.place().local;
  segment.locals = mesh.locals;
  segment.bytes = kWindow * mesh.locals;
  segment.part = {kWindow * job.place().local,
                  kWindow * (job.place().local + 1)};
  made.host = HostSegment(segment);
  made.node = job.transports(Axis::Node);
  made.local = job.transports(Axis::Local);
  made.ranksPerNode = mesh.locals;
  made.control = &job.control();
  backend = makeCpuBackend(std::move(made));
}

/// The median of some transfers, by all ranks or by one of each node, in
/// seconds.
double Probe::timeTransfer(const Transfer &transfer, size_t bytes,
                           std::optional<uint32_t> onlyLocal) {
  std::vector<double> seconds;
  for (int i = 0; i < kRepetitions; ++i) {
    job.barrier("begin of a transfer of the probe");
    double own = 0;
    if (!onlyLocal || *onlyLocal == job.place().local) {
      double begin = readClock();
      transfer.run(bytes);
      own = readClock() - begin;
    }
    double ofRanks =
        secondsOverRanks(job.mesh(), transfer.axis,
                         job.gather({&own, 1}, "exchange of the probe"));
    // The mean includes ranks that did nothing.
    bool isMean = onlyLocal && !transfer.axis;
    seconds.push_back(isMean ? ofRanks * job.mesh().locals : ofRanks);
  }
  return std::max(medianOf(seconds), kLeastSeconds);
}

/// Lets the ranks of a node transfer one after the other what took
/// `secondsOfAll` when all did at once.
uint32_t Probe::findSharers(const Transfer &transfer, size_t bytes,
                            double secondsOfAll) {
  std::vector<double> alone;
  for (uint32_t local = 0; local < job.mesh().locals; ++local)
    alone.push_back(timeTransfer(transfer, bytes, local));
  return countSharers(secondsOfAll / medianOf(alone), job.mesh().locals);
}

std::vector<TimedSize> Probe::measureSizes(const Transfer &transfer) {
  std::vector<TimedSize> times;
  transfer.run(kMostBytes); // memory that is touched first takes longer
  size_t bytes = kLeastBytes;
  while (true) {
    double median = timeTransfer(transfer, bytes);
    times.push_back({double(bytes) * transfer.perByte, median});
    // All ranks have the same number.
    if (median > kLongSeconds || bytes * kGrowth > kMostBytes)
      return times;
    bytes *= kGrowth;
  }
}

/// The link that took these times. How many ranks share it shows the largest
/// size.
SharedLink Probe::measureLink(const Transfer &transfer,
                              const std::vector<TimedSize> &times) {
  SharedLink link{fitLink(times)};
  size_t largest = std::llround(times.back().bytes / transfer.perByte);
  link.sharers = findSharers(transfer, largest, times.back().seconds);
  return link;
}

Collective Probe::makeCollective(Axis axis, StreamId stream) const {
  Collective collective{};
  collective.axis = axis;
  collective.stream = stream;
  collective.in = backend->deviceBase();
  collective.inType = collective.outType = DType::F32;
  collective.what = axis == Axis::Node ? "probe of the link between nodes"
                                       : "probe of the link within a node";
  return collective;
}

void Probe::runCollective(const Collective &collective, bool isReduction) {
  if (isReduction)
    backend->reduceScatter(collective);
  else
    backend->allGather(collective);
  backend->synchronize();
  if (backend->failed())
    throw TransportError(backend->failure());
}

SharedLink Probe::measureCollectives(Axis axis, StreamId stream, uint32_t ranks,
                                     ProbedCollectives &measured) {
  Collective collective = makeCollective(axis, stream);
  Transfer gather{[&, collective](size_t bytes) mutable {
                    collective.out = backend->deviceBase() + kMostBytes;
                    collective.bytes = bytes;
                    runCollective(collective, /*isReduction=*/false);
                  },
                  axis, ranks - 1.0};
  Transfer reduction{[&, collective](size_t bytes) mutable {
                       collective.out =
                           backend->deviceBase() + ranks * kMostBytes;
                       collective.scratch = collective.out + kMostBytes;
                       collective.bytes = ranks * bytes;
                       runCollective(collective, /*isReduction=*/true);
                     },
                     axis, ranks - 1.0};
  measured.gathers = measureSizes(gather);
  measured.reductions = measureSizes(reduction);
  // A gather within a node needs all ranks of the node.
  return axis == Axis::Node ? measureLink(gather, measured.gathers)
                            : SharedLink{fitLink(measured.gathers)};
}

SharedLink Probe::measureCopies(StreamId stream) {
  std::byte *host = backend->hostBase() + kWindow * job.place().local;
  std::byte *device = backend->deviceBase();
  bool isStore = stream == StreamId::D2H;
  size_t at = 0;
  auto copy = [&](size_t bytes) {
    at = at + bytes > kWindow ? 0 : at;
    backend->copy(stream, (isStore ? host : device) + at,
                  (isStore ? device : host) + at, bytes);
    backend->synchronize();
    at += bytes;
  };
  // Memory that is touched first takes longer.
  for (size_t done = 0; done < kWindow; done += kMostBytes)
    copy(kMostBytes);
  Transfer transfer{copy, std::nullopt};
  return measureLink(transfer, measureSizes(transfer));
}

void Probe::measureCompute() {
  job.barrier("begin of the probe's computing");
  for (auto [type, rate] :
       {std::pair(DType::F64, &found.f64), std::pair(DType::F32, &found.f32),
        std::pair(DType::BF16, &found.bf16), std::pair(DType::F16, &found.f16)})
    *rate = 1 / std::max(mean(secondsPerFlop(type)), 1e-18);
  found.memoryBandwidth = 1 / std::max(mean(secondsPerByte()), 1e-15);
  found.launchLatency = mean(secondsPerLaunch());
  found.codecRate = 1 / std::max(mean(secondsPerCodedByte()), 1e-15);
}

/// A number that tells machines apart, since they were started; exact in a
/// double.
double identifyMachine() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  file >> id;
  return double(std::hash<std::string>()(id) >> 12);
}

/// Half of the memory that a machine has left is its ranks' devices, the other
/// half their nodes' host caches: on the CPU they are one.
void Probe::measureMemory() {
  double own[] = {identifyMachine(), double(availableMemory())};
  std::vector<double> all = job.gather(own, "exchange of the probe");
  double perRank = 0x1p53;
  for (size_t rank = 0; rank < all.size(); rank += 2) {
    size_t ranks = 0;
    for (size_t other = 0; other < all.size(); other += 2)
      ranks += all[other] == all[rank];
    perRank = std::min(perRank, all[rank + 1] / double(ranks));
  }
  found.deviceMemory = std::max(uint64_t(perRank / 2), uint64_t(1));
  found.hostMemory = found.deviceMemory * job.mesh().locals;
}

void Probe::run() {
  Progress progress(job.rank() == 0);
  found.mesh = job.mesh();
  makeBackend();
  progress.show("measuring memory and computing");
  measureMemory();
  measureCompute();
  progress.show("measuring copies");
  found.h2d = measureCopies(StreamId::H2D);
  found.d2h = measureCopies(StreamId::D2H);
  progress.show("measuring links");
  if (found.mesh.nodes > 1)
    found.inter = measureCollectives(Axis::Node, StreamId::Inter,
                                     found.mesh.nodes, found.overNodes);
  if (found.mesh.locals > 1)
    found.intra = measureCollectives(Axis::Local, StreamId::Intra,
                                     found.mesh.locals, found.overLocals);
  progress.clear();
  if (job.rank() == 0) {
    // What cannot be written is not lost.
    std::cout << toYaml(found) << std::flush;
    writeWhole("--probe-cluster", options.path, toYaml(found));
  }
  job.barrier("end of the probe");
  backend.reset();
  job.finish();
}

} // namespace

/// Ends this rank for an error that another one may have caused.
[[noreturn]] static void failTransfer(Job &job, FailureExit &failureExit,
                                      const std::string &message) {
  std::string explained = job.explainFailure(message);
  if (explained == message)
    failureExit.own(message);
  failureExit.shared(explained);
}

void runProbe(const ProbeOptions &options, const Launch &launch) {
  uint32_t rank = worldRank(launch.mesh, launch.place);
  OutputFiles outputs({{"--probe-cluster", options.path}});
  if (rank == 0)
    outputs.open();
  at::set_num_threads(threadsPerRank(options.threads, launch.mesh.locals));
  FailureExit failureExit(launch.isOwnStore, [&] {
    if (rank == 0)
      outputs.cleanUp();
  });
  JobOptions jobOptions =
      makeJobOptions(launch, options.timeout, options.interface);
  jobOptions.onFailure = [&](const std::string &message) {
    failureExit.shared(message);
  };
  jobOptions.onStranger = printWarning;
  jobOptions.planHash = "probe";
  std::unique_ptr<Job> job = joinJob(jobOptions);
  try {
    Probe(options, *job).run();
  } catch (const TransportError &error) {
    failTransfer(*job, failureExit, error.what());
  } catch (const std::exception &error) {
    job->publishFailure(error.what());
    failureExit.own(error.what());
  }
}

} // namespace fcdp::run
