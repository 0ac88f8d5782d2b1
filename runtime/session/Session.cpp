// SPDX-License-Identifier: Apache-2.0
#include "session/Session.h"

#include "checkpoint/Shards.h"
#include "core/Failure.h"
#include "core/Thread.h"
#include "device/ChooseDevice.h"
#include "device/Determinism.h"
#include "files/FileDigest.h"
#include "job/JobSetup.h"
#include "job/PeerWatch.h"
#include "policy/InputCheck.h"
#include "session/SessionImpl.h"
#include "state/StateByName.h"
#include "transports/Transport.h"
#include "weights/AdapterFiles.h"
#include "weights/MatchedWeights.h"

#include <ATen/Parallel.h>
#include <algorithm>
#include <c10/util/Exception.h>
#include <csignal>
#include <cstdio>
#include <cstring>

namespace fcdp {

namespace {

SessionErrorCode codeOf(const std::exception &error,
                        SessionErrorCode otherwise) {
  if (auto *known = dynamic_cast<const SessionError *>(&error))
    return known->code();
  bool isGpuMemory = dynamic_cast<const c10::OutOfMemoryError *>(&error);
  switch (isGpuMemory ? FailureKind::OutOfMemory : kindOf(error)) {
  case FailureKind::TimedOut:
    return SessionErrorCode::TimedOut;
  case FailureKind::OutOfMemory:
    return SessionErrorCode::OutOfMemory;
  case FailureKind::PeerFailed:
    return SessionErrorCode::PeerFailed;
  case FailureKind::Other:
  case FailureKind::Local:
    break;
  }
  return otherwise;
}

/// Ignores signals of writes. A write to a connection whose peer is gone, or to
/// a file that has its greatest size, is an error to report.
void ignoreSignalsOfWrites() {
  for (int signal : {SIGPIPE, SIGXFSZ}) {
    struct sigaction action = {};
    if (sigaction(signal, nullptr, &action) == 0 &&
        action.sa_handler == SIG_DFL) {
      action.sa_handler = SIG_IGN;
      sigaction(signal, &action, nullptr);
    }
  }
}

/// Returns the values that several ranks have read: buffers, and parts of
/// buckets that have several owners. Every other parameter has one owner.
std::vector<Fact> sharedValues(const StepPlan &plan, Place place, Step &step) {
  std::vector<Fact> facts;
  for (size_t b = 0; b < plan.buffers.size(); ++b)
    facts.push_back({"the buffer '" + plan.buffers[b]->name + "'",
                     digestOf(step.buffer(b))});
  for (size_t b = 0; b < plan.buckets.size(); ++b) {
    const plan::BucketT &bucket = *plan.buckets[b];
    if (countParts(bucket.sharding, plan.mesh) == plan.mesh.size())
      continue;
    facts.push_back(
        {"the parameters of bucket '" + bucket.name + "', part " +
             std::to_string(partOf(bucket.sharding, plan.mesh, place)),
         digestOf(step.shard(b)), "",
         /*isOfSome=*/true});
  }
  return facts;
}

std::vector<FileFact> weightFiles(const std::vector<std::string> &paths) {
  std::vector<FileFact> files;
  for (const std::string &path : paths) {
    std::string name = "the weights";
    if (paths.size() > 1)
      name += ", file " + std::to_string(files.size() + 1);
    const std::string file = pathOfWeights(path);
    files.push_back({{name, "", file}, FileSet(file)});
  }
  return files;
}

} // namespace

std::shared_ptr<const StepObject> loadStep(const std::string &path) {
  try {
    return std::make_shared<const StepObject>(path);
  } catch (const std::exception &error) {
    throw SessionError(codeOf(error, SessionErrorCode::BadObject),
                       error.what());
  }
}

std::optional<SessionError>
Session::Impl::problemOf(SessionErrorCode code,
                         const std::function<void()> &work) {
  try {
    work();
    return std::nullopt;
  } catch (const std::exception &error) {
    return SessionError(codeOf(error, code), errorText(error));
  }
}

Session::Impl::~Impl() {
  // From here on the monitor ends no waits.
  alarm.watch(nullptr, nullptr);
  bool isLeft = job && (phase == Phase::Loading || phase == Phase::Running);
  if (isLeft)
    (void)problemOf(SessionErrorCode::Failed, [&] {
      job->publishFailure("its session was destroyed before it was closed, "
                          "after " +
                          countSteps(numSteps));
    });
  if (device.backend && phase != Phase::Closed)
    device.backend->fail("the session was destroyed");
  saver.reset();
  // The step frees memory, and a device waits for work in flight before it
  // releases memory.
  if (device.backend && phase != Phase::Closed)
    device.backend->abort();
  step.reset();
  device.graphs.reset();
  device.backend.reset();
}

bool Session::Impl::isOfThisProcess() const { return process == getpid(); }

void Session::Impl::requireOpen() const {
  if (!isOfThisProcess())
    throw forkedProcessError(process);
  if (phase == Phase::Closed)
    throw SessionError(SessionErrorCode::Misuse, "the session is closed");
  if (phase == Phase::Failed)
    throw SessionError(SessionErrorCode::Misuse, "the session has failed");
}

void Session::Impl::requireLoading(const char *function) const {
  requireOpen();
  if (phase != Phase::Loading)
    throw SessionError(SessionErrorCode::Misuse,
                       std::string(function) +
                           ": expected a call before the first step");
}

SessionError Session::Impl::conclude(const std::exception &error,
                                     SessionErrorCode code) {
  phase = Phase::Failed;
  if (auto message = alarm.interruption())
    return {SessionErrorCode::Failed, *message};
  // A failure that the background thread has published is the cause of all
  // others.
  if (auto cause = saver ? saver->failure() : std::nullopt)
    return *cause;
  std::string message = error.what();
  code = codeOf(error, code);
  bool isTransfer = dynamic_cast<const TransportError *>(&error) ||
                    (device.backend && device.backend->failed() &&
                     device.backend->failureKind() != FailureKind::Local);
  if (!isTransfer) {
    if (code != SessionErrorCode::PeerFailed)
      job->publishFailure(message);
    return {code, message};
  }
  std::lock_guard<std::mutex> lock(reporting);
  return reported ? *reported : explain(message, code);
}

SessionError Session::Impl::explain(const std::string &message,
                                    SessionErrorCode code) {
  std::string explained = job->explainFailure(
      message, code == SessionErrorCode::TimedOut ? FailureKind::TimedOut
                                                  : FailureKind::Other);
  if (explained != message)
    return {SessionErrorCode::PeerFailed, explained};
  return {code, message};
}

void Session::Impl::reportBlocked(const Failure &failure) {
  std::lock_guard<std::mutex> lock(reporting);
  if (reported)
    return;
  reported = explain(failure.what(), codeOf(failure, SessionErrorCode::Failed));
  if (options.onBlockedFailure)
    options.onBlockedFailure(*reported);
  else
    std::fprintf(stderr, "fcdp: error: %s\n", reported->what());
}

void Session::Impl::join() {
  const Launch &launch = options.launch;
  std::string mismatch = meshMismatch(plan.mesh, launch.mesh, launch.launcher);
  if (!mismatch.empty())
    throw SessionError(SessionErrorCode::BadLaunch, mismatch);
  ignoreSignalsOfWrites();
  torchSettings.threads = threadsPerRank(options.threads, launch.mesh.locals);
  threads.emplace(torchSettings.threads);
  auto problem = problemOf(SessionErrorCode::NoDevice, [&] {
    if (options.deterministic) {
      makeDeterministic(torchSettings);
      requireDeterministic(plan);
    }
    requireDevice(options, plan);
  });
  if (!problem && options.check)
    problem = problemOf(SessionErrorCode::InputMismatch, options.check);
  JobOptions settings =
      makeJobOptions(launch, options.timeoutSeconds, options.interface);
  settings.sessionNumber = options.number;
  settings.planHash = plan.hash;
  settings.onStranger = options.onStranger;
  chooseGroups(plan, settings);
  settings.onFailure = [this](const std::string &message) {
    if (options.onPeerFailure)
      options.onPeerFailure(message);
    alarm.ring(message);
  };
  try {
    job = joinJob(settings);
  } catch (const std::exception &error) {
    throw SessionError(SessionErrorCode::RendezvousFailed, errorText(error));
  }
  alarm.watch(job.get(), nullptr);
  if (!problem && options.scan)
    problem = problemOf(SessionErrorCode::InputMismatch, options.scan);
  std::vector<Fact> facts;
  if (!problem)
    problem = problemOf(SessionErrorCode::InputMismatch,
                        [&] { facts = openingFacts(); });
  attempt(SessionErrorCode::Failed, [&] {
    agree(problem, "check of the inputs", facts);
    agreeOnFiles(std::nullopt, "check of the inputs", [&] {
      return options.files ? options.files() : std::vector<FileFact>();
    });
  });
}

void Session::Impl::makeStep() {
  isRecording = options.record || options.profiledSteps > 0;
  if (isRecording)
    recorder = std::make_unique<StepRecorder>(plan.ops.size());
  if (options.profiledSteps > 0) {
    profile = std::make_unique<StepProfile>(plan, *job);
    toProfile = 1 + options.profiledSteps;
  }
  DeviceOptions forDevice = options;
  forDevice.onBlocked = [this](const Failure &failure) {
    reportBlocked(failure);
  };
  device = makeDevice(forDevice, plan, *job, recorder.get());
  alarm.watch(job.get(), device.backend.get());
  scaledLoss.start();
  losses.emplace(plan, job->rank());
  paddings = makePaddings(plan, options.padding);
  inputRules = findInputRules(plan);
  step = std::make_unique<Step>(
      *object, *device.backend,
      StepSetup{job->place(), options.seed, device.gpu, recorder.get(),
                device.graphs.get(), options.onNonfinite, options.stateFolders,
                [this](bool own) {
                  return isAnywhere(own, "agreement to skip a step");
                }});
  if (options.onDevice && step->transfersByThreads())
    options.onDevice(
        "threads read and write the states in files, one MiB at a time in a "
        "folder, because io_uring is not available: the kernel or the "
        "container "
        "forbids it, the file system has no direct transfers, or the runtime "
        "was built without liburing");
}

void Session::Impl::begin() {
  if (phase != Phase::Loading)
    return;
  agree(std::nullopt, "check of the values",
        {{"the values of parameters and states that were set",
          "digest " + toDigits(valuesSet)}},
        SessionErrorCode::BadWeights);
  step->init();
  phase = Phase::Running;
  lastEnd = SessionClock::now();
}

/// Throws InputMismatch if a tensor for input `index` of the plan breaks the
/// rule of that input. `batch` is for the message.
static void requireRule(InputRule rule, const StepPlan &plan, size_t index,
                        const Shape &shape, const std::byte *data,
                        int64_t batch) {
  const plan::InputT &input = *plan.inputs[index];
  const size_t bytes =
      size_t(numElements(shape)) * byteSize(toDType(input.dtype));
  const std::string problem =
      describeBrokenRule(rule, input, shape, {data, bytes});
  if (!problem.empty())
    throw SessionError(SessionErrorCode::InputMismatch,
                       "input '" + input.name + "' of batch " +
                           std::to_string(batch) + ": " + problem);
}

/// Does the same for the tensors of batches, whose inputs begin at `first`.
static void requireRules(const std::vector<InputRule> &rules,
                         const StepPlan &plan,
                         std::span<const TensorView> tensors, size_t first,
                         size_t perBatch) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    const size_t index = first + i % perBatch;
    requireRule(rules[index], plan, index, tensors[i].shape, tensors[i].data,
                int64_t(i / perBatch));
  }
}

