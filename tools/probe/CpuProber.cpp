// SPDX-License-Identifier: Apache-2.0
#include "cpu/CpuBackend.h"
#include "probe/ProbeCompute.h"
#include "probe/ProbeLinks.h"
#include "probe/ProbeMessages.h"
#include "probe/ProbeProducts.h"
#include "probe/Prober.h"
#include "probe/RandomMatrix.h"
#include "streams/StepRecorder.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>
#include <algorithm>
#include <cmath>
#include <ctime>
#include <functional>
#include <vector>

namespace fcdp::probe {

namespace {

constexpr size_t kMostTransfer = 4 << 20, kGrowth = 8;
constexpr double kLongTransfer = 0.03; // seconds
/// The seconds of a sample, and of work before and after it that does not
/// count: ranks do not begin at the same moment, and each should meet the load
/// of all others during its whole sample.
constexpr double kSampleSeconds = 0.01, kAroundSample = 0.004;
/// The fewest and the most samples of work, and the fewest of a transfer after
/// one that does not count.
constexpr size_t kLeastOfWork = 2, kMostOfWork = 3, kLeastOfTransfer = 3;
/// The rows of the matrices whose products are work between two collectives,
/// the seconds of that work, and how often it is measured.
constexpr int64_t kUnitRows = 512;
constexpr double kUnitSeconds = 0.03;
constexpr int kUnits = 24;
/// So many of these matrices, of 1 MiB, are more than a core's caches hold.
constexpr int64_t kColdMatrices = 64;
/// The seconds of a sample by the clock, many times the slice of time for which
/// a kernel lets one of several threads have a core.
constexpr double kComparedSeconds = 0.1;
/// The rows of the matrices with which the sharing of cores is measured.
constexpr int64_t kSmallRows = 256;
/// The greatest share of the processors that is written for a link.
constexpr double kMostShare = 0.9;
/// The resolution of the clock in seconds.
constexpr double kTick = 1e-9;

class CpuProber : public Prober {
public:
  explicit CpuProber(Job &job);

  TransferLimits limits() const override {
    return {kMostTransfer, kLongTransfer, kGrowth, 1, false, kLeastOfTransfer};
  }
  size_t mostPart(uint32_t) const override { return kMostTransfer; }
  double time(std::initializer_list<StreamId> streams,
              const Work &work) override;
  void divideMemory(double available, ProbedCluster &found) override;
  void measureComputing(ProbedCluster &found) override;
  void measureUnderLoad(LinkProbe &links, ProbedCluster &found) override;

private:
  /// Returns the mean over ranks of a sample that all take at once.
  SteadyTime takeOnAll(const std::function<double()> &sample);
  /// Returns the time of work that all ranks do at the same time. Ranks that
  /// share cores have one in turn, for slices of time as long as a sample. So
  /// each reads how long it had one, which scatters less.
  SteadyTime timeOnAll(const Work &work);
  /// Returns how often all ranks can do `work` per second, by the clock.
  /// `issue` issues transfers that run meanwhile. Each rank works for the same
  /// time, not equally much: ranks that finish leave their cores to others.
  double rateOnAll(const Work &work, const Work &issue = [] {});
  /// Finds how long ranks wait for a core.
  void measureSharing();
  /// Returns the share of all rates that work on operands from memory reaches
  /// while all ranks wait for the slowest at each collective, because ranks
  /// that share cores are not equally fast at any moment.
  double measureSustained(const Work &coldProduct);
  /// Sets the share of the processors that gathers over a link take from
  /// `work`, which has the rate `alone` without them.
  void measureBeside(LinkProbe &links, AxisId axis, StreamId stream,
                     const Work &work, double alone,
                     std::optional<SharedLink> &link);

