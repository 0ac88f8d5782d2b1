// SPDX-License-Identifier: Apache-2.0

#include "cuda/CudaLibrary.h"
#include "core/Failure.h"

#include <cstdlib>
#include <dlfcn.h>
#include <stdexcept>
#include <vector>

namespace fcdp {
namespace {

/// The driver version whose functions have the signature used here.
constexpr unsigned driverVersion = 12000;

// Checks that the types that are spelled out equal those of the headers.
#define FCDP_CHECK_TYPE(name, type)                                            \
  static_assert(std::is_same_v<decltype(static_cast<type>(&::name)),           \
                               std::type_identity_t<type>>);
FCDP_CUDA_OVERLOADED_ENTRY_POINTS(FCDP_CHECK_TYPE)
#undef FCDP_CHECK_TYPE

std::string spellVersion(int version) {
  return std::to_string(version / 1000) + "." +
         std::to_string(version % 1000 / 10);
}

void *open(const std::vector<std::string> &names, std::string &errors) {
  // Prefer a library that the process has already loaded, e.g. with libtorch.
  for (const std::string &name : names)
    if (void *handle = dlopen(name.c_str(), RTLD_NOW | RTLD_NOLOAD))
      return handle;
  for (const std::string &name : names) {
    if (void *handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL))
      return handle;
    errors += std::string(errors.empty() ? "" : "; ") + dlerror();
  }
  return nullptr;
}

} // namespace

std::shared_ptr<const CudaLibrary> CudaLibrary::load(const std::string &path) {
  std::shared_ptr<CudaLibrary> library(new CudaLibrary);
  library->resolve(path);
  library->resolveDriver();
  return library;
}

void CudaLibrary::resolve(const std::string &path) {
  std::vector<std::string> names = {path};
  if (path.empty())
    names = {"libcudart.so.13", "libcudart.so.12"};
  std::string errors;
  handle = open(names, errors);
  if (!handle)
    throw std::runtime_error("the CUDA runtime library is not found: expected "
                             "one of version " +
                             spellVersion(oldestVersion) + " or newer (" +
                             errors + ")");
  // Check the version first, because an old library lacks entry points.
  auto getVersion = reinterpret_cast<decltype(&::cudaRuntimeGetVersion)>(
      dlsym(handle, "cudaRuntimeGetVersion"));
  int version = 0;
  if (!getVersion || getVersion(&version) != cudaSuccess ||
      version < oldestVersion)
    throw std::runtime_error("expected a CUDA runtime library of version " +
                             spellVersion(oldestVersion) +
                             " or newer, found version " +
                             spellVersion(version));
#define FCDP_RESOLVE_ENTRY_POINT(name, ...)                                    \
  name = reinterpret_cast<decltype(name)>(dlsym(handle, #name));               \
  if (!name)                                                                   \
    throw std::runtime_error("the CUDA runtime library of version " +          \
                             spellVersion(version) + " has no " #name);
  FCDP_CUDA_ENTRY_POINTS(FCDP_RESOLVE_ENTRY_POINT)
  FCDP_CUDA_OVERLOADED_ENTRY_POINTS(FCDP_RESOLVE_ENTRY_POINT)
#undef FCDP_RESOLVE_ENTRY_POINT
}

void CudaLibrary::resolveDriver() {
  cuStreamWriteValue32 = resolveDriver("cuStreamWriteValue32");
  cuStreamWaitValue32 = resolveDriver("cuStreamWaitValue32");
}

CudaLibrary::ValueFunction CudaLibrary::resolveDriver(const char *name) const {
  void *found = nullptr;
  cudaDriverEntryPointQueryResult status = cudaDriverEntryPointSymbolNotFound;
  check(cudaGetDriverEntryPointByVersion(name, &found, driverVersion,
                                         cudaEnableDefault, &status),
        "cudaGetDriverEntryPointByVersion");
  if (status != cudaDriverEntryPointSuccess || !found)
    throw std::runtime_error(std::string("the CUDA driver has no ") + name +
                             ": expected a driver for CUDA " +
                             spellVersion(driverVersion) + " or newer");
  return reinterpret_cast<ValueFunction>(found);
}

CudaLibrary::~CudaLibrary() {
  if (handle)
    dlclose(handle);
}

void CudaLibrary::check(cudaError_t result, const char *call) const {
  if (result == cudaSuccess)
    return;
  // Clear the error, so that the next caller does not see it.
  (void)cudaGetLastError();
  bool isMemory = result == cudaErrorMemoryAllocation;
  throw Failure(std::string(call) + ": " + cudaGetErrorString(result) + " (" +
                    cudaGetErrorName(result) + ")",
                isMemory ? FailureKind::OutOfMemory : FailureKind::Other);
}

void CudaLibrary::check(CUresult result, const char *call) const {
  if (result != CUDA_SUCCESS)
    throw std::runtime_error(std::string(call) + ": error " +
                             std::to_string(int(result)));
}

bool CudaLibrary::isReady(cudaError_t result, const char *call) const {
  if (result == cudaErrorNotReady) {
    (void)cudaGetLastError();
    return false;
  }
  check(result, call);
  return true;
}

CudaLibrary::Memory CudaLibrary::memory() const {
  size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return {total - free, total};
}

void CudaLibrary::useDevice(int device) const {
  int devices = 0;
  check(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
  if (device < 0 || device >= devices)
    throw std::runtime_error("there is no CUDA device " +
                             std::to_string(device) + ": this process sees " +
                             std::to_string(devices));
  check(cudaSetDevice(device), "cudaSetDevice");
}

} // namespace fcdp
