// SPDX-License-Identifier: Apache-2.0
#include "device/Gpu.h"

#include "core/LibrarySettings.h"
#include "cuda/CudaBackend.h"
#include "cuda/PeerAccess.h"
#include "cuda/ProcessorPlacement.h"
#include "device/TorchCuda.h"
#include "nccl/NcclAxes.h"
#include "nccl/NcclMemory.h"
#include "nccl/SharedMemory.h"
#include "store/LocalAddress.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

namespace fcdp {

namespace {

int countDevices(const CudaLibrary &cuda, const std::string &reason) {
  int devices = 0;
  cuda.check(cuda.cudaGetDeviceCount(&devices),
             (reason + ": cudaGetDeviceCount").c_str());
  if (devices == 0)
    throw std::runtime_error(reason + ": this process sees no GPU");
  return devices;
}

int countDevices(const CudaLibrary &cuda) {
  return countDevices(cuda, "a GPU is wanted");
}

std::string pciAddressOf(const CudaLibrary &cuda, int device) {
  char address[32] = {};
  cuda.check(cuda.cudaDeviceGetPCIBusId(address, sizeof(address), device),
             "cudaDeviceGetPCIBusId");
  return address;
}

/// Returns whether another rank has the same GPU of the same machine.
bool isShared(const CudaLibrary &cuda, int device, Job &job, double seconds) {
  std::string own = machineId() + " " + pciAddressOf(cuda, device);
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

/// Returns when all ranks of the job, or of this rank's node, have called it.
void meet(Job &job, const std::string &name, bool isWholeJob, double seconds) {
  job.set(name + "/" + std::to_string(job.rank()), "");
  for (uint32_t rank = 0; rank < job.mesh().size(); ++rank)
    if (isWholeJob || placeOf(job.mesh(), rank).node == job.place().node)
      job.get(name + "/" + std::to_string(rank), seconds);
}

/// Makes the host cache. All ranks return at about the same time, so that no
/// later wait includes the time that other nodes need for their caches.
CudaHostCache makeHostCache(const std::shared_ptr<const CudaLibrary> &cuda,
                            int device, const GpuRequest &request, Job &job,
                            double seconds) {
  if (request.hostBytes == 0)
    return {};
  seconds += double(request.hostBytes) / kLeastPageRate;
  HostCacheOptions options;
  options.device = device;
  options.segment.name = job.segmentName();
  options.segment.local = job.place().local;
  options.segment.locals = request.mesh.locals;
  options.segment.bytes = request.hostBytes;
  options.segment.timeoutSeconds = seconds;
  options.segment.part = {request.hostPart.begin, request.hostPart.end};
  options.meet = [&] {
    meet(job, "host-cache/placed", /*isWholeJob=*/false, seconds);
  };
  CudaHostCache cache(cuda, options);
  meet(job, "host-cache/made", /*isWholeJob=*/true, seconds);
  return cache;
}

/// Says what a program has to set that has not called reserveLibrarySettings.
void checkQueues(uint32_t worldRank) {
  if (worldRank == 0 && !std::getenv("CUDA_DEVICE_MAX_CONNECTIONS"))
    std::fprintf(stderr,
                 "fcdp: note: CUDA_DEVICE_MAX_CONNECTIONS is not set, so "
                 "streams may share hardware queues, and wait for each other: "
                 "set it to %d before the program starts\n",
                 kHardwareQueues);
}

/// Joins the requested groups. Returns the most thread blocks of a collective.
uint32_t joinGroups(const DeviceOptions &options, const GpuRequest &request,
                    Job &job, CudaBackendOptions &made) {
  const CudaLibrary &cuda = *made.cuda;
  NcclAxesOptions axes;
  if (request.mesh.size() > 1) {
    axes.nccl = NcclLibrary::load();
    made.memory = ncclMemory(axes.nccl);
  }
  axes.cuda = made.cuda;
  axes.device = made.device;
  axes.mesh = request.mesh;
  axes.place = job.place();
  axes.nodeGroups = request.groups[size_t(AxisId::Node)].wanted;
  axes.localGroups = request.groups[size_t(AxisId::Local)].wanted;
  axes.worldGroups = request.groups[size_t(AxisId::World)].wanted;
  axes.ids = {[&job](const std::string &key, const std::string &value) {
                job.set(key, value);
              },
              [&job](const std::string &key, double seconds) {
                return job.get(key, seconds);
              }};
  axes.hasAll = request.hasAll;
  axes.onBlocked = options.onBlocked;
  axes.endsAfterFailure = options.endsAfterFailure;
  if (options.timeoutSeconds)
    axes.joinSeconds = *options.timeoutSeconds;
  if (isShared(cuda, made.device, job, axes.joinSeconds)) {
    shareDevice(job.segmentName(), job.rank());
    if (options.onDevice)
      options.onDevice(
          "other ranks have the same GPU, so NCCL treats each as a "
          "machine of its own: all ranks are connected by sockets, "
          "and take turns on the GPU");
  }
  if (request.mesh.locals > 1 && options.onDevice)
    for (const std::string &text :
         {describeSmallSharedMemory(), describePeers(cuda, made.device)})
      if (!text.empty())
        options.onDevice(text);
  // The user's own setting for NCCL takes precedence.
  if (!options.interface.empty() && request.mesh.size() > 1 &&
      !setLibrarySetting("NCCL_SOCKET_IFNAME", options.interface))
    throw std::runtime_error("the network interface '" + options.interface +
                             "': NCCL takes it from NCCL_SOCKET_IFNAME alone; "
                             "set that before the program starts");
  for (size_t axis = 0; axis < kNumAxes; ++axis)
    made.messages[axis] = {request.groups[axis].gathers,
                           request.groups[axis].exchanges};
  made.axes = joinAxes(axes);
  if (axes.hasAll)
    made.all = joinAll(axes);
  return request.mesh.size() > 1 ? findMostCtas(axes) : 0;
}

GpuRequest requestOf(const StepPlan &plan, const Place &place) {
  GpuRequest request;
  request.mesh = plan.mesh;
  request.deviceBytes = plan.deviceBytes;
  request.hostBytes = plan.hostBytes;
  request.hostPart = plan.hostPart(place);
  request.numEvents = Step::numEvents(plan);
  for (AxisId axis : {AxisId::Node, AxisId::Local, AxisId::World})
    request.groups[size_t(axis)] = {
        {plan.uses(plan::OpBody::all_gather, axis),
         plan.uses(plan::OpBody::reduce_scatter, axis)},
        plan.messageBytes(plan::OpBody::all_gather, axis),
        plan.messageBytes(plan::OpBody::reduce_scatter, axis)};
  request.hasAll = plan.sumsOverRanks();
  return request;
}

/// Describes the use of the device's memory before libtorch allocates any of
/// it. `context` is the number of bytes that were in use at first.
std::string describeUse(uint64_t context, uint64_t arena,
                        const CudaLibrary::Memory &now) {
  uint64_t others = now.used - std::min(now.used, context + arena);
  return "of the device's " + std::to_string(now.total) +
         " bytes, the arena has " + std::to_string(arena) +
         ", CUDA's contexts " + std::to_string(context) +
         ", and NCCL and kernels " + std::to_string(others) + "; " +
         std::to_string(now.total - now.used) + " are free";
}

/// A rank's backend on its GPU.
struct MadeGpu {
  std::unique_ptr<CudaBackend> backend;
  CudaDevice forStep;
  uint32_t collectiveProcessors = 0;
};

MadeGpu makeBackend(const DeviceOptions &options, const GpuRequest &request,
                    Job &job, StepRecorder *recorder) {
  CudaBackendOptions cuda;
  cuda.cuda = CudaLibrary::load();
  int devices = countDevices(*cuda.cuda);
  cuda.device = int(job.place().local) % devices;
  cuda.cuda->useDevice(cuda.device);
  if (options.runsNextToDevice)
    (void)runNextTo(processorsNextTo(pciAddressOf(*cuda.cuda, cuda.device)));
  const uint64_t context = cuda.cuda->memory().used;
  cuda.deviceBytes = request.deviceBytes;
  cuda.reducesByLibrary = options.reducesByNccl;
  cuda.numEvents = request.numEvents;
  cuda.worldRank = job.rank();
  cuda.onBlocked = options.onBlocked;
  cuda.ranksPerNode = request.mesh.locals;
  cuda.control = &job.control();
  cuda.recorder = recorder;
  if (options.timeoutSeconds)
    cuda.collectiveSeconds = *options.timeoutSeconds;
  cuda.host = makeHostCache(cuda.cuda, cuda.device, request, job,
                            options.timeoutSeconds.value_or(60));
  checkQueues(job.rank());
  uint32_t processors = joinGroups(options, request, job, cuda);
  int device = cuda.device;
  std::unique_ptr<CudaBackend> backend = makeCudaBackend(std::move(cuda));
  if (options.onDevice) {
    if (std::string text = describe(backend->registrations()); !text.empty())
      options.onDevice(text);
    options.onDevice(
        describeUse(context, request.deviceBytes, backend->memory()));
  }
  CudaDevice forStep{device, backend->stream(StreamId::Compute),
                     &routeCudaAllocations(devices),
                     [own = backend.get()] { return own->memory().used; }};
  return {std::move(backend), forStep, processors};
}

} // namespace

void requireGpus(const std::string &reason) {
  requireTorchForCuda(reason);
  countDevices(*CudaLibrary::load(), reason);
}

GpuFacts inspectGpu(const Place &place) {
  auto cuda = CudaLibrary::load();
  int device = int(place.local) % countDevices(*cuda);
  cuda->useDevice(device);
  auto attribute = [&](cudaDeviceAttr which) {
    int value = 0;
    cuda->check(cuda->cudaDeviceGetAttribute(&value, which, device),
                "cudaDeviceGetAttribute");
    return uint32_t(value);
  };
  CudaLibrary::Memory memory = cuda->memory();
  return {memory.total, memory.used, attribute(cudaDevAttrMultiProcessorCount),
          attribute(cudaDevAttrComputeCapabilityMajor),
          attribute(cudaDevAttrComputeCapabilityMinor)};
}

ProbedGpu makeProbedGpu(const DeviceOptions &options, const GpuRequest &request,
                        Job &job) {
  MadeGpu made = makeBackend(options, request, job, nullptr);
  std::unique_ptr<StreamClock> clock = made.backend->makeClock();
  return {{std::move(made.backend), made.forStep, nullptr},
          std::move(clock),
          made.collectiveProcessors};
}

RankDevice makeGpu(const DeviceOptions &options, const StepPlan &plan, Job &job,
                   StepRecorder *recorder) {
  MadeGpu made =
      makeBackend(options, requestOf(plan, job.place()), job, recorder);
  std::unique_ptr<GraphCapture> graphs;
  if (options.cudaGraphs)
    graphs = withOwnMemory(made.backend->makeCapture(), *made.forStep.memory,
                           made.forStep.index,
                           made.backend->stream(StreamId::Compute));
  return {std::move(made.backend), made.forStep, std::move(graphs)};
}

} // namespace fcdp
