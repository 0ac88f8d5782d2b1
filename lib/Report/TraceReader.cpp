// SPDX-License-Identifier: Apache-2.0
//
// The trace events that fcdp-run writes; no others are known.

#include "fcdp/Report/MeasuredStep.h"
#include "fcdp/Support/JsonReader.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace fcdp;

namespace {
/// An event as it stands in the file.
struct Event {
  std::string phase, name, category, function, waitsFor, ignored;
  int64_t process = 0, thread = 0, order = 0;
  double begin = -1, seconds = -1;
};

class TraceReader {
public:
  explicit TraceReader(llvm::MemoryBufferRef text) : json(text) {
    trace.file = text.getBufferIdentifier();
  }
  llvm::Expected<MeasuredTrace> read();

private:
  bool readMember(llvm::StringRef name);
  bool readEvent();
  bool readArgument(Event &event, llvm::StringRef name);
  bool addSpan(const Event &event);
  bool readFigure(llvm::StringRef name);

  JsonReader json;
  MeasuredTrace trace;
  bool hasEvents = false, hasFigures = false;
};
} // namespace

bool TraceReader::readArgument(Event &event, llvm::StringRef name) {
  if (name == "function")
    return json.readString(event.function);
  if (name == "for")
    return json.readString(event.waitsFor);
  if (name == "sort_index")
    return json.readInteger(event.order, 0);
  if (name == "module" || name == "at" || name == "name")
    return json.readString(event.ignored);
  return json.failUnknown(name, "the arguments that fcdp-run writes");
}

bool TraceReader::addSpan(const Event &event) {
  if (event.thread > getMaxEnumValForStream())
    return json.fail("expected a 'tid' of at most " +
                     llvm::Twine(getMaxEnumValForStream()) + ", got " +
                     llvm::Twine(event.thread));
  if (event.begin < 0 || event.seconds < 0)
    return json.fail("expected a span to have 'ts' and 'dur'");
  MeasuredTrace::Span span;
  span.stream = static_cast<Stream>(event.thread);
  span.name = event.name;
  span.begin = event.begin / 1e6;
  span.end = span.begin + event.seconds / 1e6;
  span.line = json.getLine();
  if (event.category == "wait") {
    span.waitsFor = symbolizeStream(event.waitsFor);
    if (!span.waitsFor)
      return json.fail("expected a wait to be 'for' a stream, got '" +
                       event.waitsFor + "'");
  }
  trace.spans.push_back(std::move(span));
  return true;
}

bool TraceReader::readEvent() {
  Event event;
  if (!json.readObject([&](llvm::StringRef name) {
        if (name == "ph")
          return json.readString(event.phase);
        if (name == "name")
          return json.readString(event.name);
        if (name == "cat")
          return json.readString(event.category);
        if (name == "s")
          return json.readString(event.ignored);
        if (name == "pid")
          return json.readInteger(event.process, 0);
        if (name == "tid")
          return json.readInteger(event.thread, 0);
        if (name == "ts")
          return json.readPositive(event.begin);
        if (name == "dur")
          return json.readPositive(event.seconds);
        if (name == "args")
          return json.readObject([&](llvm::StringRef argument) {
            return readArgument(event, argument);
          });
        return json.failUnknown(name, "the keys that fcdp-run writes");
      }))
    return false;
  if (event.phase == "X")
    return addSpan(event);
  return event.phase == "M" || event.phase == "i" ||
         json.fail("expected an event of the phases that fcdp-run writes, "
                   "'X', 'M' or 'i', got '" +
                   event.phase + "'");
}

bool TraceReader::readFigure(llvm::StringRef name) {
  hasFigures = true;
  if (name == "seconds")
    return json.readPositive(trace.seconds);
  if (name == "loss") {
    // Which may be no number, and is of no use here.
    return json.skipScalar();
  }
  int64_t value = 0;
  if (!json.readInteger(value, 0))
    return false;
  if (name == "inter_bytes_sent")
    trace.bytes.inter = value;
  else if (name == "intra_bytes_sent")
    trace.bytes.intra = value;
  else if (name == "h2d_bytes")
    trace.bytes.hostToDevice = value;
  else if (name == "d2h_bytes")
    trace.bytes.deviceToHost = value;
  else if (name == "device_peak_bytes")
    trace.deviceBytes = value;
  else if (name == "host_cache_bytes")
    trace.hostBytes = value;
  return true; // other counts are of no use here
}

bool TraceReader::readMember(llvm::StringRef name) {
  std::string unit;
  if (name == "displayTimeUnit")
    return json.readString(unit);
  if (name == "traceEvents") {
    hasEvents = true;
    return json.readArray([&] { return readEvent(); });
  }
  if (name == "otherData")
    return json.readObject(
        [&](llvm::StringRef figure) { return readFigure(figure); });
  return json.failUnknown(name,
                          "'displayTimeUnit', 'traceEvents', 'otherData'");
}

llvm::Expected<MeasuredTrace> TraceReader::read() {
  bool isRead = json.readObject([&](llvm::StringRef name) {
    return readMember(name);
  }) && json.atEnd();
  if (isRead && !(hasEvents && hasFigures && trace.seconds > 0))
    isRead = json.fail("expected 'traceEvents' of a step and its 'seconds' in "
                       "'otherData', as fcdp-run --trace writes them");
  if (!isRead)
    return json.takeError();
  return std::move(trace);
}

llvm::Expected<MeasuredTrace> fcdp::parseTrace(llvm::MemoryBufferRef text) {
  return TraceReader(text).read();
}

llvm::Expected<MeasuredTrace> fcdp::loadTrace(llvm::StringRef file) {
  auto text = llvm::MemoryBuffer::getFile(file, /*IsText=*/true);
  if (!text)
    return llvm::createStringError("cannot read '" + file +
                                   "': " + text.getError().message());
  return parseTrace((*text)->getMemBufferRef());
}
