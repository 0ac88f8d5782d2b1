// SPDX-License-Identifier: Apache-2.0
#include "session/Gpu.h"

#include "collectives/LocalAddress.h"
#include "cuda/CudaBackend.h"
#include "nccl/NcclAxes.h"
#include "nccl/NcclMemory.h"
#include "session/TorchCuda.h"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

namespace fcdp {

namespace {

int countDevices(const CudaLibrary &cuda) {
  int devices = 0;
  cuda.check(cuda.cudaGetDeviceCount(&devices),
             "the step was compiled for 'cuda': cudaGetDeviceCount");
  if (devices == 0)
    throw std::runtime_error(
        "the step was compiled for 'cuda': this process sees no GPU");
  return devices;
}

/// True if another rank has the same GPU of the same machine.
bool isShared(const CudaLibrary &cuda, int device, Job &job, double seconds) {
  char address[32] = {};
  cuda.check(cuda.cudaDeviceGetPCIBusId(address, sizeof(address), device),
             "cudaDeviceGetPCIBusId");
  std::string own = hostName() + " " + address;
  job.set("gpu/" + std::to_string(job.rank()), own);
  bool isShared = false;
  for (uint32_t rank = 0; rank < job.mesh().size(); ++rank)
    isShared |= rank != job.rank() &&
                job.get("gpu/" + std::to_string(rank), seconds) == own;
  return isShared;
}

/// The least rate, in bytes per second, at which a node's pages are zeroed,
/// placed and locked. Kernels zero several times as fast.
constexpr double kLeastPageRate = 5e8;

/// Returns when all ranks of the job, or of this rank's node, have come here.
void meet(Job &job, const StepPlan &plan, const std::string &name,
          bool isWholeJob, double seconds) {
  job.set(name + "/" + std::to_string(job.rank()), "");
  for (uint32_t rank = 0; rank < plan.mesh.size(); ++rank)
    if (isWholeJob || placeOf(plan.mesh, rank).node == job.place().node)
      job.get(name + "/" + std::to_string(rank), seconds);
}

/// All ranks return at about the same time, so that no later wait includes what
/// other nodes need for their caches.
CudaHostCache makeHostCache(const std::shared_ptr<const CudaLibrary> &cuda,
                            int device, const StepPlan &plan, Job &job,
                            double seconds) {
  if (plan.hostBytes == 0)
    return {};
  seconds += double(plan.hostBytes) / kLeastPageRate;
  HostCacheOptions options;
  options.device = device;
  options.segment.name = job.segmentName();
  options.segment.local = job.place().local;
  options.segment.locals = plan.mesh.locals;
  options.segment.bytes = plan.hostBytes;
  options.segment.timeoutSeconds = seconds;
  StepPlan::HostPart part = plan.hostPart(job.place());
  options.segment.part = {part.begin, part.end};
  options.meet = [&] {
    meet(job, plan, "host-cache/placed", /*isWholeJob=*/false, seconds);
  };
  CudaHostCache cache(cuda, options);
  meet(job, plan, "host-cache/made", /*isWholeJob=*/true, seconds);
  return cache;
}

/// The groups that the plan has a use for.
void joinGroups(const SessionOptions &options, const StepPlan &plan, Job &job,
                CudaBackendOptions &made) {
  const CudaLibrary &cuda = *made.cuda;
  NcclAxesOptions axes;
  if (plan.mesh.size() > 1) {
    axes.nccl = NcclLibrary::load();
    made.memory = ncclMemory(axes.nccl);
  }
  axes.cuda = made.cuda;
  axes.device = made.device;
  axes.mesh = plan.mesh;
  axes.place = job.place();
  auto groupsOf = [&](Axis axis) {
    return AxisGroups{plan.uses(plan::OpBody::all_gather, axis),
                      plan.uses(plan::OpBody::reduce_scatter, axis)};
  };
  axes.nodeGroups = groupsOf(Axis::Node);
  axes.localGroups = groupsOf(Axis::Local);
  axes.worldGroups = groupsOf(Axis::World);
  axes.ids = {[&job](const std::string &key, const std::string &value) {
                job.set(key, value);
              },
              [&job](const std::string &key, double seconds) {
                return job.get(key, seconds);
              }};
  axes.hasAll = plan.sumsOverRanks();
  if (options.timeoutSeconds)
    axes.joinSeconds = axes.callSeconds = *options.timeoutSeconds;
  if (isShared(cuda, made.device, job, axes.joinSeconds))
    shareDevice(job.segmentName(), job.rank());
  // The user's own choice for NCCL goes first.
  if (!options.interface.empty())
    setenv("NCCL_SOCKET_IFNAME", options.interface.c_str(), 0);
  for (Axis axis : {Axis::Node, Axis::Local, Axis::World})
    made.messages[size_t(axis)] = {
        plan.messageBytes(plan::OpBody::all_gather, axis),
        plan.messageBytes(plan::OpBody::reduce_scatter, axis)};
  made.axes = joinAxes(axes);
  if (axes.hasAll)
    made.all = joinAll(axes);
}

/// Says what the device's memory is used for before libtorch takes any of it.
/// `context` are the bytes that were in use at first.
std::string describeUse(uint64_t context, uint64_t arena,
                        const CudaLibrary::Memory &now) {
  uint64_t others = now.used - std::min(now.used, context + arena);
  return "of the device's " + std::to_string(now.total) +
         " bytes, the arena has " + std::to_string(arena) +
         ", CUDA's contexts " + std::to_string(context) +
         ", and NCCL and kernels " + std::to_string(others) + "; " +
         std::to_string(now.total - now.used) + " are free";
}

} // namespace

void requireGpus() {
  requireTorchForCuda();
  countDevices(*CudaLibrary::load());
}

RankDevice makeGpu(const SessionOptions &options, const StepPlan &plan,
                   Job &job, StepRecorder *recorder) {
  CudaBackendOptions cuda;
  cuda.cuda = CudaLibrary::load();
  int devices = countDevices(*cuda.cuda);
  cuda.device = int(job.place().local) % devices;
  cuda.cuda->useDevice(cuda.device);
  const uint64_t context = cuda.cuda->memory().used;
  cuda.deviceBytes = plan.deviceBytes;
  cuda.reducesByLibrary = options.reducesByNccl;
  cuda.numEvents = Step::numEvents(plan);
  cuda.worldRank = job.rank();
  cuda.ranksPerNode = plan.mesh.locals;
  cuda.control = &job.control();
  cuda.recorder = recorder;
  if (options.timeoutSeconds)
    cuda.collectiveSeconds = *options.timeoutSeconds;
  cuda.host = makeHostCache(cuda.cuda, cuda.device, plan, job,
                            options.timeoutSeconds.value_or(60));
  joinGroups(options, plan, job, cuda);
  int device = cuda.device;
  std::unique_ptr<CudaBackend> backend = makeCudaBackend(std::move(cuda));
  if (options.onDevice) {
    if (std::string text = describe(backend->registrations()); !text.empty())
      options.onDevice(text);
    options.onDevice(describeUse(context, plan.deviceBytes, backend->memory()));
  }
  CudaDevice forStep{device, backend->stream(StreamId::Compute),
                     &routeCudaAllocations(devices),
                     [own = backend.get()] { return own->memory().used; }};
  std::unique_ptr<GraphCapture> graphs;
  if (options.cudaGraphs)
    graphs = withOwnMemory(backend->makeCapture(), *forStep.memory, device,
                           backend->stream(StreamId::Compute));
  return {std::move(backend), forStep, std::move(graphs)};
}

} // namespace fcdp
