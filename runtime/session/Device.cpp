// SPDX-License-Identifier: Apache-2.0
#include "session/Device.h"

#include "cpu/CpuBackend.h"
#include "session/Gpu.h"

namespace fcdp {

void requireDevice(const Manifest &manifest) {
  if (manifest.target == Target::Cuda)
    requireGpus();
}

void chooseGroups(const Manifest &manifest, JobOptions &job) {
  // Between GPUs, only small things go over Gloo.
  job.nodeGroups = job.localGroups = job.worldGroups = {false, false};
  if (manifest.target == Target::Cuda)
    return;
  auto groupsOf = [&](Axis axis) {
    return AxisGroups{manifest.uses(OpKind::AllGather, axis),
                      manifest.uses(OpKind::ReduceScatter, axis)};
  };
  job.nodeGroups = groupsOf(Axis::Node);
  job.localGroups = groupsOf(Axis::Local);
  job.worldGroups = groupsOf(Axis::World);
}

Device makeDevice(const SessionOptions &options, const Manifest &manifest,
                  Job &job, StepRecorder *recorder) {
  if (manifest.target == Target::Cuda)
    return makeGpu(options, manifest, job, recorder);
  CpuBackendOptions cpu;
  cpu.deviceBytes = manifest.deviceBytes;
  cpu.numEvents = manifest.numEvents;
  HostSegmentOptions segment;
  segment.name = job.segmentName();
  segment.local = job.place().local;
  segment.locals = manifest.mesh.locals;
  segment.bytes = manifest.hostBytes;
  cpu.host = HostSegment(segment);
  cpu.node = job.transports(Axis::Node);
  cpu.local = job.transports(Axis::Local);
  cpu.world = job.transports(Axis::World);
  cpu.ranksPerNode = manifest.mesh.locals;
  cpu.control = &job.control();
  cpu.recorder = recorder;
  return {makeCpuBackend(std::move(cpu)), std::nullopt, nullptr};
}

} // namespace fcdp
