// SPDX-License-Identifier: Apache-2.0

#include "nccl/NcclLibrary.h"

#include <dlfcn.h>
#include <stdexcept>

namespace fcdp {

static std::string spellVersion(int version) {
  return std::to_string(version / 10000) + "." +
         std::to_string(version % 10000 / 100) + "." +
         std::to_string(version % 100);
}

std::shared_ptr<const NcclLibrary> NcclLibrary::load(const std::string &path) {
  std::shared_ptr<NcclLibrary> library(new NcclLibrary);
  library->resolve(path.empty() ? "libnccl.so.2" : path);
  return library;
}

void NcclLibrary::resolve(const std::string &path) {
  handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    throw std::runtime_error("NCCL is not found: expected version " +
                             spellVersion(oldestVersion) + " or newer (" +
                             dlerror() + ")");
  auto getVersion = reinterpret_cast<decltype(&::ncclGetVersion)>(
      dlsym(handle, "ncclGetVersion"));
  if (!getVersion || getVersion(&version) != ncclSuccess ||
      version < oldestVersion)
    throw std::runtime_error(
        "expected NCCL of version " + spellVersion(oldestVersion) +
        " or newer, found version " + spellVersion(version) + " as " + path);
#define FCDP_RESOLVE_ENTRY_POINT(name)                                         \
  name = reinterpret_cast<decltype(&::name)>(dlsym(handle, #name));            \
  if (!name)                                                                   \
    throw std::runtime_error("NCCL of version " + spellVersion(version) +      \
                             " has no " #name);
  FCDP_NCCL_ENTRY_POINTS(FCDP_RESOLVE_ENTRY_POINT)
#undef FCDP_RESOLVE_ENTRY_POINT
  if (version < NCCL_VERSION(2, 28, 0))
    return;
#define FCDP_RESOLVE_ENTRY_POINT(name)                                         \
  name = reinterpret_cast<decltype(&::name)>(dlsym(handle, #name));
  FCDP_OPTIONAL_NCCL_ENTRY_POINTS(FCDP_RESOLVE_ENTRY_POINT)
#undef FCDP_RESOLVE_ENTRY_POINT
}

NcclLibrary::~NcclLibrary() {
  if (handle)
    dlclose(handle);
}

} // namespace fcdp