void Session::Impl::fillInput(const FillInput &fill, size_t index, size_t input,
                              int64_t batch) {
  const std::span<std::byte> memory = step->input(index);
  fill(input, batch, memory);
  requireRule(inputRules[index], plan, index, plan.inputs[index]->shape,
              memory.data(), batch);
}

void Session::Impl::fillBatch(const FillInput &fill, StepPlan::Inputs inputs,
                              int64_t batch) {
  const size_t first = plan.firstOf(inputs);
  for (size_t i = 0; i < inputs.size(); ++i)
    fillInput(fill, first + i, i, batch);
}

void Session::Impl::runStep(const FillInput &fill, const StepNeeds &needs) {
  if (plan.weightsLoss())
    requireWeight(needs.weight, "step " + std::to_string(numSteps + 1));
  auto start = SessionClock::now();
  const std::optional<double> waited = device.backend->secondsWaited();
  RankStats stats;
  stats.learningRate = nextLearningRate();
  step->setLearningRate(stats.learningRate);
  if (const auto &scale = scaledLoss.scale()) {
    stats.lossScale = scale->value();
    step->setLossScale(scale->value(), !scale->scaling().isFixed());
  }
  stats.variant = needs.variant;
  const StepPlan::Inputs inputs = plan.stepInputs(needs.variant);
  if (plan.weightsLoss())
    stats.weights.reserve(plan.microBatches);
  step->run(
      [&](int64_t microBatch) {
        fillBatch(fill, inputs, microBatch);
        if (plan.weightsLoss())
          weightLoss(inputs, microBatch, needs.weight, stats);
      },
      plan.stepRun(needs.variant, numSteps + 1));
  stats.seconds = secondsSince(start);
  if (waited)
    stats.exposedSeconds = *device.backend->secondsWaited() - *waited;
  stats.skipped = step->isSkipped();
  scaledLoss.update(step->isSkipped());
  countWork(stats, counted);
  unread.push_back(std::move(stats));
  ++numSteps;
  if (profile)
    addToProfile(start);
}

