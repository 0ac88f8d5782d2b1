// SPDX-License-Identifier: Apache-2.0
//
// Vector clocks over the streams of a rank. This code does not depend on the
// IR.
#pragma once

#include "dialects/Fcdp/Enums.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>

namespace fcdp {

/// Number of an issued operation, from 1. 0 is before the run.
using OpIndex = int32_t;
/// For each stream, its last operation that is known to be done.
using Clock = std::array<OpIndex, kNumStreams>;

class StreamClocks {
public:
  /// Returns whether the next operation of `stream` is ordered after operation
  /// `index` of stream `other`.
  bool isOrdered(size_t stream, size_t other, OpIndex index) const {
    return known[stream][other] >= index;
  }
  void issue(size_t stream, OpIndex index) { known[stream][stream] = index; }
  void record(int64_t event, size_t stream) { events[event] = known[stream]; }
  /// Returns false if the event was never recorded.
  bool wait(int64_t event, size_t stream) {
    auto it = events.find(event);
    if (it == events.end())
      return false;
    for (size_t i = 0; i < kNumStreams; ++i)
      known[stream][i] = std::max(known[stream][i], it->second[i]);
    return true;
  }
  /// Makes all streams wait for all operations.
  void synchronize() {
    Clock last{};
    for (size_t i = 0; i < kNumStreams; ++i)
      last[i] = known[i][i];
    known.fill(last);
    for (auto &[event, clock] : events)
      clock = last;
  }
  /// Makes all streams wait for the operations that `stream` has issued and
  /// waited for.
  void waitFor(size_t stream) {
    const Clock reached = known[stream];
    auto join = [&](Clock &clock) {
      for (size_t i = 0; i < kNumStreams; ++i)
        clock[i] = std::max(clock[i], reached[i]);
    };
    for (Clock &clock : known)
      join(clock);
    // A wait for an older event adds no order.
    for (auto &[event, clock] : events)
      join(clock);
  }
  const std::array<Clock, kNumStreams> &getKnown() const { return known; }
  const std::map<int64_t, Clock> &getEvents() const { return events; }

private:
  std::array<Clock, kNumStreams> known{};
  /// By event number, the clock at its last record.
  std::map<int64_t, Clock> events;
};

} // namespace fcdp
