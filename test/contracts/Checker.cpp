// SPDX-License-Identifier: Apache-2.0
//
// FCDP_CONTRACTS=report has a program go on after a violation; otherwise it is
// aborted. FCDP_CONTRACTS_DIR is the folder, new and the same for all processes
// of a job, in which ranks compare their collectives, and to which each process
// writes the numbers of the calls that it has checked.

#include "Checker.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace fcdp::contracts {
namespace {

thread_local const Call *currentCall = nullptr;
thread_local int currentDevice = 0;

std::string folder() {
  const char *given = std::getenv("FCDP_CONTRACTS_DIR");
  return given ? given : "";
}

/// Called with the checker's mutex held.
void reportViolation(const Violation &violation) {
  ++checker().counts.violations;
  const Call *call = Call::current();
  std::fprintf(stderr, "contracts: %s: %s: expected %s, found %s\n",
               violation.rule, call ? call->describe().c_str() : "a call",
               violation.expected.c_str(), violation.found.c_str());
  std::fflush(stderr);
  const char *mode = std::getenv("FCDP_CONTRACTS");
  if (!mode || std::strcmp(mode, "report") != 0)
    std::abort();
}

std::string moduleOf(const void *address) {
  Dl_info info;
  if (!dladdr(address, &info) || !info.dli_fname)
    return "unknown code";
  const char *slash = std::strrchr(info.dli_fname, '/');
  return slash ? slash + 1 : info.dli_fname;
}

} // namespace

Checker::Checker()
    : memory(reportViolation), work(reportViolation), captures(reportViolation),
      order(reportViolation, folder()) {}

Point Checker::issue(Handle stream, Use use) {
  order.requireSettledOn(stream);
  if (!captures.isCaptured(stream))
    return work.add(stream, std::move(use));
  captures.add(stream, std::move(use));
  return {};
}

void Checker::release(const void *base, bool mayBeInUse) {
  ++counts.releases;
  std::optional<Span> span = memory.find(base);
  if (!span)
    return;
  memory.requireUnregistered(*span);
  if (!mayBeInUse)
    work.requireUnused(*span);
  // Before the library frees it, so that the next owner of the addresses is
  // not forgotten.
  memory.removed(base);
}

void Checker::graphOfFreedMemory(const Use &use, const Span &span) {
  reportViolation({"lifetimes",
                   "the memory of the graph's capture to be there at each "
                   "launch",
                   std::string(use.call) + " of " + describe(span) +
                       ", which has been freed"});
}

Checker &checker() {
  static auto *const made = new Checker;
  return *made;
}

Call::Call(const char *name, const void *caller)
    : name(name), caller(caller), outer(currentCall) {
  currentCall = this;
}
Call::~Call() { currentCall = outer; }

const Call *Call::current() { return currentCall; }

bool Call::isFromLibtorch() const {
  std::string module = moduleOf(caller);
  return module.starts_with("libtorch") || module.starts_with("libc10");
}

bool Call::isFromDriver() const {
  return moduleOf(caller).starts_with("libcuda.so");
}

std::string Call::describe() const {
  return std::string(name) + " called by " + moduleOf(caller);
}

Handle handleOf(const void *stream) {
  // Addresses of streams are even, and cudaStreamLegacy and
  // cudaStreamPerThread are 1 and 2.
  return stream ? stream
                : reinterpret_cast<Handle>(uintptr_t(currentDevice) * 2 + 3);
}

void setDeviceOfThread(int device) { currentDevice = device; }
int deviceOfThread() { return currentDevice; }

/// Processes that have used no device write nothing.
__attribute__((destructor)) static void writeCounts() {
  const Checker::Counts &counts = checker().counts;
  std::string own = folder();
  if (own.empty() || counts.copies + counts.collectives + counts.captures == 0)
    return;
  own += "/checked." + std::to_string(getpid());
  std::FILE *file = std::fopen(own.c_str(), "w");
  if (!file)
    return;
  auto number = [](uint64_t value) { return std::to_string(value); };
  std::string text = "copies " + number(counts.copies) + "\ncollectives " +
                     number(counts.collectives) + "\ncaptures " +
                     number(counts.captures) + "\nreleases " +
                     number(counts.releases) + "\nviolations " +
                     number(counts.violations) + "\n";
  std::fputs(text.c_str(), file);
  std::fclose(file);
}

} // namespace fcdp::contracts

/// The ranks of fcdp-run end so, without destructors.
extern "C" void _exit(int code) {
  fcdp::contracts::writeCounts();
  for (;;)
    syscall(SYS_exit_group, code);
}
