// SPDX-License-Identifier: Apache-2.0
//
// The rules of one process, and the call that is checked.
#pragma once

#include "Captures.h"
#include "Interpose.h"
#include "Memory.h"
#include "Order.h"
#include "Work.h"

#include <mutex>

namespace fcdp::contracts {

/// All rules of a process. The mutex guards the members. It is never held while
/// a function of a library runs.
struct Checker {
  Checker();

  /// Adds the work that a call puts on a stream without waiting. It belongs to
  /// the stream, or to the graph that is captured.
  Point issue(Handle stream, Use use);
  /// Takes memory of one of the calls that free or unregister it. libtorch
  /// frees memory that is in use, because cudaFree waits for the device.
  void release(const void *base, bool mayBeInUse);
  void graphOfFreedMemory(const Use &use, const Span &span);

  std::mutex mutex;
  Memory memory;
  Work work;
  Captures captures;
  Order order;
  struct Counts {
    uint64_t copies = 0, collectives = 0, captures = 0, releases = 0,
             violations = 0;
  } counts;
};

/// Never destroyed, because libraries call functions at the end of a process.
Checker &checker();

/// Names the call of the current thread in reports.
class Call {
public:
  Call(const char *name, const void *caller);
  ~Call();
  Call(const Call &) = delete;
  Call &operator=(const Call &) = delete;

  /// Returns whether libtorch has called, which has rules of its own.
  bool isFromLibtorch() const;
  /// Returns whether CUDA's driver has called, whose memory is its own.
  bool isFromDriver() const;
  static const Call *current();
  std::string describe() const;

private:
  const char *name;
  const void *caller;
  const Call *outer;
};

/// Returns the handle of a stream; the default stream has one for each device.
Handle handleOf(const void *stream);
void setDeviceOfThread(int device);
int deviceOfThread();
/// The mode that cudaThreadExchangeStreamCaptureMode has set.
CaptureMode captureModeOfThread();

/// Begins a checked call: `call`, and `real`, the library's function.
#define FCDP_CHECK_CALL(name)                                                  \
  Call call(#name, __builtin_return_address(0));                               \
  auto *real = reinterpret_cast<decltype(&::name)>(next(name##Entry));         \
  Checker &rules = checker();                                                  \
  std::unique_lock<std::mutex> lock(rules.mutex)

} // namespace fcdp::contracts
