// SPDX-License-Identifier: Apache-2.0
#include "device/ChooseDevice.h"

#include "cpu/CpuBackend.h"
#include "device/Gpu.h"

#include <stdexcept>

namespace fcdp {

void requireDevice(const DeviceOptions &options, const StepPlan &plan) {
  if (plan.target == plan::Target::cuda)
    requireGpus();
  else if (options.reducesByNccl)
    throw std::runtime_error("reductions by NCCL: expected a step that was "
                             "compiled for 'cuda', got one for 'cpu'");
}

void chooseGroups(const StepPlan &plan, JobOptions &job) {
  // Between GPUs, Gloo carries only small messages.
  job.nodeGroups = job.localGroups = job.worldGroups = {false, false};
  if (plan.target == plan::Target::cuda)
    return;
  auto groupsOf = [&](AxisId axis) {
    return AxisGroups{plan.uses(plan::OpBody::all_gather, axis),
                      plan.uses(plan::OpBody::reduce_scatter, axis)};
  };
  job.nodeGroups = groupsOf(AxisId::Node);
  job.localGroups = groupsOf(AxisId::Local);
  job.worldGroups = groupsOf(AxisId::World);
}

RankDevice makeDevice(const DeviceOptions &options, const StepPlan &plan,
                      Job &job, StepRecorder *recorder) {
  if (plan.target == plan::Target::cuda)
    return makeGpu(options, plan, job, recorder);
  CpuBackendOptions cpu;
  cpu.deviceBytes = plan.deviceBytes;
  cpu.numEvents = plan.numEvents;
  HostSegmentOptions segment;
  segment.name = job.segmentName();
  segment.local = job.place().local;
  segment.locals = plan.mesh.locals;
  segment.bytes = plan.hostBytes;
  StepPlan::HostPart part = plan.hostPart(job.place());
  segment.part = {part.begin, part.end};
  cpu.host = HostSegment(segment);
  cpu.node = job.transports(AxisId::Node);
  cpu.local = job.transports(AxisId::Local);
  cpu.world = job.transports(AxisId::World);
  cpu.ranksPerNode = plan.mesh.locals;
  cpu.control = &job.control();
  cpu.codesMessages = plan.codesMessages();
  cpu.recorder = recorder;
  return {makeCpuBackend(std::move(cpu)), std::nullopt, nullptr};
}

} // namespace fcdp
