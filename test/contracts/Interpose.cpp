// SPDX-License-Identifier: Apache-2.0

#include "Interpose.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>

// Their types do not matter here.
#define FCDP_DECLARE(name) extern "C" void name();
FCDP_CHECKED_CALLS(FCDP_DECLARE)
#undef FCDP_DECLARE

namespace {

using namespace fcdp::contracts;
using Dlsym = void *(void *, const char *) noexcept;

constexpr const char *names[NumEntries] = {
#define FCDP_NAME(name) #name,
    FCDP_CHECKED_CALLS(FCDP_NAME)
#undef FCDP_NAME
};

void *const own[NumEntries] = {
#define FCDP_OWN(name) reinterpret_cast<void *>(&::name),
    FCDP_CHECKED_CALLS(FCDP_OWN)
#undef FCDP_OWN
};

std::atomic<void *> found[NumEntries];

/// The C library's dlsym. glibc 2.34 moved it from libdl.
Dlsym *realDlsym() noexcept {
  static std::atomic<Dlsym *> real;
  if (Dlsym *known = real.load())
    return known;
  for (const char *version : {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"})
    if (void *symbol = dlvsym(RTLD_NEXT, "dlsym", version)) {
      real = reinterpret_cast<Dlsym *>(symbol);
      return real;
    }
  std::fprintf(stderr, "contracts: error: the C library has no dlsym\n");
  std::abort();
}

/// Called before anything is set up, so it allocates nothing.
int entryOf(const char *name) noexcept {
  if (std::strncmp(name, "cuda", 4) != 0 && std::strncmp(name, "nccl", 4) != 0)
    return -1;
  for (int i = 0; i < NumEntries; ++i)
    if (std::strcmp(name, names[i]) == 0)
      return i;
  return -1;
}

/// The search order after this library has no libraries that were loaded for
/// one object only.
void *findInLoaded(const char *name) {
  for (const char *library :
       {"libcudart.so.13", "libcudart.so.12", "libnccl.so.2"})
    if (void *handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD))
      if (void *symbol = realDlsym()(handle, name))
        return symbol;
  return nullptr;
}

} // namespace

namespace fcdp::contracts {

void *next(Entry entry) {
  if (void *known = found[entry].load())
    return known;
  void *symbol = realDlsym()(RTLD_NEXT, names[entry]);
  if (!symbol)
    symbol = findInLoaded(names[entry]);
  if (!symbol) {
    std::fprintf(stderr, "contracts: error: no library has %s\n", names[entry]);
    std::abort();
  }
  void *none = nullptr;
  found[entry].compare_exchange_strong(none, symbol);
  return found[entry];
}

void *findInCudart(const char *name) {
  Dl_info info;
  void *known = found[cudaMemcpyAsyncEntry];
  if (!known || !dladdr(known, &info))
    return nullptr;
  void *handle = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  return handle ? realDlsym()(handle, name) : nullptr;
}

} // namespace fcdp::contracts

/// A process that loads two libraries has the first one checked.
static void *findChecked(void *handle, const char *name) noexcept {
  int entry = entryOf(name);
  void *symbol = realDlsym()(handle, name);
  void *none = nullptr;
  if (!symbol ||
      (!found[entry].compare_exchange_strong(none, symbol) && none != symbol))
    return symbol;
  return own[entry];
}

/// Gives this library's function for one that it checks. The other call must
/// be compiled as a jump: RTLD_NEXT means the object after the caller, which is
/// found by the return address.
extern "C" void *dlsym(void *handle, const char *name) noexcept {
  if (handle != RTLD_NEXT && entryOf(name) >= 0)
    return findChecked(handle, name);
  return realDlsym()(handle, name);
}
