// SPDX-License-Identifier: Apache-2.0
#include "device/Gpu.h"
#include "operators/WarmUp.h"
#include "probe/ProbeAttention.h"
#include "probe/ProbeIssue.h"
#include "probe/ProbeOperators.h"
#include "probe/ProbeProducts.h"
#include "probe/ProbeSustained.h"
#include "probe/Prober.h"
#include "session/OverRanks.h"

#include <algorithm>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/StreamGuard.h>
#include <ctime>
#include <limits>
#include <stdexcept>
#include <torch/headeronly/version.h>

namespace fcdp::probe {

namespace {

constexpr int kRepetitionsOfGpu = 5;
/// The largest gather in bytes, and the divisor of a GPU's memory that limits
/// it.
constexpr uint64_t kMostGathered = 256 << 20, kGatheredShare = 16;
/// The divisor of the largest gather that gives the operands of attention.
constexpr uint64_t kOperandShare = 8;
/// The first compute capability for which PyTorch has the flash kernel.
constexpr uint32_t kFlashMajor = 8;
/// The number of calls whose issue is timed.
constexpr int kIssuedTransfers = 50;
/// The resolution of the clock, for work that takes less.
constexpr double kTickOfGpu = 1e-9;

class GpuProber : public Prober {
public:
  GpuProber(const ProbeOptions &options, Job &job, ProbedCluster &found);

  // The link of a GPU is faster than a host's memory, and up to ten transfers
  // follow each other, as in nccl-tests.
  TransferLimits limits() const override {
    return {kProbeWindow, 0.1, 4, 10, true};
  }
  size_t mostPart(uint32_t ranks) const override;
  double time(std::initializer_list<StreamId> streams,
              const Work &work) override {
    return timeBehind(streams, [] {}, work);
  }
  void divideMemory(double available, ProbedCluster &found) override;
  void measureComputing(ProbedCluster &found) override;
  void measureUnderLoad(LinkProbe &, ProbedCluster &found) override;
  void beginLinks() override { usedBeforeLinks = gpu->usedBytes(); }
  void endLinks(ProbedCluster &found) override;
  bool joinWorld() override;

private:
  void requireEqualGpus(const std::string &name, const GpuFacts &facts);
  GpuRequest makeRequest() const;
  /// Adds the groups along an axis, and the memory for their collectives.
  void addGroups(GpuRequest &request, AxisId axis, uint32_t ranks) const;
  /// Makes the backend, and returns the most processors of a collective.
  uint32_t makeDevice(const GpuRequest &request);
  /// Returns the first reason of any rank, or an empty string.
  std::string firstReason(const std::string &own);
  /// Returns the types in which all ranks multiply matrices, and adds the
  /// reasons why the others are missing.
  std::vector<DType> findTypes(ProbedGpuFacts &known);
  void measureAttentionOf(ProbedGpuFacts &known, const DeviceTimer &time);
  IssueRates measureHost();
  /// Returns the host's seconds for issuing a transfer and the event by which
  /// compute waits for it.
  double secondsOfTransfer(StreamId stream, const Work &transfer);
  double secondsOfGather(AxisId axis, StreamId stream);
  /// Returns the seconds that the device takes for the second piece of work on
  /// the streams.
  double timeBehind(std::initializer_list<StreamId> streams, const Work &before,
                    const Work &work);
  /// Makes libtorch work on the stream for computing.
  c10::StreamGuard useComputeStream() const;
  /// Frees the memory that libtorch keeps, and returns the bytes in use.
  uint64_t countUsed();
  c10::Device torchDevice() const {
    return {c10::kCUDA, c10::DeviceIndex(gpu->index)};
  }