  /// The seconds by the clock in which a rank has a core for one, while all
  /// ranks compute. At least 1.
  double perOwnSecond = 1;
};

CpuProber::CpuProber(Job &job) : Prober(job) {
  const Mesh &mesh = job.mesh();
  CpuBackendOptions made;
  // A reduction needs memory for its input, as much to receive, and its part.
  made.deviceBytes =
      std::max(kProbeWindow,
               kMostTransfer * (1 + 2 * std::max(mesh.nodes, mesh.locals)));
  HostSegmentOptions segment;
  segment.name = job.segmentName();
  segment.local = job.place().local;
  segment.locals = mesh.locals;
  segment.bytes = kProbeWindow * mesh.locals;
  segment.part = {kProbeWindow * job.place().local,
                  kProbeWindow * (job.place().local + 1)};
  made.host = HostSegment(segment);
  made.node = job.transports(AxisId::Node);
  made.local = job.transports(AxisId::Local);
  made.ranksPerNode = mesh.locals;
  made.control = &job.control();
  backend = makeCpuBackend(std::move(made));
}

double CpuProber::time(std::initializer_list<StreamId>, const Work &work) {
  double begin = readClock();
  work();
  finish();
  return readClock() - begin;
}

/// Sets the memory. Half of the memory that a machine has left is for its
/// ranks' devices, the other half for their nodes' host caches: on the CPU both
/// are one memory.
void CpuProber::divideMemory(double available, ProbedCluster &found) {
  uint64_t half = std::max(uint64_t(available / 2), uint64_t(1));
  found.deviceMemory = half;
  found.hostMemory = half * job.mesh().locals;
}

/// Returns the seconds for which this thread has had a core.
static double readOwnClock() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return double(time.tv_sec) + 1e-9 * double(time.tv_nsec);
}

namespace {
/// The seconds of one piece of work.
struct Spent {
  double passed; ///< by the clock
  double own;    ///< with a core
};
} // namespace

/// Works for `seconds` or a little longer.
static Spent workFor(double seconds, const Work &work) {
  const double begin = readClock(), ownBegin = readOwnClock();
  for (int count = 1;; ++count) {
    work();
    double passed = readClock() - begin;
    if (passed >= seconds)
      return {std::max(passed, kTick) / count,
              std::max(readOwnClock() - ownBegin, kTick) / count};
  }
}

SteadyTime CpuProber::takeOnAll(const std::function<double()> &sample) {
  return takeSteady(
      [&] {
        job.barrier("begin of an operation of the probe");
        return mean(sample());
      },
      kLeastOfWork, kMostOfWork);
}

SteadyTime CpuProber::timeOnAll(const Work &work) {
  SteadyTime found = takeOnAll([&] {
    workFor(kAroundSample, work);
    double own = workFor(kSampleSeconds, work).own;
    workFor(kAroundSample, work);
    return own;
  });
  return {found.seconds * perOwnSecond, found.scatter};
}

double CpuProber::rateOnAll(const Work &work, const Work &issue) {
  return takeOnAll([&] {
           issue();
           workFor(kAroundSample, work);
           double passed = workFor(kComparedSeconds, work).passed;
           workFor(kAroundSample, work);
           finish();
           return 1 / passed;
         })
      .seconds;
}

void CpuProber::measureSharing() {
  at::Tensor left = makeRandomMatrix(c10::kCPU, DType::F32, kSmallRows,
                                     kSmallRows),
             product = left.clone();
  Work work = [&] { at::mm_out(product, left, left); };
  perOwnSecond = 1;
  perOwnSecond = std::max(1 / rateOnAll(work) / timeOnAll(work).seconds, 1.0);
}

void CpuProber::measureComputing(ProbedCluster &found) {
  at::NoGradGuard noGrad;
  measureSharing();
  auto time = [&](const Work &work) { return timeOnAll(work); };
  ProbedSpread &spread = found.spread;
  for (auto [type, rate] :
       {std::pair(DType::F64, &found.f64), std::pair(DType::F32, &found.f32),
        std::pair(DType::BF16, &found.bf16),
        std::pair(DType::F16, &found.f16)}) {
    SteadyTime flop = timeOfFlop(type, time);
    *rate = 1 / flop.seconds;
    spread.products = std::max(spread.products, flop.scatter);
  }
  SteadyTime byte = timeOfByte(time), launch = timeOfLaunch(time);
  found.rates.push_back(rateOfMessages(time));
  found.memoryBandwidth = 1 / byte.seconds;
  // On a processor, functions such as exp take longer than reading.
  found.memoryEfficiency =
      std::min(byte.seconds / timeOfPointwiseByte(time).seconds, 1.0);
  spread.memory = byte.scatter;
  found.launchLatency = launch.seconds;
  spread.launch = launch.scatter;
  // Models are trained in these types.
  for (DType type : {DType::F32, DType::BF16}) {
    auto products = measureProducts(
        c10::kCPU, type, kSidesOfCpu,
        [&](const Work &, const Work &work) { return timeOnAll(work).seconds; },
        [] {}, found.launchLatency);
    found.products.insert(found.products.end(), products.begin(),
                          products.end());
  }
}

double CpuProber::measureSustained(const Work &coldProduct) {
  at::Tensor left = at::zeros({kUnitRows, kUnitRows}, at::kFloat),
             right = left.clone(), product = left.clone();
  const double expected =
      timeOnAll([&] { at::mm_out(product, left, right); }).seconds;
  const int count = int(std::ceil(kUnitSeconds / expected));
  double slowest = 0;
  for (int i = 0; i < kUnits; ++i) {
    job.barrier("begin of the probe's work under load");
    double own = time({}, [&] {
      for (int j = 0; j < count; ++j)
        coldProduct();
    });
    std::vector<double> all = job.gather({&own, 1}, "exchange of the probe");
    slowest += *std::max_element(all.begin(), all.end());
  }
  return std::min(kUnits * count * expected / slowest, 1.0);
}

void CpuProber::measureBeside(LinkProbe &links, AxisId axis, StreamId stream,
                              const Work &work, double alone,
                              std::optional<SharedLink> &link) {
  if (!link)
    return;
  const double beside = rateOnAll(work, [&] {
    links.issueGathers(axis, stream, *link,
                       kComparedSeconds + 2 * kAroundSample);
  });
  link->processors = std::clamp(1 - beside / alone, 0.0, kMostShare);
}

void CpuProber::measureUnderLoad(LinkProbe &links, ProbedCluster &found) {
  if (job.mesh().size() == 1)
    return;
  at::NoGradGuard noGrad;
  std::vector<at::Tensor> matrices;
  for (int64_t i = 0; i < kColdMatrices; ++i)
    matrices.push_back(at::zeros({kUnitRows, kUnitRows}, at::kFloat));
  size_t next = 0;
  auto take = [&]() -> at::Tensor & {
    return matrices[next++ % matrices.size()];
  };
  Work coldProduct = [&] {
    at::Tensor &product = take();
    at::mm_out(product, take(), take());
  };
  found.sustained = measureSustained(coldProduct);
  const double alone = rateOnAll(coldProduct);
  measureBeside(links, AxisId::Node, StreamId::Inter, coldProduct, alone,
                found.inter);
  measureBeside(links, AxisId::Local, StreamId::Intra, coldProduct, alone,
                found.intra);
}

} // namespace

std::unique_ptr<Prober> makeCpuProber(Job &job) {
  return std::make_unique<CpuProber>(job);
}

} // namespace fcdp::probe
