// SPDX-License-Identifier: Apache-2.0
#include "Rank.h"

#include "Gpu.h"
#include "JobSetup.h"
#include "JsonLog.h"
#include "Progress.h"
#include "StepStats.h"
#include "WholeFile.h"
#include "checkpoint/Shards.h"
#include "collectives/Job.h"
#include "cpu/CpuBackend.h"
#include "inputs/Inputs.h"
#include "profile/Profile.h"
#include "profile/Trace.h"
#include "step/Step.h"
#include "step/StepObject.h"

#include <ATen/Parallel.h>
#include <algorithm>
#include <chrono>
#include <deque>
#include <iostream>
#include <stdexcept>

namespace fcdp::run {

namespace {

using Clock = std::chrono::steady_clock;

double secondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

JobOptions jobOptions(const Options &options, const Manifest &manifest,
                      const Launch &launch, FailureExit &failureExit) {
  JobOptions job = makeJobOptions(options, launch, failureExit);
  auto groupsOf = [&](Axis axis) {
    return AxisGroups{manifest.uses(OpKind::AllGather, axis),
                      manifest.uses(OpKind::ReduceScatter, axis)};
  };
  // Between GPUs, only small things go over Gloo.
  job.nodeGroups = job.localGroups = job.worldGroups = {false, false};
  if (manifest.target == Target::Cpu) {
    job.nodeGroups = groupsOf(Axis::Node);
    job.localGroups = groupsOf(Axis::Local);
    job.worldGroups = groupsOf(Axis::World);
  }
  job.planHash = manifest.hash;
  return job;
}

/// What a rank makes before it meets the others.
struct Prepared {
  std::unique_ptr<Inputs> inputs;
  std::unique_ptr<JsonLog> log;
};

void prepare(const Options &options, const Manifest &manifest,
             const Launch &launch, Prepared &prepared) {
  if (manifest.target == Target::Cuda)
    requireGpus();
  bool isFirst = worldRank(manifest.mesh, launch.place) == 0;
  prepared.log = std::make_unique<JsonLog>(isFirst ? options.json : "");
  if (isFirst)
    for (const auto &[option, path] : outputFiles(options))
      if (path != options.json) // which is made now
        checkDirectory(option, path);
  prepared.inputs = std::make_unique<Inputs>(manifest, options.inputs);
  // Once per node is enough.
  if (launch.place.local == 0)
    prepared.inputs->checkValues();
}

/// One rank, once it has met the others. Used by one thread.
class Rank {
public:
  Rank(const Options &options, const StepObject &object, Job &job,
       FailureExit &failureExit, Prepared prepared)
      : options(options), object(object), manifest(object.manifest()), job(job),
        failureExit(failureExit), progress(job.rank() == 0),
        inputs(std::move(prepared.inputs)), log(std::move(prepared.log)) {}

  /// `problem` is what went wrong when `prepared` was made. Ends the process
  /// on errors.
  void run(const std::string &problem);

private:
  /// Ends all ranks if any of them has a problem; the first of them prints.
  void agree(const std::string &problem, const char *what);
  /// A GPU has the next step to work on while the losses of one are read,
  /// unless somebody wants to know when each operation ran.
  bool isAhead() const { return gpu && !recorder; }
  void makeBackend();
  void makeStep();
  void loadWeights();
  void train();
  RankStats runStep(int64_t index);
  /// Reads and prints what the oldest step that is not yet printed has done.
  void finishStep();
  void report(int64_t index, const RankStats &own);
  void save();
  void saveRecords();
  void saveTrace();
  std::vector<std::byte> gatherShards(size_t bucket);
  [[noreturn]] void fail(const std::string &message);

