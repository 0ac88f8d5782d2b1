// SPDX-License-Identifier: Apache-2.0
//
// The rule of captures: the calls that CUDA forbids while a stream is captured,
// and captures that end as they must (CUDA C++ Programming Guide, "Creating a
// Graph Using Stream Capture").
#pragma once

#include "Report.h"
#include "Work.h"

#include <map>
#include <memory>
#include <thread>
#include <vector>

namespace fcdp::contracts {

enum class CaptureMode { Global, ThreadLocal, Relaxed };

/// The captures of all threads. Thread-compatible.
class Captures {
public:
  using Thread = std::thread::id;

  explicit Captures(Report report) : report(std::move(report)) {}

  void begin(Handle stream, CaptureMode mode, Thread thread);
  /// Checks the end, forgets the capture, and returns what it uses.
  std::vector<Use> end(Handle stream, Thread thread);
  bool isCaptured(Handle stream) const { return streams.count(stream) != 0; }
  std::vector<Handle> capturedStreams() const;

  /// Adds work to a captured stream.
  void add(Handle stream, Use use);
  /// An event that is recorded outside of captures is no longer captured.
  void record(Handle event, Handle stream);
  /// A stream that waits for a captured event is captured from then on. Returns
  /// whether the wait belongs to a capture.
  bool wait(Handle stream, Handle event);
  void forget(Handle event) { events.erase(event); }

  /// Check a query of a stream, an event or the device, or a wait for it.
  void requireNotCaptured(Handle stream);
  void requireEventNotCaptured(Handle event);
  void requireNoCapture();
  /// Checks a call that a capture in another mode than the relaxed one forbids,
  /// like cudaMalloc. `own` is the mode of the calling thread.
  void requireSafe(Thread thread, CaptureMode own);

private:
  /// Work of each stream of a capture, by numbers.
  using Clock = std::map<Handle, uint64_t>;
  struct Capture {
    Handle origin;
    CaptureMode mode;
    Thread thread;
    std::map<Handle, Clock> streams;
    std::vector<Use> uses;
  };
  struct Event {
    std::shared_ptr<Capture> capture;
    Clock clock;
  };

  Report report;
  std::map<Handle, std::shared_ptr<Capture>> streams;
  std::map<Handle, Event> events;
};

} // namespace fcdp::contracts