void Session::Impl::addToProfile(SessionClock::time_point start) {
  // The first step fills memory.
  if (toProfile <= options.profiledSteps)
    profile->add(*recorder);
  if (--toProfile > 0)
    return;
  step->stopRecording();
  isRecording = false;
  // The time of this step is measured from here when it is read.
  lastEnd = start;
  if (job->rank() == 0 && options.onProfile)
    options.onProfile(profile->toJson());
  profile.reset();
}

void Session::Impl::countWork(RankStats &stats, ByteCounters &before) {
  ByteCounters now = device.backend->counters();
  for (LinkId link : kLinks)
    stats.linkBytes[link] = now.links[link] - before.links[link];
  stats.controlBytes = now.controlSent - before.controlSent;
  before = now;
  Step::Memory memory = step->memory();
  stats.devicePeakBytes = memory.devicePeakBytes;
  stats.systemAllocations = memory.systemAllocations - allocationsCounted;
  allocationsCounted = memory.systemAllocations;
}

void Session::Impl::requireSameCount(int64_t batches) {
  std::vector<double> counts;
  attemptTogether(SessionErrorCode::Failed, [&] {
    double own = double(batches);
    counts = job->gather({&own, 1}, "exchange of the numbers of batches");
  });
  auto [least, most] = std::minmax_element(counts.begin(), counts.end());
  if (*least != *most)
    throw SessionError(SessionErrorCode::InputMismatch,
                       "expected as many batches on each rank, got " +
                           std::to_string(int64_t(*least)) + " on rank " +
                           std::to_string(least - counts.begin()) + " and " +
                           std::to_string(int64_t(*most)) + " on rank " +
                           std::to_string(most - counts.begin()));
}

