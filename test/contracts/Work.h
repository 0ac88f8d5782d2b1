// SPDX-License-Identifier: Apache-2.0
//
// The rule of lifetimes: memory is freed, unregistered or deregistered only
// after a query or a wait has shown that the work which uses it has ended.
#pragma once

#include "Report.h"

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace fcdp::contracts {

/// The memory that a call of a library uses until its work has ended.
struct Use {
  const char *call;
  std::vector<Span> memory;
  Handle communicator = nullptr;
};

struct Timeline;

/// A place in the work of a stream.
struct Point {
  std::shared_ptr<Timeline> stream;
  uint64_t position = 0;
};

/// The work of one stream that is not known to have ended.
struct Timeline {
  template <typename T>
  struct At {
    uint64_t position;
    T what;
  };
  Handle handle;
  int device;
  bool isBlocking;
  uint64_t issued = 0, ended = 0;
  std::deque<At<Use>> uses;
  /// Points of other streams that it waits for.
  std::deque<At<Point>> waits;
};

/// The work of all streams. Thread-compatible.
class Work {
public:
  explicit Work(Report report) : report(std::move(report)) {}

  void created(Handle stream, int device, bool isBlocking);
  /// The stream's work goes on, but another stream may get its handle.
  void destroyed(Handle stream);
  Point add(Handle stream, Use use);
  /// Removes work that the library has refused.
  void cancel(const Point &point);
  void record(Handle event, Handle stream);
  void wait(Handle stream, Handle event);
  void forget(Handle event) { events.erase(event); }

  /// Return points for `reached`, which must be taken before the library is
  /// asked, because other threads may issue more work meanwhile.
  Point endOf(Handle stream) { return {at(stream), at(stream)->issued}; }
  std::vector<Point> endsOf(int device);
  std::optional<Point> pointOf(Handle event) const;
  /// All work up to there, and what that waited for, has ended.
  void reached(const Point &point);
  void dropUses(Handle communicator);

  /// Checks that no work in flight uses that memory.
  void requireUnused(const Span &span) { requireUnusedBy(nullptr, span); }
  /// The same for work of one communicator.
  void requireUnusedBy(Handle communicator, const Span &span);
  bool hasBlockingStream(const std::vector<Handle> &streams);

private:
  std::shared_ptr<Timeline> at(Handle stream);

  Report report;
  std::map<Handle, std::shared_ptr<Timeline>> streams;
  /// Also those whose handles are gone, as long as they have uses.
  std::vector<std::shared_ptr<Timeline>> all;
  std::map<Handle, Point> events;
};

} // namespace fcdp::contracts
