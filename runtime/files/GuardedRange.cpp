// SPDX-License-Identifier: Apache-2.0
#include "files/GuardedRange.h"

#include <array>
#include <csignal>
#include <mutex>
#include <sys/mman.h>
#include <unistd.h>

namespace fcdp {

namespace {

/// The ranges that the handler reads. A folder of weights has at most hundreds
/// of files.
constexpr size_t kMostRanges = 4096;
std::array<GuardedRange, kMostRanges> ranges;
struct sigaction before;
uintptr_t pageBytes;
std::mutex mutex; ///< for guard and unguard, not for the handler
size_t numGuarded = 0;

/// Maps pages of zeros over the rest of a mapping. Makes only calls that are
/// safe in a handler.
bool readZeros(uintptr_t address) {
  for (GuardedRange &range : ranges) {
    uintptr_t begin = range.begin.load(), end = range.end.load();
    if (address < begin || address >= end)
      continue;
    uintptr_t page = address / pageBytes * pageBytes;
    void *zeros = mmap(reinterpret_cast<void *>(page), end - page, PROT_READ,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    range.isCut.store(true);
    return zeros != MAP_FAILED;
  }
  return false;
}

void onBusError(int signal, siginfo_t *info, void *context) {
  // Other codes are hardware errors.
  if (info->si_code == BUS_ADRERR &&
      readZeros(reinterpret_cast<uintptr_t>(info->si_addr)))
    return;
  if (before.sa_flags & SA_SIGINFO)
    return before.sa_sigaction(signal, info, context);
  if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN)
    return before.sa_handler(signal);
  // The access is repeated, and then ends the process.
  std::signal(signal, SIG_DFL);
}

void install() {
  pageBytes = uintptr_t(sysconf(_SC_PAGESIZE));
  struct sigaction action = {};
  action.sa_sigaction = onBusError;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGBUS, &action, &before);
}

/// Restores the previous handler, unless other code has replaced ours in the
/// meantime.
void uninstall() {
  struct sigaction now;
  if (sigaction(SIGBUS, nullptr, &now) == 0 && now.sa_flags & SA_SIGINFO &&
      now.sa_sigaction == onBusError)
    sigaction(SIGBUS, &before, nullptr);
}

} // namespace

GuardedRange *guard(const std::byte *begin, size_t bytes) {
  std::lock_guard lock(mutex);
  for (GuardedRange &range : ranges) {
    if (range.end.load() != 0)
      continue;
    auto address = reinterpret_cast<uintptr_t>(begin);
    range.isCut.store(false);
    range.begin.store(address);
    range.end.store(address + bytes);
    if (numGuarded++ == 0)
      install();
    return &range;
  }
  return nullptr;
}

void unguard(GuardedRange *range) {
  if (!range)
    return;
  std::lock_guard lock(mutex);
  range->begin.store(0);
  range->end.store(0);
  if (--numGuarded == 0)
    uninstall();
}

} // namespace fcdp
