// SPDX-License-Identifier: Apache-2.0
#include "Gpu.h"

#include "Options.h"
#include "collectives/LocalAddress.h"
#include "collectives/nccl/NcclAxes.h"
#include "cuda/CudaBackend.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <cstdlib>
#include <dlfcn.h>
#include <stdexcept>

namespace fcdp::run {

namespace {

void loadTorchForCuda() {
  if (!dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL))
    throw std::runtime_error(
        std::string("the step was compiled for 'cuda': this libtorch has no "
                    "part for CUDA; build "
                    "fcdp-run with that of a PyTorch for CUDA, by "
                    "-DFCDP_TORCH_DIR (") +
        dlerror() + ")");
  if (!c10::impl::hasDeviceGuardImpl(c10::DeviceType::CUDA))
    throw std::runtime_error(
        "the step was compiled for 'cuda': libtorch_cuda.so is loaded, but "
        "libtorch does not know it: they are of different "
        "versions");
}

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

HostCache makeHostCache(const std::shared_ptr<const CudaLibrary> &cuda,
                        int device, const Manifest &manifest, Job &job) {
  HostCacheOptions options;
  options.device = device;
  options.segment.name = job.segmentName();
  options.segment.local = job.place().local;
  options.segment.locals = manifest.mesh.locals;
  options.segment.bytes = manifest.hostBytes;
  return HostCache(cuda, options);
}

/// The groups that the plan has a use for.
void joinGroups(const Options &options, const Manifest &manifest, Job &job,
                CudaBackendOptions &made) {
  const CudaLibrary &cuda = *made.cuda;
  NcclAxesOptions axes;
  if (manifest.mesh.size() > 1)
    axes.nccl = NcclLibrary::load();
  axes.cuda = made.cuda;
  axes.device = made.device;
  axes.mesh = manifest.mesh;
  axes.place = job.place();
  auto groupsOf = [&](Axis axis) {
    return AxisGroups{manifest.uses(OpKind::AllGather, axis),
                      manifest.uses(OpKind::ReduceScatter, axis)};
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
  if (options.timeout)
    axes.joinSeconds = axes.callSeconds = *options.timeout;
  if (isShared(cuda, made.device, job, axes.joinSeconds))
    shareDevice(job.segmentName(), job.rank());
  // The user's own choice for NCCL goes first.
  if (!options.interface.empty())
    setenv("NCCL_SOCKET_IFNAME", options.interface.c_str(), 0);
  made.axes = joinAxes(axes);
  if (manifest.uses(OpKind::ClipGradients))
    made.all = joinAll(axes);
}

} // namespace

void requireGpus() {
  // First, so that the CUDA runtime that libtorch needs is the one found.
  loadTorchForCuda();
  countDevices(*CudaLibrary::load());
}

GpuBackend makeGpuBackend(const Options &options, const Manifest &manifest,
                          Job &job) {
  CudaBackendOptions cuda;
  cuda.cuda = CudaLibrary::load();
  cuda.device = int(job.place().local) % countDevices(*cuda.cuda);
  // Results of operators are for libtorch's allocator.
  cuda.deviceBytes = manifest.heldBytes();
  cuda.numEvents = Step::numEvents(manifest);
  cuda.worldRank = job.rank();
  cuda.ranksPerNode = manifest.mesh.locals;
  cuda.control = &job.control();
  if (options.timeout)
    cuda.collectiveSeconds = *options.timeout;
  cuda.host = makeHostCache(cuda.cuda, cuda.device, manifest, job);
  joinGroups(options, manifest, job, cuda);
  int device = cuda.device;
  std::unique_ptr<CudaBackend> backend = makeCudaBackend(std::move(cuda));
  CudaDevice forStep{device, backend->stream(StreamId::Compute)};
  return {std::move(backend), forStep};
}

} // namespace fcdp::run
