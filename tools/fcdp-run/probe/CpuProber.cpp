// SPDX-License-Identifier: Apache-2.0
#include "core/StepRecorder.h"
#include "cpu/CpuBackend.h"
#include "probe/ProbeCompute.h"
#include "probe/Prober.h"

#include <algorithm>

namespace fcdp::run {

namespace {

constexpr size_t kMostTransfer = 4 << 20;

class CpuProber : public Prober {
public:
  explicit CpuProber(Job &job);

  TransferLimits limits() const override {
    return {kMostTransfer, 0.5, 1, false};
  }
  size_t mostPart(uint32_t) const override { return kMostTransfer; }
  double time(std::initializer_list<StreamId> streams,
              const Work &work) override;
  void divideMemory(double available, ProbedCluster &found) override;
  void measureComputing(ProbedCluster &found) override;
};

CpuProber::CpuProber(Job &job) : Prober(job) {
  const Mesh &mesh = job.mesh();
  CpuBackendOptions made;
  // A reduction has its input, as much to receive, and its part.
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

/// Half of the memory that a machine has left is its ranks' devices, the other
/// half their nodes' host caches: on the CPU they are one.
void CpuProber::divideMemory(double available, ProbedCluster &found) {
  uint64_t half = std::max(uint64_t(available / 2), uint64_t(1));
  found.deviceMemory = half;
  found.hostMemory = half * job.mesh().locals;
}

void CpuProber::measureComputing(ProbedCluster &found) {
  for (auto [type, rate] :
       {std::pair(DType::F64, &found.f64), std::pair(DType::F32, &found.f32),
        std::pair(DType::BF16, &found.bf16), std::pair(DType::F16, &found.f16)})
    *rate = 1 / std::max(mean(secondsPerFlop(type)), 1e-18);
  found.memoryBandwidth = 1 / std::max(mean(secondsPerByte()), 1e-15);
  found.launchLatency = mean(secondsPerLaunch());
  found.codecRate = 1 / std::max(mean(secondsPerCodedByte()), 1e-15);
}

} // namespace

std::unique_ptr<Prober> makeCpuProber(Job &job) {
  return std::make_unique<CpuProber>(job);
}

} // namespace fcdp::run
