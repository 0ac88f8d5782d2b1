// SPDX-License-Identifier: Apache-2.0

#include "Captures.h"

#include <algorithm>

namespace fcdp::contracts {

void Captures::begin(Handle stream, CaptureMode mode, Thread thread) {
  auto capture = std::make_shared<Capture>();
  capture->origin = stream;
  capture->mode = mode;
  capture->thread = thread;
  capture->streams[stream];
  streams[stream] = capture;
}

std::vector<Use> Captures::end(Handle stream, Thread thread) {
  auto found = streams.find(stream);
  if (found == streams.end()) {
    report({"capture", "a capture on stream " + describe(stream),
            "that stream is not captured"});
    return {};
  }
  std::shared_ptr<Capture> capture = found->second;
  if (capture->origin != stream)
    report({"capture",
            "the end of a capture on stream " + describe(capture->origin) +
                ", where it began",
            "its end on stream " + describe(stream)});
  if (capture->mode != CaptureMode::Relaxed && capture->thread != thread)
    report({"capture", "the end of a capture in the thread that began it",
            "its end in another thread"});
  const Clock &joined = capture->streams[capture->origin];
  for (const auto &[other, clock] : capture->streams) {
    auto own = clock.find(other);
    auto known = joined.find(other);
    uint64_t last = own == clock.end() ? 0 : own->second;
    if (other != capture->origin &&
        (known == joined.end() || known->second < last))
      report({"capture",
              "an event after the last work of stream " + describe(other) +
                  " that stream " + describe(capture->origin) +
                  " waits for before the capture ends",
              "work that is not joined"});
  }
  std::erase_if(streams,
                [&](const auto &one) { return one.second == capture; });
  std::erase_if(events,
                [&](const auto &one) { return one.second.capture == capture; });
  return std::move(capture->uses);
}

std::vector<Handle> Captures::capturedStreams() const {
  std::vector<Handle> handles;
  for (const auto &[stream, capture] : streams)
    handles.push_back(stream);
  return handles;
}

void Captures::add(Handle stream, Use use) {
  Capture &capture = *streams.at(stream);
  ++capture.streams[stream][stream];
  capture.uses.push_back(std::move(use));
}

void Captures::record(Handle event, Handle stream) {
  auto found = streams.find(stream);
  if (found == streams.end())
    events.erase(event);
  else
    events[event] = {found->second, found->second->streams[stream]};
}

bool Captures::wait(Handle stream, Handle event) {
  auto captured = streams.find(stream);
  auto awaited = events.find(event);
  if (awaited == events.end()) {
    if (captured == streams.end())
      return false;
    report({"capture",
            "captured stream " + describe(stream) +
                " to wait for events of its capture",
            "event " + describe(event) + ", which was recorded outside of it"});
    return true;
  }
  std::shared_ptr<Capture> capture = awaited->second.capture;
  if (captured != streams.end() && captured->second != capture) {
    report({"capture",
            "captured stream " + describe(stream) +
                " to wait for events of its capture",
            "event " + describe(event) + " of another capture"});
    return true;
  }
  streams[stream] = capture;
  Clock &clock = capture->streams[stream];
  for (const auto &[other, number] : awaited->second.clock)
    clock[other] = std::max(clock[other], number);
  // The stream must be joined even if it gets no work after this.
  ++clock[stream];
  return true;
}

void Captures::requireNotCaptured(Handle stream) {
  if (isCaptured(stream))
    report({"capture", "a stream that is not captured",
            "stream " + describe(stream) + ", which is captured"});
}

void Captures::requireEventNotCaptured(Handle event) {
  if (events.count(event))
    report({"capture", "an event that was recorded outside of captures",
            "event " + describe(event) + ", which was recorded in a capture"});
}

void Captures::requireNoCapture() {
  if (!streams.empty())
    report(
        {"capture", "no capture on the device",
         "stream " + describe(streams.begin()->first) + ", which is captured"});
}

void Captures::requireSafe(Thread thread, CaptureMode own) {
  if (own == CaptureMode::Relaxed)
    return;
  for (const auto &[stream, capture] : streams) {
    bool isOwn = capture->thread == thread;
    if ((isOwn && capture->mode != CaptureMode::Relaxed) ||
        (!isOwn && capture->mode == CaptureMode::Global &&
         own == CaptureMode::Global))
      return report({"capture",
                     "no capture in another mode than the relaxed one during "
                     "this call",
                     "stream " + describe(stream) + ", which " +
                         (isOwn ? "this" : "another") + " thread captures"});
  }
}

} // namespace fcdp::contracts