RankStats Session::Impl::evaluate(int64_t batches, const FillInput &fill) {
  auto start = SessionClock::now();
  const ByteCounters before = device.backend->counters();
  ByteCounters now = before;
  RankStats stats;
  stats.learningRate = nextLearningRate();
  const StepPlan::Inputs inputs = plan.evaluationInputs();
  stats.losses = step->runModel(batches, [&](int64_t batch) {
    fillBatch(fill, inputs, batch);
    if (plan.weightsLoss())
      recordWeight(inputs, batch, stats);
  });
  stats.seconds = secondsSince(start);
  countWork(stats, now);
  // The bytes of the next step are counted as if there had been no evaluation.
  for (LinkId link : kLinks)
    counted.links[link] += now.links[link] - before.links[link];
  counted.controlSent += now.controlSent - before.controlSent;
  lastEnd = SessionClock::now();
  return stats;
}

Session::Session(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}

Session::~Session() {
  // A forked child has none of the threads, but shares their files and
  // connections.
  if (!impl->isOfThisProcess())
    (void)impl.release();
}

std::unique_ptr<Session> Session::open(std::shared_ptr<const StepObject> object,
                                       const SessionOptions &options) {
  auto impl = std::make_unique<Impl>(std::move(object), options);
  impl->join();
  impl->attempt(SessionErrorCode::Failed, [&] {
    impl->agree(
        Impl::problemOf(SessionErrorCode::Failed, [&] { impl->makeStep(); }),
        "set-up of the step");
  });
  return std::unique_ptr<Session>(new Session(std::move(impl)));
}

