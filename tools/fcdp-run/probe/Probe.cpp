// SPDX-License-Identifier: Apache-2.0
#include "probe/Probe.h"

#include "core/StepRecorder.h"
#include "cpu/CpuBackend.h"
#include "cpu/MemoryLimit.h"
#include "operators/WarmUp.h"
#include "output/Failure.h"
#include "output/OutputFiles.h"
#include "output/Progress.h"
#include "probe/ProbeCompute.h"
#include "probe/ProbeOperators.h"
#include "probe/ProbedCluster.h"
#include "profile/OverRanks.h"
#include "session/Gpu.h"
#include "session/JobSetup.h"

#include <ATen/Parallel.h>
#include <algorithm>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/StreamGuard.h>
#include <cmath>
#include <ctime>
#include <fstream>
#include <functional>
#include <iostream>
#include <torch/headeronly/version.h>

namespace fcdp::run {

namespace {

constexpr size_t kLeastBytes = 1 << 10, kMostBytes = 4 << 20;
constexpr size_t kGrowth = 4;
/// Copies go round in so much memory, that a cache may not hold it.
constexpr size_t kWindow = 32 << 20;
constexpr int kRepetitions = 5;
/// No larger size is tried of a transfer that takes longer.
constexpr double kLongSeconds = 0.5, kLongSecondsOfGpu = 0.1;
/// The largest gather of GPUs, and the share of their memory that it may be.
constexpr uint64_t kMostGathered = 256 << 20, kGatheredShare = 16;
/// Transfers of GPUs between two marks take so long together, and are so many
/// at most: as nccl-tests has them, one behind the other.
constexpr double kRowSeconds = 0.01;
constexpr int kMostInRow = 10;
/// Calls whose issue is timed.
constexpr int kIssuedTransfers = 50;
/// A clock's tick, where something took less.
constexpr double kLeastSeconds = 1e-9;

/// Used by one thread of each rank.
class Probe {
public:
  Probe(const ProbeOptions &options, Job &job) : options(options), job(job) {}