  const Options &options;
  const StepObject &object;
  const Manifest &manifest;
  Job &job;
  FailureExit &failureExit;
  Progress progress;
  std::unique_ptr<Inputs> inputs;
  std::unique_ptr<JsonLog> log;
  /// Null unless what it writes was asked for.
  std::unique_ptr<StepRecorder> recorder;
  std::unique_ptr<Profile> profile;
  StepStats lastStats;
  std::unique_ptr<Backend> backend;
  /// None on the CPU.
  std::optional<CudaDevice> gpu;
  std::unique_ptr<GraphCapture> graphs;
  std::unique_ptr<Step> step;
  /// Steps that have run, or are running, and are not printed yet.
  std::deque<RankStats> unprinted;
  int64_t numPrinted = 0;
  /// When the last of the printed ones had ended, on a GPU.
  Clock::time_point lastEnd;
  ByteCounters counted;
  uint64_t allocationsCounted = 0;
};

void Rank::fail(const std::string &message) {
  if (backend && backend->failed())
    failTransfer(job, failureExit, message);
  job.publishFailure(message);
  failureExit.own(message);
}

void Rank::agree(const std::string &problem, const char *what) {
  double flag = problem.empty() ? 0 : 1;
  std::vector<double> flags = job.gather({&flag, 1}, what);
  auto first = std::find(flags.begin(), flags.end(), 1.0);
  if (first == flags.end())
    return;
  // All have come to the same end, so that nobody waits for anybody.
  job.finish();
  if (uint32_t(first - flags.begin()) == job.rank())
    failureExit.own(problem);
  failureExit.silent();
}

void Rank::makeBackend() {
  if (manifest.target == Target::Cuda) {
    GpuBackend made = makeGpuBackend(options, manifest, job, recorder.get());
    backend = std::move(made.backend);
    gpu = made.device;
    graphs = std::move(made.graphs);
    return;
  }
  CpuBackendOptions backendOptions;
  backendOptions.deviceBytes = manifest.deviceBytes;
  backendOptions.numEvents = manifest.numEvents;
  HostSegmentOptions segment;
  segment.name = job.segmentName();
  segment.local = job.place().local;
  segment.locals = manifest.mesh.locals;
  segment.bytes = manifest.hostBytes;
  backendOptions.host = HostSegment(segment);
  backendOptions.node = job.transports(Axis::Node);
  backendOptions.local = job.transports(Axis::Local);
  backendOptions.world = job.transports(Axis::World);
  backendOptions.ranksPerNode = manifest.mesh.locals;
  backendOptions.control = &job.control();
  backendOptions.recorder = recorder.get();
  backend = makeCpuBackend(std::move(backendOptions));
}

void Rank::makeStep() {
  if (!options.profile.empty() || !options.trace.empty())
    recorder = std::make_unique<StepRecorder>(manifest.ops.size());
  if (!options.profile.empty())
    profile = std::make_unique<Profile>(manifest, job);
  makeBackend();
  step = std::make_unique<Step>(object, *backend,
                                StepOptions{job.place(), options.seed, gpu,
                                            recorder.get(), graphs.get()});
}

void Rank::loadWeights() {
  auto source = openWeights(options.weights);
  loadShards(manifest, job.place(), *source,
             [&](size_t bucket) { return step->shard(bucket); });
  loadBuffers(manifest, *source,
              [&](size_t buffer) { return step->buffer(buffer); });
}

RankStats Rank::runStep(int64_t index) {
  auto begin = Clock::now();
  RankStats stats;
  step->run([&](int64_t microBatch) {
    for (size_t i = 0; i < inputs->size(); ++i)
      inputs->read(i, index, microBatch, job.rank(), step->input(i));
  });
  stats.seconds = secondsSince(begin);
  ByteCounters now = backend->counters();
  stats.interBytes = now.interSent - counted.interSent;
  stats.intraBytes = now.intraSent - counted.intraSent;
  stats.h2dBytes = now.h2d - counted.h2d;
  stats.d2hBytes = now.d2h - counted.d2h;
  stats.controlBytes = now.controlSent - counted.controlSent;
  counted = now;
  Step::Memory memory = step->memory();
  stats.devicePeakBytes = memory.devicePeakBytes;
  stats.systemAllocations = memory.systemAllocations - allocationsCounted;
  allocationsCounted = memory.systemAllocations;
  return stats;
}

void Rank::report(int64_t index, const RankStats &own) {
  std::vector<double> packed = own.pack();
  std::vector<double> all =
      job.gather(packed, "exchange of the step's figures");
  std::vector<RankStats> ranks;
  for (size_t i = 0; i < all.size(); i += packed.size())
    ranks.push_back(
        RankStats::unpack(std::span(all).subspan(i, packed.size())));
  StepStats stats = combine(manifest.mesh, ranks);
  stats.step = index + 1;
  stats.hostCacheBytes = manifest.hostBytes;
  lastStats = stats;
  if (job.rank() != 0)
    return;
  progress.clear();
  if (!(std::cout << toLine(stats) << std::endl))
    throw std::runtime_error("standard output cannot be written");
  log->write(toJson(stats));
}

void Rank::finishStep() {
  RankStats stats = std::move(unprinted.front());
  unprinted.pop_front();
  stats.losses = step->losses();
  // The host has only issued it: what it takes shows from end to end.
  if (isAhead()) {
    stats.seconds = secondsSince(lastEnd);
    lastEnd = Clock::now();
  }
  report(numPrinted++, stats);
}

void Rank::train() {
  progress.show("filling caches");
  step->init();
  lastEnd = Clock::now();
  const size_t ahead = isAhead() ? Step::kMostUnread - 1 : 0;
  for (int64_t index = 0; index < options.steps; ++index) {
    unprinted.push_back(runStep(index));
    while (unprinted.size() > ahead)
      finishStep();
    if (profile && index > 0)
      profile->add(*recorder);
  }
  while (!unprinted.empty())
    finishStep();
}

std::vector<std::byte> Rank::gatherShards(size_t bucket) {
  std::span<std::byte> own = step->shard(bucket);
  const char *what = "gather of the parameters for --params-out";
  Transport &control = job.control();
  std::vector<uint32_t> owners =
      ownersOf(manifest.buckets[bucket], manifest.mesh);
  if (job.rank() != 0) {
    std::vector<Send> sends;
    if (std::find(owners.begin(), owners.end(), job.rank()) != owners.end())
      sends.push_back({0, own.data(), own.size()});
    control.exchange(sends, {}, what);
    return {};
  }
  // Rank 0 owns part 0, however a bucket is cut.
  std::vector<std::byte> all(own.size() * owners.size());
  std::copy(own.begin(), own.end(), all.begin());
  std::vector<Recv> recvs;
  for (size_t part = 1; part < owners.size(); ++part)
    recvs.push_back({owners[part], all.data() + part * own.size(), own.size()});
  control.exchange({}, recvs, what);
  return all;
}

void Rank::save() {
  if (options.paramsOut.empty())
    return;
  progress.show("writing " + options.paramsOut);
  saveParameters(
      manifest, options.paramsOut, job.rank() == 0,
      [&](size_t bucket) { return gatherShards(bucket); },
      [&](size_t buffer) { return step->buffer(buffer); });
}

/// What was recorded, for those who asked.
void Rank::saveRecords() {
  if (profile && job.rank() == 0)
    writeWhole("--profile", options.profile, profile->toJson());
  if (!options.trace.empty())
    saveTrace();
}

void Rank::saveTrace() {
  const std::vector<double> &seconds = lastStats.secondsOfRanks;
  auto slowest = std::max_element(seconds.begin(), seconds.end());
  size_t spans = 0;
  for (size_t stream = 0; stream < kNumStreams; ++stream)
    spans += recorder->getSpans(StreamId(stream)).size();
  TraceText text(manifest, *recorder);
  collectTraces(job, *recorder,
                chooseTraced(seconds.size(), slowest - seconds.begin(), spans),
                [&](const RankTrace &trace) { text.add(trace); });
  if (job.rank() == 0)
    writeWhole("--trace", options.trace, text.finish(lastStats));
}

/// Runs `work` and returns what went wrong, or nothing.
template <typename Work>
std::string problemOf(Work work) {
  try {
    work();
    return "";
  } catch (const std::exception &error) {
    return error.what();
  }
}

void Rank::run(const std::string &problem) {
  try {
    agree(problem, "check of the inputs");
    agree(problemOf([&] { makeStep(); }), "set-up of the step");
    progress.show("loading " + options.weights);
    agree(problemOf([&] { loadWeights(); }), "load of the weights");
    train();
    save();
    saveRecords();
    log->finish();
    progress.clear();
    step.reset();
    graphs.reset();
    job.barrier("end of the run");
    backend.reset();
    job.finish();
  } catch (const TransportError &error) {
    failTransfer(job, failureExit, error.what());
  } catch (const std::exception &error) {
    fail(error.what());
  }
}

} // namespace

std::string meshMismatch(const Mesh &compiled, const Mesh &started,
                         const std::string &launcher) {
  if (compiled.nodes == started.nodes && compiled.locals == started.locals)
    return "";
  auto spell = [](const Mesh &mesh) {
    return std::to_string(mesh.nodes) + (mesh.nodes == 1 ? " node" : " nodes") +
           " x " + std::to_string(mesh.locals) +
           (mesh.locals == 1 ? " rank" : " ranks");
  };
  return "the step was compiled for " + spell(compiled) + ", but " + launcher +
         " starts " + spell(started) +
         "; start as many, or compile it for these";
}

void runRank(const Options &options, const StepObject &object,
             const Launch &launch) {
  const Manifest &manifest = object.manifest();
  at::set_num_threads(threadsPerRank(options, manifest.mesh.locals));
  Prepared prepared;
  std::string problem =
      problemOf([&] { prepare(options, manifest, launch, prepared); });
  uint32_t rank = worldRank(manifest.mesh, launch.place);
  FailureExit failureExit(rank, temporaryFiles(options, rank));
  std::unique_ptr<Job> job =
      joinJob(jobOptions(options, manifest, launch, failureExit));
  Rank(options, object, *job, failureExit, std::move(prepared)).run(problem);
}

} // namespace fcdp::run