const StepPlan &Session::plan() const { return impl->plan; }
const Place &Session::place() const { return impl->options.launch.place; }
uint32_t Session::rank() const { return worldRank(impl->plan.mesh, place()); }

std::vector<std::string>
Session::loadWeights(const std::vector<std::string> &paths) {
  std::vector<std::string> notes;
  impl->requireLoading("load of the weights");
  impl->attemptTogether(SessionErrorCode::BadWeights, [&] {
    std::vector<Fact> facts;
    auto problem = Impl::problemOf(SessionErrorCode::BadWeights, [&] {
      MatchedWeights source(impl->plan, paths);
      Step &step = *impl->step;
      loadShards(
          impl->plan, place(), source, [&](size_t b) { return step.shard(b); },
          [&](size_t b) { return step.master(b); });
      loadBuffers(impl->plan, source, [&](size_t b) { return step.buffer(b); });
      facts = sharedValues(impl->plan, place(), step);
      notes = source.notes();
    });
    impl->agreeOnFiles(
        problem, "load of the weights", [&] { return weightFiles(paths); },
        SessionErrorCode::BadWeights);
    impl->agree(std::nullopt, "load of the weights", facts,
                SessionErrorCode::BadWeights);
  });
  return notes;
}

void Session::begin() {
  impl->attemptTogether(SessionErrorCode::Failed, [&] { impl->begin(); });
}

void Session::run(const FillInput &fill,
                  const std::optional<StepNeeds> &needs) {
  impl->requireOpen();
  const uint32_t variants = impl->plan.numVariants();
  if (needs && needs->variant >= variants)
    throw SessionError(SessionErrorCode::Misuse,
                       "expected a variant below " + std::to_string(variants) +
                           ", got " + std::to_string(needs->variant));
  if (!needs && impl->plan.weightsLoss())
    throw SessionError(SessionErrorCode::Misuse,
                       "expected the sum of the weights of all ranks' losses, "
                       "as the step weights them by its input '" +
                           impl->plan.lossWeight + "'");
  if (!impl->plan.trains())
    throw SessionError(SessionErrorCode::Misuse,
                       "expected a step that trains parameters, got one that "
                       "was compiled for evaluations alone");
  if (numUnread() == maxUnread())
    throw SessionError(SessionErrorCode::Misuse,
                       "expected the oldest step to be read before another "
                       "is run");
  impl->attemptTogether(SessionErrorCode::Failed, [&] {
    impl->begin();
    impl->runStep(fill, needs.value_or(StepNeeds{variants - 1, 0}));
  });
}

static void copyInput(const TensorView &given, std::span<std::byte> out) {
  if (!out.empty())
    std::memcpy(out.data(), given.data, out.size());
}

void Session::run(std::span<const TensorView> inputs) {
  impl->requireOpen();
  StepNeeds own = {checkInputs(impl->plan, inputs), 0};
  own.weight = impl->losses->sumOwn(inputs);
  const size_t perBatch = impl->plan.numStepInputs();
  requireRules(impl->inputRules, impl->plan, inputs, 0, perBatch);
  const StepNeeds needs = agreeOnNeeds(own);
  const StepPlan::Inputs shapes = impl->plan.stepInputs(needs.variant);
  run(
      [&](size_t input, int64_t microBatch, std::span<std::byte> out) {
        const TensorView &given = inputs[size_t(microBatch) * perBatch + input];
        const size_t bytes =
            size_t(numElements(given.shape)) * byteSize(given.dtype);
        if (given.shape == shapes[input]->shape)
          copyInput(given, out);
        else
          copyPadded({given.data, bytes}, given.shape, out,
                     shapes[input]->shape, impl->paddings[input]);
      },
      needs);
}

