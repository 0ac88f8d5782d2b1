// SPDX-License-Identifier: Apache-2.0
#include "core/StepRecorder.h"
#include "cpu/CpuBackend.h"
#include "probe/ProbeCompute.h"
#include "probe/ProbeProducts.h"
#include "probe/Prober.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>
#include <algorithm>
#include <cmath>
#include <vector>

namespace fcdp::run {

namespace {

constexpr size_t kMostTransfer = 4 << 20, kGrowth = 8;
constexpr double kLongTransfer = 0.5; // seconds
/// The seconds of a sample on all ranks. It is several times the slice of time
/// for which a kernel lets one of several threads have a core.
constexpr double kSampleSeconds = 0.012;
/// The fewest samples of work and of a transfer, after one that does not count.
constexpr size_t kLeastOfWork = 2, kLeastOfTransfer = 3;
/// The rows of the matrices whose products are work between two collectives,
/// the seconds of that work, and how often it is measured.
constexpr int64_t kUnitRows = 512;
/// So many of these matrices, of 1 MiB, are more than a core's caches hold.
constexpr int64_t kColdMatrices = 64;
constexpr double kUnitSeconds = 0.03;
constexpr int kUnits = 20;
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
  void measureUnderLoad(ProbedCluster &found) override;

private:
  /// Returns the time of work that all ranks do at the same time. It is
  /// repeated, so that ranks that share cores do so in each sample.
  SteadyTime timeOnAll(const Work &work);
  /// Returns the mean over ranks of the seconds of `count` times `work`, at
  /// least a tick of the clock.
  double timeOnce(const Work &work, int count);
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
  made.node = job.transports(Axis::Node);
  made.local = job.transports(Axis::Local);
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

double CpuProber::timeOnce(const Work &work, int count) {
  job.barrier("begin of an operation of the probe");
  double own = time({}, [&] {
    for (int i = 0; i < count; ++i)
      work();
  });
  return std::max(mean(own), kTick);
}

SteadyTime CpuProber::timeOnAll(const Work &work) {
  work();
  const int count = int(std::ceil(kSampleSeconds / timeOnce(work, 1)));
  SteadyTime found =
      takeSteady([&] { return timeOnce(work, count); }, kLeastOfWork);
  return {found.seconds / count, found.scatter};
}

void CpuProber::measureComputing(ProbedCluster &found) {
  at::NoGradGuard noGrad;
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
  SteadyTime byte = timeOfByte(time), launch = timeOfLaunch(time),
             coded = timeOfCodedByte(time);
  found.memoryBandwidth = 1 / byte.seconds;
  // On a processor, functions such as exp take longer than reading.
  found.memoryEfficiency =
      std::min(byte.seconds / timeOfPointwiseByte(time).seconds, 1.0);
  spread.memory = byte.scatter;
  found.launchLatency = launch.seconds;
  spread.launch = launch.scatter;
  found.codecRate = 1 / coded.seconds;
  spread.codec = coded.scatter;
  // Models are trained in these types.
  for (DType type : {DType::F32, DType::BF16}) {
    auto products = measureProducts(
        c10::kCPU, type,
        [&](const Work &, const Work &work) { return timeOnAll(work).seconds; },
        [] {}, found.launchLatency);
    found.products.insert(found.products.end(), products.begin(),
                          products.end());
  }
}

/// Operators were measured in the mean over ranks and with operands in caches.
/// In a step, operands come from memory, and all ranks wait for the slowest at
/// each collective, because ranks that share cores are not equally fast at any
/// moment. So work as long as that of a unit takes longer.
void CpuProber::measureUnderLoad(ProbedCluster &found) {
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
  const double expected = timeOnAll([&] {
                            at::mm_out(matrices[0], matrices[1], matrices[2]);
                          }).seconds;
  const int count = int(std::ceil(kUnitSeconds / expected));
  double slowest = 0;
  for (int i = 0; i < kUnits; ++i) {
    job.barrier("begin of the probe's work under load");
    double own = time({}, [&] {
      for (int j = 0; j < count; ++j) {
        at::Tensor &product = take();
        at::mm_out(product, take(), take());
      }
    });
    std::vector<double> all = job.gather({&own, 1}, "exchange of the probe");
    slowest += *std::max_element(all.begin(), all.end());
  }
  found.sustained = std::min(kUnits * count * expected / slowest, 1.0);
}

} // namespace

std::unique_ptr<Prober> makeCpuProber(Job &job) {
  return std::make_unique<CpuProber>(job);
}

} // namespace fcdp::run