  DeviceOptions device;
  std::unique_ptr<StreamClock> clock;
  std::optional<CudaDevice> gpu;
  uint64_t mostGathered = 0;
  /// Bytes of the device in use before links are measured.
  uint64_t usedBeforeLinks = 0;
};

/// Returns a sentence on the date and the software of the measurement.
std::string describeMeasurement() {
  std::time_t now = std::time(nullptr);
  char day[32];
  std::strftime(day, sizeof(day), "%F %H:%M UTC", std::gmtime(&now));
  return std::string("GPUs, on ") + day + ", by CUDA's events, with PyTorch " +
         TORCH_VERSION + " and NCCL.";
}

/// Throws unless all ranks have GPUs of one kind: a description has one device.
void GpuProber::requireEqualGpus(const std::string &name,
                                 const GpuFacts &facts) {
  std::string own = "compute capability " + std::to_string(facts.major) + "." +
                    std::to_string(facts.minor) + ", " +
                    std::to_string(facts.processors) + " multiprocessors, " +
                    std::to_string(facts.memory) + " bytes";
  std::vector<std::string> all =
      job.exchange(own, "exchange of the GPUs that are measured");
  for (size_t rank = 0; rank < all.size(); ++rank)
    if (all[rank] != all[0])
      throw std::runtime_error(
          name + ": expected the same GPU on all ranks; rank 0 has one of " +
          all[0] + ", rank " + std::to_string(rank) + " one of " + all[rank] +
          "; measure nodes of one kind at a time");
}

size_t GpuProber::mostPart(uint32_t ranks) const {
  return std::max(mostGathered / ranks / kLeastTransfer, uint64_t(1)) *
         kLeastTransfer;
}

void GpuProber::addGroups(GpuRequest &request, AxisId axis,
                          uint32_t ranks) const {
  const uint64_t part = mostPart(ranks);
  request.groups[size_t(axis)] = {{true, true}, {part}, {part}};
  // A reduction needs memory for its input, as much to receive, and its part.
  request.deviceBytes = std::max(request.deviceBytes, part * (1 + 2 * ranks));
}

GpuRequest GpuProber::makeRequest() const {
  const Mesh &mesh = job.mesh();
  GpuRequest request;
  request.mesh = mesh;
  request.deviceBytes = kProbeWindow;
  request.hostBytes = kProbeWindow * mesh.locals;
  request.hostPart = {kProbeWindow * job.place().local,
                      kProbeWindow * (job.place().local + 1)};
  request.numEvents = 1;
  for (auto [axis, ranks] : {std::pair(AxisId::Node, mesh.nodes),
                             std::pair(AxisId::Local, mesh.locals)})
    if (ranks > 1)
      addGroups(request, axis, ranks);
  return request;
}

uint32_t GpuProber::makeDevice(const GpuRequest &request) {
  ProbedGpu made = makeProbedGpu(device, request, job);
  backend = std::move(made.device.backend);
  gpu = made.device.gpu;
  clock = std::move(made.clock);
  return made.collectiveProcessors;
}

GpuProber::GpuProber(const ProbeOptions &options, Job &job,
                     ProbedCluster &found)
    : Prober(job) {
  GpuFacts facts = inspectGpu(job.place());
  requireEqualGpus(options.name, facts);
  mostGathered = std::min(kMostGathered, facts.memory / kGatheredShare);
  GpuRequest request = makeRequest();
  device.timeoutSeconds = options.timeout;
  device.interface = options.interface;
  uint32_t collectiveProcessors = makeDevice(request);
  found.deviceMemory = facts.memory;
  ProbedGpuFacts &known = found.gpu.emplace();
  known.measured = describeMeasurement();
  known.processors = facts.processors;
  known.major = facts.major;
  known.minor = facts.minor;
  known.context = facts.context;
  uint64_t expected = facts.context + request.deviceBytes,
           used = gpu->usedBytes();
  known.communicators = used - std::min(expected, used);
  known.collectiveShare =
      double(collectiveProcessors) / double(facts.processors);
}

bool GpuProber::joinWorld() {
  // If one backend had these and the other communicators, their memory would be
  // counted together.
  countUsed();
  clock.reset();
  backend.reset();
  GpuRequest request;
  request.mesh = job.mesh();
  request.numEvents = 1;
  addGroups(request, AxisId::World, job.mesh().size());
  makeDevice(request);
  return true;
}

double GpuProber::timeBehind(std::initializer_list<StreamId> streams,
                             const Work &before, const Work &work) {
  finish();
  clock->begin();
  before();
  for (StreamId stream : streams)
    clock->mark(stream);
  work();
  for (StreamId stream : streams)
    clock->mark(stream);
  finish();
  double begin = std::numeric_limits<double>::infinity(), end = -begin;
  for (StreamId stream : streams) {
    std::vector<double> marks = clock->read(stream);
    begin = std::min(begin, marks[0]);
    end = std::max(end, marks[1]);
  }
  return end - begin;
}

c10::StreamGuard GpuProber::useComputeStream() const {
  return c10::StreamGuard(
      c10::Stream(c10::Stream::UNSAFE, torchDevice(),
                  reinterpret_cast<c10::StreamId>(gpu->computeStream)));
}

void GpuProber::divideMemory(double available, ProbedCluster &found) {
  found.hostMemory =
      std::max(uint64_t(available), uint64_t(1)) * job.mesh().locals;
}

uint64_t GpuProber::countUsed() {
  finish();
  gpu->memory->emptyCache();
  return gpu->usedBytes();
}

double GpuProber::secondsOfTransfer(StreamId stream, const Work &transfer) {
  return mean(secondsToIssue(
      kIssuedTransfers,
      [&] {
        transfer();
        backend->record(0, stream);
        backend->wait(0, StreamId::Compute);
      },
      [&] { finish(); }));
}

IssueRates GpuProber::measureHost() {
  std::byte *host = backend->hostBase() + kProbeWindow * job.place().local;
  IssueRates issue = measureIssue(torchDevice(), [&] { finish(); });
  issue.op = mean(issue.op);
  issue.view = mean(issue.view);
  issue.copy = secondsOfTransfer(StreamId::D2H, [&] {
    backend->copy(StreamId::D2H, host, backend->deviceBase(), kLeastTransfer);
  });
  return issue;
}

double GpuProber::secondsOfGather(AxisId axis, StreamId stream) {
  Collective gather{};
  gather.axis = axis;
  gather.stream = stream;
  gather.in = backend->deviceBase();
  gather.out = backend->deviceBase() + kLeastTransfer;
  gather.bytes = kLeastTransfer;
  gather.inType = gather.outType = DType::F32;
  gather.what = "probe of a gather's issue";
  return secondsOfTransfer(stream, [&] { backend->allGather(gather); });
}

std::string GpuProber::firstReason(const std::string &own) {
  finish();
  for (const std::string &reason :
       job.exchange(own, "exchange of what GPUs can do"))
    if (!reason.empty())
      return reason;
  return "";
}

std::vector<DType> GpuProber::findTypes(ProbedGpuFacts &known) {
  std::vector<DType> types;
  for (DType type : {DType::F64, DType::F32, DType::BF16, DType::F16}) {
    std::string why = firstReason(whyNoProducts(torchDevice(), type));
    if (why.empty())
      types.push_back(type);
    else
      known.missingTypes.emplace_back(type, why);
  }
  return types;
}

/// Returns the kernel that the compiler chooses without a mask.
static AttentionKernel attentionOf(const ProbedGpuFacts &gpu, DType type) {
  if (gpu.major < kFlashMajor || type == DType::F32)
    return AttentionKernel::Efficient;
  return (gpu.major == 9 || gpu.major == 10) && gpu.minor == 0
             ? AttentionKernel::Cudnn
             : AttentionKernel::Flash;
}

void GpuProber::measureAttentionOf(ProbedGpuFacts &known,
                                   const DeviceTimer &time) {
  for (DType type : {DType::BF16, DType::F16, DType::F32}) {
    if (known.rates.best(type) == 0)
      continue;
    AttentionProbe probe{torchDevice(), type, attentionOf(known, type),
                         size_t(mostGathered / kOperandShare)};
    known.whyNoAttention = firstReason(whyNoAttention(probe));
    if (!known.whyNoAttention.empty())
      continue;
    known.attention =
        measureAttention(probe, time, makeBacklog(torchDevice(), time),
                         known.rates.launchLatency);
    return;
  }
}

void GpuProber::measureComputing(ProbedCluster &found) {
  ProbedGpuFacts &known = *found.gpu;
  c10::StreamGuard guard = useComputeStream();
  uint64_t before = gpu->usedBytes();
  warmUpProducts(torchDevice());
  uint64_t after = countUsed();
  known.workspace = after - std::min(before, after);
  auto time = [&](const Work &before, const Work &work) {
    std::vector<double> seconds;
    for (int i = 0; i < kRepetitionsOfGpu; ++i)
      seconds.push_back(timeBehind({StreamId::Compute}, before, work));
    return std::max(mean(medianOf(seconds)), kTickOfGpu);
  };
  known.rates =
      measureOperators(torchDevice(), findTypes(known), time, mostGathered);
  measureAttentionOf(known, time);
  known.issue = measureHost();
  found.f64 = known.rates.best(DType::F64);
  found.f32 = known.rates.best(DType::F32);
  found.bf16 = known.rates.best(DType::BF16);
  found.f16 = known.rates.best(DType::F16);
  found.memoryBandwidth = known.rates.curve.back().rate;
  found.launchLatency = known.rates.launchLatency;
  // These bytes are the code of kernels that operators have loaded.
  uint64_t last = countUsed();
  known.context += last - std::min(after, last);
}

void GpuProber::measureUnderLoad(LinkProbe &, ProbedCluster &found) {
  c10::StreamGuard guard = useComputeStream();
  auto time = [&](const Work &work) {
    double own = timeBehind({StreamId::Compute}, [] {}, work);
    return job.gather({&own, 1}, "exchange of the probe");
  };
  found.gpu->sustained =
      measureSustained(torchDevice(), found.gpu->rates.largestOfFastest(),
                       found.launchLatency, time);
}

void GpuProber::endLinks(ProbedCluster &found) {
  // Communicators allocate more at their first collectives.
  uint64_t used = gpu->usedBytes();
  found.gpu->communicators += used - std::min(usedBeforeLinks, used);
  // The slower of the two counts.
  double &transfer = found.gpu->issue.transfer;
  if (job.mesh().nodes > 1)
    transfer = secondsOfGather(AxisId::Node, StreamId::Inter);
  if (job.mesh().locals > 1)
    transfer =
        std::max(transfer, secondsOfGather(AxisId::Local, StreamId::Intra));
}

} // namespace

std::unique_ptr<Prober> makeGpuProber(const ProbeOptions &options, Job &job,
                                      ProbedCluster &found) {
  return std::make_unique<GpuProber>(options, job, found);
}

} // namespace fcdp::probe