RankStats Session::evaluate(int64_t batches, const FillInput &fill) {
  impl->requireOpen();
  if (!impl->plan.evaluates() || batches < 1 || numUnread() > 0)
    throw SessionError(
        SessionErrorCode::Misuse,
        !impl->plan.evaluates()
            ? "expected a step that was compiled with an evaluation"
        : batches < 1 ? "expected at least one batch to evaluate"
                      : "expected all steps to be read before an evaluation");
  impl->requireSameCount(batches);
  RankStats stats;
  impl->attempt(SessionErrorCode::Failed, [&] {
    impl->begin();
    stats = impl->evaluate(batches, fill);
  });
  return stats;
}

RankStats Session::evaluate(int64_t batches,
                            std::span<const TensorView> inputs) {
  impl->requireOpen();
  const StepPlan::Inputs expected = impl->plan.evaluationInputs();
  checkBatches(expected, batches, inputs);
  const size_t perBatch = expected.size();
  requireRules(impl->inputRules, impl->plan, inputs,
               impl->plan.firstOf(expected), perBatch);
  return evaluate(batches,
                  [&](size_t input, int64_t batch, std::span<std::byte> out) {
                    copyInput(inputs[size_t(batch) * perBatch + input], out);
                  });
}

RankStats Session::read() {
  impl->requireOpen();
  if (impl->unread.empty())
    throw SessionError(SessionErrorCode::Misuse,
                       "expected a step that was run and not read");
  RankStats stats = std::move(impl->unread.front());
  impl->unread.pop_front();
  impl->attempt(SessionErrorCode::Failed, [&] {
    stats.losses = impl->step->losses();
    if (auto bucket = impl->step->nonfiniteGradient())
      stats.nonfiniteGradient = double(*bucket);
    if (auto norm = impl->step->gradientNorm())
      stats.gradientNorm = *norm;
    // The host has only issued the step, so its time is from the end of the
    // previous one to its own end.
    if (impl->isAhead()) {
      stats.seconds = secondsSince(impl->lastEnd);
      impl->lastEnd = SessionClock::now();
    }
    impl->nonfinite.note(stats, impl->numRead(), rank(),
                         impl->scaledLoss.scale());
  });
  return stats;
}

size_t Session::numUnread() const { return impl->unread.size(); }

size_t Session::maxUnread() const {
  return impl->isAhead() ? Step::kMostUnread : 1;
}

StepStats Session::combine(const RankStats &own) {
  StepStats stats;
  impl->attemptTogether(SessionErrorCode::Failed, [&] {
    std::vector<double> packed = own.pack();
    std::vector<double> all =
        impl->job->gather(packed, "exchange of the step's figures");
    std::vector<RankStats> ranks;
    for (size_t i = 0; i < all.size(); i += packed.size())
      ranks.push_back(
          RankStats::unpack(std::span(all).subspan(i, packed.size())));
    stats = fcdp::combine(impl->plan.mesh, ranks);
    // The weight of a step was known before it ran.
    if (stats.weight)
      impl->requireWeight(*stats.weight, "the evaluation");
    stats.hostCacheBytes = impl->plan.hostBytes;
    stats.step = impl->numRead();
    if (impl->plan.hasSeveralShapes())
      stats.variant = own.variant;
  });
  return stats;
}

void Session::close() {
  impl->attempt(SessionErrorCode::Failed, [&] {
    impl->job->announceEnd(impl->numSteps);
    if (impl->saver)
      impl->saver->wait();
    impl->saver.reset();
    impl->runLock.reset();
    impl->step.reset();
    impl->device.graphs.reset();
    impl->job->barrier("end of the run");
    impl->alarm.watch(nullptr, nullptr);
    impl->device.backend.reset();
    impl->job->finish();
    impl->phase = Impl::Phase::Closed;
    impl->job.reset();
  });
  impl->threads.reset();
}

void Session::guard(const std::function<void()> &work) {
  impl->attempt(SessionErrorCode::Failed, work);
}

void Session::interrupt(const std::string &message) {
  if (impl->isOfThisProcess())
    impl->alarm.interrupt(message);
}

Job &Session::job() { return *impl->job; }
StepRecorder *Session::recorder() { return impl->recorder.get(); }

} // namespace fcdp