  void run();

private:
  void makeBackend();
  void makeGpuBackend();
  void requireEqualGpus(const GpuFacts &facts);
  void measureCompute();
  void measureGpu();
  void measureGpuIssue();
  /// Adds what communicators have taken since links are measured.
  void countCommunicators();
  void measureMemory();
  /// Returns the seconds in which the device does the second piece of work on
  /// the stream.
  double timeOnDevice(StreamId stream, const Work &before, const Work &work);
  void finish();
  bool isGpu() const { return options.isForGpus; }
  /// The most bytes that a rank gives to a gather of so many ranks.
  size_t mostPart(uint32_t ranks) const;
  /// A transfer of so many bytes, and the axis along which it is a collective.
  struct Transfer {
    StreamId stream;
    std::function<void(size_t bytes)> issue;
    size_t mostBytes;
    std::optional<Axis> axis;
    /// A link has to carry each byte so often.
    double perByte = 1;
  };
  double timeOnce(const Transfer &transfer, size_t bytes, int inRow);
  double timeTransfer(const Transfer &transfer, size_t bytes, int inRow,
                      std::optional<uint32_t> onlyLocal = {});
  uint32_t findSharers(const Transfer &transfer, size_t bytes,
                       double secondsOfAll);
  std::vector<TimedSize> measureSizes(const Transfer &transfer);
  SharedLink measureLink(const Transfer &transfer,
                         const std::vector<TimedSize> &times);
  /// Collectives of all ranks along `axis`.
  Collective makeCollective(Axis axis, StreamId stream) const;
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
  /// Of GPUs only.
  std::unique_ptr<StreamClock> clock;
  std::optional<CudaDevice> gpu;
  uint64_t mostGathered = 0, arenaBytes = 0;
  /// Bytes of the device in use before links are measured.
  uint64_t usedBeforeLinks = 0;
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

void Probe::finish() {
  backend->synchronize();
  if (backend->failed())
    throw TransportError(backend->failure());
}

double Probe::timeOnDevice(StreamId stream, const Work &before,
                           const Work &work) {
  finish();
  clock->begin();
  before();
  clock->mark(stream);
  work();
  clock->mark(stream);
  finish();
  std::vector<double> marks = clock->read(stream);
  return marks[1] - marks[0];
}

size_t Probe::mostPart(uint32_t ranks) const {
  if (!isGpu())
    return kMostBytes;
  return std::max(mostGathered / ranks / kLeastBytes, uint64_t(1)) *
         kLeastBytes;
}

/// The seconds of one of `inRow` transfers of this rank.
double Probe::timeOnce(const Transfer &transfer, size_t bytes, int inRow) {
  auto work = [&] {
    for (int i = 0; i < inRow; ++i)
      transfer.issue(bytes);
  };
  if (clock)
    return timeOnDevice(transfer.stream, [] {}, work) / inRow;
  double begin = readClock();
  work();
  finish();
  return (readClock() - begin) / inRow;
}

/// The median of some transfers, by all ranks or by one of each node, in
/// seconds, after one that is not counted.
double Probe::timeTransfer(const Transfer &transfer, size_t bytes, int inRow,
                           std::optional<uint32_t> onlyLocal) {
  bool isMine = !onlyLocal || *onlyLocal == job.place().local;
  if (isMine) {
    transfer.issue(bytes);
    finish();
  }
  std::vector<double> seconds;
  for (int i = 0; i < kRepetitions; ++i) {
    job.barrier("begin of a transfer of the probe");
    double own = isMine ? timeOnce(transfer, bytes, inRow) : 0;
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
    alone.push_back(timeTransfer(transfer, bytes, 1, local));
  return countSharers(secondsOfAll / medianOf(alone), job.mesh().locals);
}

std::vector<TimedSize> Probe::measureSizes(const Transfer &transfer) {
  std::vector<TimedSize> times;
  // Memory that is touched first takes longer.
  transfer.issue(transfer.mostBytes);
  finish();
  size_t bytes = std::min(kLeastBytes, transfer.mostBytes);
  int inRow = isGpu() ? kMostInRow : 1;
  while (true) {
    double median = timeTransfer(transfer, bytes, inRow);
    times.push_back({double(bytes) * transfer.perByte, median});
    // All ranks have the same number.
    if (median > (isGpu() ? kLongSecondsOfGpu : kLongSeconds) ||
        bytes == transfer.mostBytes)
      return times;
    bytes = std::min(bytes * kGrowth, transfer.mostBytes);
    if (isGpu())
      inRow = std::clamp(int(kRowSeconds / median), 1, kMostInRow);
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

SharedLink Probe::measureCollectives(Axis axis, StreamId stream, uint32_t ranks,
                                     ProbedCollectives &measured) {
  const size_t most = mostPart(ranks);
  Collective collective = makeCollective(axis, stream);
  Transfer gather{stream,
                  [&, collective](size_t bytes) mutable {
                    collective.out = backend->deviceBase() + most;
                    collective.bytes = bytes;
                    backend->allGather(collective);
                  },
                  most, axis, ranks - 1.0};
  Transfer reduction{stream,
                     [&, collective](size_t bytes) mutable {
                       collective.out = backend->deviceBase() + ranks * most;
                       collective.scratch = collective.out + most;
                       collective.bytes = ranks * bytes;
                       backend->reduceScatter(collective);
                     },
                     most, axis, ranks - 1.0};
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
    at += bytes;
  };
  // Memory that is touched first takes longer.
  for (size_t done = 0; done < kWindow; done += kMostBytes)
    copy(kMostBytes);
  finish();
  // A GPU's link is faster than a host's memory.
  Transfer transfer{stream, copy, isGpu() ? kWindow : kMostBytes, std::nullopt};
  return measureLink(transfer, measureSizes(transfer));
}

/// A sentence about when and with what a GPU is measured.
std::string describeMeasurement() {
  std::time_t now = std::time(nullptr);
  char day[32];
  std::strftime(day, sizeof(day), "%F %H:%M UTC", std::gmtime(&now));
  return std::string("GPUs, on ") + day + ", by CUDA's events, with PyTorch " +
         TORCH_VERSION + " and NCCL.";
}

/// Throws unless all ranks have GPUs of one kind: a description has one device.
void Probe::requireEqualGpus(const GpuFacts &facts) {
  std::string own = "compute capability " + std::to_string(facts.major) + "." +
                    std::to_string(facts.minor) + ", " +
                    std::to_string(facts.processors) + " multiprocessors, " +
                    std::to_string(facts.memory) + " bytes";
  std::vector<std::string> all =
      job.exchange(own, "exchange of the GPUs that are measured");
  for (size_t rank = 0; rank < all.size(); ++rank)
    if (all[rank] != all[0])
      throw std::runtime_error(
          "--probe-cluster: expected the same GPU on all ranks; rank 0 has one "
          "of " +
          all[0] + ", rank " + std::to_string(rank) + " one of " + all[rank] +
          "; measure nodes of one kind at a time");
}

void Probe::makeGpuBackend() {
  const Mesh &mesh = job.mesh();
  GpuFacts facts = inspectGpu(job.place());
  requireEqualGpus(facts);
  ProbedGpuFacts &known = found.gpu.emplace();
  known.processors = facts.processors;
  known.major = facts.major;
  known.minor = facts.minor;
  known.context = facts.context;
  found.deviceMemory = facts.memory;
  mostGathered = std::min(kMostGathered, facts.memory / kGatheredShare);
  GpuRequest request;
  request.mesh = mesh;
  // A reduction has its input, as much to receive, and its part.
  for (uint32_t ranks : {mesh.nodes, mesh.locals})
    arenaBytes = std::max(arenaBytes, mostPart(ranks) * (1 + 2 * ranks));
  arenaBytes = std::max(arenaBytes, uint64_t(kWindow));
  request.deviceBytes = arenaBytes;
  request.hostBytes = kWindow * mesh.locals;
  request.hostPart = {kWindow * job.place().local,
                      kWindow * (job.place().local + 1)};
  request.numEvents = 1;
  for (auto [axis, ranks] :
       {std::pair(Axis::Node, mesh.nodes), std::pair(Axis::Local, mesh.locals)})
    if (ranks > 1)
      request.groups[size_t(axis)] = {
          {true, true}, {mostPart(ranks)}, {mostPart(ranks)}};
  SessionOptions session;
  session.timeoutSeconds = options.timeout;
  session.interface = options.interface;
  ProbedGpu made = makeProbedGpu(session, request, job);
  backend = std::move(made.device.backend);
  gpu = made.device.gpu;
  clock = std::move(made.clock);
  uint64_t expected = facts.context + arenaBytes, used = gpu->usedBytes();
  known.communicators = used - std::min(expected, used);
  known.measured = describeMeasurement();
  known.collectiveShare =
      double(made.collectiveProcessors) / double(facts.processors);
}

void Probe::countCommunicators() {
  uint64_t used = gpu->usedBytes();
  found.gpu->communicators += used - std::min(usedBeforeLinks, used);
}

void Probe::measureGpuIssue() {
  std::byte *host = backend->hostBase() + kWindow * job.place().local;
  auto wait = [&] { finish(); };
  IssueRates &issue = found.gpu->issue;
  issue =
      measureIssue(c10::Device(c10::kCUDA, c10::DeviceIndex(gpu->index)), wait);
  issue.op = mean(issue.op);
  issue.view = mean(issue.view);
  // A copy and the event by which others wait for it.
  issue.transfer = mean(secondsToIssue(
      kIssuedTransfers,
      [&] {
        backend->copy(StreamId::D2H, host, backend->deviceBase(), kLeastBytes);
        backend->record(0, StreamId::D2H);
        backend->wait(0, StreamId::Compute);
      },
      wait));
}

void Probe::measureGpu() {
  job.barrier("begin of the probe's computing");
  ProbedGpuFacts &known = *found.gpu;
  c10::Device device(c10::kCUDA, c10::DeviceIndex(gpu->index));
  c10::StreamGuard guard(
      c10::Stream(c10::Stream::UNSAFE, device,
                  reinterpret_cast<c10::StreamId>(gpu->computeStream)));
  uint64_t before = gpu->usedBytes();
  warmUpProducts(device);
  finish();
  gpu->memory->emptyCache();
  uint64_t after = gpu->usedBytes();
  known.workspace = after - std::min(before, after);
  auto time = [&](const Work &before, const Work &work) {
    std::vector<double> seconds;
    for (int i = 0; i < kRepetitions; ++i)
      seconds.push_back(timeOnDevice(StreamId::Compute, before, work));
    return std::max(mean(medianOf(seconds)), kLeastSeconds);
  };
  known.rates = measureOperators(device, time, mostGathered);
  measureGpuIssue();
  found.f64 = known.rates.best(DType::F64);
  found.f32 = known.rates.best(DType::F32);
  found.bf16 = known.rates.best(DType::BF16);
  found.f16 = known.rates.best(DType::F16);
  found.memoryBandwidth = known.rates.curve.back().rate;
  found.launchLatency = known.rates.launchLatency;
  // The code of kernels that operators have loaded.
  finish();
  gpu->memory->emptyCache();
  uint64_t last = gpu->usedBytes();
  known.context += last - std::min(after, last);
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

/// On the CPU, half of the memory that a machine has left is its ranks'
/// devices, the other half their nodes' host caches: on the CPU they are one.
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
  if (!isGpu()) {
    perRank /= 2;
    found.deviceMemory = std::max(uint64_t(perRank), uint64_t(1));
  }
  found.hostMemory =
      std::max(uint64_t(perRank), uint64_t(1)) * job.mesh().locals;
}

void Probe::run() {
  Progress progress(job.rank() == 0);
  found.mesh = job.mesh();
  progress.show("measuring memory and computing");
  if (isGpu())
    makeGpuBackend();
  else
    makeBackend();
  measureMemory();
  if (isGpu())
    measureGpu();
  else
    measureCompute();
  progress.show("measuring copies");
  found.h2d = measureCopies(StreamId::H2D);
  found.d2h = measureCopies(StreamId::D2H);
  progress.show("measuring links");
  if (isGpu())
    usedBeforeLinks = gpu->usedBytes();
  if (found.mesh.nodes > 1)
    found.inter = measureCollectives(Axis::Node, StreamId::Inter,
                                     found.mesh.nodes, found.overNodes);
  if (found.mesh.locals > 1)
    found.intra = measureCollectives(Axis::Local, StreamId::Intra,
                                     found.mesh.locals, found.overLocals);
  if (isGpu())
    countCommunicators();
  progress.clear();
  if (job.rank() == 0) {
    // What cannot be written is not lost.
    std::cout << toYaml(found) << std::flush;
    writeWhole("--probe-cluster", options.path, toYaml(found));
  }
  job.barrier("end of the probe");
  clock.reset();
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
  if (options.isForGpus)
    requireGpus("--target=cuda");
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
  // Ranks that measure something else have another plan.
  jobOptions.planHash = options.isForGpus ? "probe of GPUs" : "probe";
  // Between GPUs, only small things go over Gloo.
  if (options.isForGpus)
    jobOptions.nodeGroups = jobOptions.localGroups = {false, false};
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
