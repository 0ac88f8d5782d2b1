// SPDX-License-Identifier: Apache-2.0

#include "Work.h"

#include <algorithm>

namespace fcdp::contracts {

std::shared_ptr<Timeline> Work::at(Handle stream) {
  if (!streams.count(stream))
    created(stream, /*device=*/0, /*isBlocking=*/true);
  return streams[stream];
}

void Work::created(Handle stream, int device, bool isBlocking) {
  auto made = std::make_shared<Timeline>();
  made->handle = stream;
  made->device = device;
  made->isBlocking = isBlocking;
  streams[stream] = made;
  all.push_back(made);
}

void Work::destroyed(Handle stream) {
  streams.erase(stream);
  std::erase_if(all, [&](const std::shared_ptr<Timeline> &one) {
    return one->uses.empty() && !streams.count(one->handle);
  });
}

Point Work::add(Handle stream, Use use) {
  std::shared_ptr<Timeline> to = at(stream);
  ++to->issued;
  if (!use.memory.empty())
    to->uses.push_back({to->issued, std::move(use)});
  return {to, to->issued};
}

void Work::cancel(const Point &point) {
  std::erase_if(point.stream->uses, [&](const Timeline::At<Use> &one) {
    return one.position == point.position;
  });
}

void Work::record(Handle event, Handle stream) {
  events[event] = endOf(stream);
}

void Work::wait(Handle stream, Handle event) {
  auto found = events.find(event);
  std::shared_ptr<Timeline> waiter = at(stream);
  ++waiter->issued;
  if (found != events.end() && found->second.stream != waiter)
    waiter->waits.push_back({waiter->issued, found->second});
}

std::vector<Point> Work::endsOf(int device) {
  std::vector<Point> ends;
  for (const auto &stream : all)
    if (stream->device == device)
      ends.push_back({stream, stream->issued});
  return ends;
}

std::optional<Point> Work::pointOf(Handle event) const {
  auto found = events.find(event);
  return found == events.end() ? std::nullopt
                               : std::optional<Point>(found->second);
}

void Work::reached(const Point &point) {
  Timeline &stream = *point.stream;
  if (point.position <= stream.ended)
    return;
  stream.ended = point.position;
  while (!stream.uses.empty() && stream.uses.front().position <= stream.ended)
    stream.uses.pop_front();
  while (!stream.waits.empty() &&
         stream.waits.front().position <= stream.ended) {
    Point awaited = stream.waits.front().what;
    stream.waits.pop_front();
    reached(awaited);
  }
}

void Work::dropUses(Handle communicator) {
  for (const auto &stream : all)
    std::erase_if(stream->uses, [&](const Timeline::At<Use> &one) {
      return one.what.communicator == communicator;
    });
}

void Work::requireUnusedBy(Handle communicator, const Span &span) {
  for (const auto &stream : all)
    for (const auto &[position, use] : stream->uses)
      for (const Span &used : use.memory)
        if (used.overlaps(span) &&
            (!communicator || use.communicator == communicator))
          return report({"lifetimes",
                         "no work in flight that uses " + describe(span),
                         std::string(use.call) + " of " + describe(used) +
                             " on stream " + describe(stream->handle) +
                             ", whose end no query or wait has shown"});
}

bool Work::hasBlockingStream(const std::vector<Handle> &handles) {
  return std::any_of(handles.begin(), handles.end(),
                     [&](Handle handle) { return at(handle)->isBlocking; });
}

} // namespace fcdp::contracts
