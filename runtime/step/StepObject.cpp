// SPDX-License-Identifier: Apache-2.0
#include "step/StepObject.h"
#include "core/FileDescriptor.h"
#include "plan/PlanReader.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdexcept>
#include <string_view>
#include <sys/mman.h>
#include <sys/stat.h>
#include <type_traits>
#include <vector>

namespace fcdp {

namespace {

constexpr std::string_view kSeal = FCDP_OBJECT_SEAL;
constexpr size_t kHashDigits = 40;

const std::string kIsArchive =
    "cannot be loaded: expected an object that fcdp-compile made, got an "
    "archive; compile it first (fcdp-compile step.pt2 -o step.so)";

std::vector<std::byte> readFile(const std::string &path) {
  // The call does not wait for a pipe.
  FileDescriptor file(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  struct stat status;
  if (!file || fstat(file.get(), &status) != 0)
    throw std::runtime_error("cannot open this file");
  if (!S_ISREG(status.st_mode))
    throw std::runtime_error("expected a file, got something else");
  std::vector<std::byte> bytes(status.st_size);
  size_t have = 0;
  while (have < bytes.size()) {
    ssize_t got = read(file.get(), bytes.data() + have, bytes.size() - have);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      throw std::runtime_error("cannot be read: it ends after " +
                               std::to_string(have) + " of " +
                               std::to_string(bytes.size()) + " bytes");
    have += size_t(got);
  }
  return bytes;
}

/// Returns the bytes that the seal covers, and the hash in it.
std::pair<std::span<const std::byte>, std::string>
checkSeal(std::span<const std::byte> file) {
  std::string_view text(reinterpret_cast<const char *>(file.data()),
                        file.size());
  if (text.starts_with("PK\x03\x04"))
    throw std::runtime_error(kIsArchive);
  if (!text.starts_with("\177ELF"))
    throw std::runtime_error("cannot be loaded: expected an object that "
                             "fcdp-compile made, got another file");
  size_t size = file.size() - std::min(file.size(), kSeal.size() + kHashDigits);
  std::string_view seal = text.substr(size);
  if (!seal.starts_with(kSeal))
    throw std::runtime_error(
        "expected a checksum at its end, got none: the object is truncated, or "
        "of another version of fcdp-compile; compile the step again");
  std::string hash = hashBytes(file.first(size));
  if (seal.substr(kSeal.size()) != hash)
    throw std::runtime_error("expected the hash " + hash + ", got " +
                             std::string(seal.substr(kSeal.size())) +
                             ": the object is damaged or was edited; compile "
                             "it again");
  return {file.first(size), hash};
}

/// Returns memory that a shared object can be loaded from. Later changes of the
/// file have no effect, so exactly the checked bytes are loaded.
FileDescriptor copyToMemory(std::span<const std::byte> bytes) {
  FileDescriptor memory(
      memfd_create("fcdp-step", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  while (memory && !bytes.empty()) {
    ssize_t done = write(memory.get(), bytes.data(), bytes.size());
    if (done < 0 && errno != EINTR)
      memory = FileDescriptor();
    bytes = bytes.subspan(done < 0 ? 0 : size_t(done));
  }
  if (!memory)
    throw std::runtime_error(std::string("cannot be copied to memory: ") +
                             std::strerror(errno));
  fcntl(memory.get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW);
  return memory;
}

/// Returns the suffix of the functions that this processor runs. Functions of
/// all levels compute the same bits, so ranks may have different processors.
const char *findKernelLevel() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  bool hasV3 = __builtin_cpu_supports("avx2") &&
               __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
               __builtin_cpu_supports("bmi2");
  bool hasV4 = hasV3 && __builtin_cpu_supports("avx512f") &&
               __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512cd") &&
               __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vl");
  if (hasV4)
    return "_v4";
  if (hasV3)
    return "_v3";
#endif
  throw std::runtime_error(
      "the step has kernels, which need a processor of x86-64-v3 (AVX2 and "
      "FMA); compile the step with --fuse=off");
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
  std::vector<std::byte> file = readFile(objectPath);
  auto [bytes, hash] = checkSeal(file);
  objectHash = hash;
  FileDescriptor memory = copyToMemory(bytes);
  std::string place = "/proc/self/fd/" + std::to_string(memory.get());
  handle.reset(dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (!handle)
    throw std::runtime_error("cannot be loaded: " + std::string(dlerror()));
  uint32_t abi = *symbol<const uint32_t>("fcdp_abi_version");
  if (abi != FCDP_ABI_VERSION)
    throw std::runtime_error(
        "expected ABI version " + std::to_string(FCDP_ABI_VERSION) + ", got " +
        std::to_string(abi) +
        ": compile the step again with the fcdp-compile that belongs to this "
        "runtime");
  constantBytes = {symbol<const std::byte>("fcdp_constants"),
                   *symbol<const uint64_t>("fcdp_constants_size")};
  checked = loadPlan({symbol<const std::byte>("fcdp_plan"),
                      *symbol<const uint64_t>("fcdp_plan_size")},
                     {symbol<const char>("fcdp_plan_hash"), kHashDigits},
                     constantBytes);
  if (checked.kernels.empty())
    return;
  const char *level = findKernelLevel();
  for (const auto &kernel : checked.kernels)
    checked.kernelFunctions.push_back(
        *symbol<std::remove_pointer_t<FcdpKernel>>(
            ("fcdp_kernel_" + kernel->name + level).c_str()));
}

StepObject::StepObject(const std::string &path) : objectPath(path) {
  try {
    load();
  } catch (const std::runtime_error &error) {
    throw std::runtime_error(path + ": " + error.what());
  }
}

} // namespace fcdp
