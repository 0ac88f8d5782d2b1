// SPDX-License-Identifier: Apache-2.0
#include "step/StepObject.h"
#include "plan/PlanReader.h"

#include <array>
#include <cstdlib>
#include <dlfcn.h>
#include <fstream>
#include <stdexcept>
#include <string_view>

namespace fcdp {

namespace {

/// dlopen looks a bare file name up in the system's folders.
std::string absolutePath(const std::string &path) {
  std::unique_ptr<char, decltype(&std::free)> real(
      realpath(path.c_str(), nullptr), &std::free);
  if (!real)
    throw std::runtime_error("cannot open this file");
  return real.get();
}

const std::string kIsArchive =
    "expected an object that fcdp-compile made, got an archive; compile it "
    "first (fcdp-compile step.pt2 -o step.so)";

/// Whether a file begins as archives of torch.export do.
bool isZip(const std::string &path) {
  std::array<char, 4> start = {};
  std::ifstream(path, std::ios::binary).read(start.data(), start.size());
  return std::string_view(start.data(), start.size()) == "PK\x03\x04";
}

} // namespace

void StepObject::Unload::operator()(void *handle) const { dlclose(handle); }

template <typename T>
T *StepObject::symbol(const char *name) const {
  void *address = dlsym(handle.get(), name);
  if (!address)
    throw std::runtime_error("not a compiled step: the symbol '" +
                             std::string(name) +
                             "' is missing; make one with fcdp-compile");
  return reinterpret_cast<T *>(address);
}

void StepObject::load() {
  handle.reset(dlopen(absolutePath(objectPath).c_str(), RTLD_NOW | RTLD_LOCAL));
  if (!handle)
    throw std::runtime_error(
        "cannot be loaded: " +
        (isZip(objectPath) ? kIsArchive : std::string(dlerror())));
  uint32_t abi = *symbol<const uint32_t>("fcdp_abi_version");
  if (abi != FCDP_ABI_VERSION)
    throw std::runtime_error(
        "expected ABI version " + std::to_string(FCDP_ABI_VERSION) + ", got " +
        std::to_string(abi) +
        ": compile the step again with the fcdp-compile that belongs to this "
        "runtime");
  constantBytes = {symbol<const std::byte>("fcdp_constants"),
                   *symbol<const uint64_t>("fcdp_constants_size")};
  constexpr size_t hashDigits = 40;
  checked = loadPlan({symbol<const std::byte>("fcdp_plan"),
                      *symbol<const uint64_t>("fcdp_plan_size")},
                     {symbol<const char>("fcdp_plan_hash"), hashDigits},
                     constantBytes);
}

StepObject::StepObject(const std::string &path) : objectPath(path) {
  try {
    load();
  } catch (const std::runtime_error &error) {
    throw std::runtime_error(path + ": " + error.what());
  }
}

} // namespace fcdp
