// SPDX-License-Identifier: Apache-2.0
//
// The trace events that fcdp-run writes.

#include "fcdp/Report/MeasuredStep.h"
#include "fcdp/Support/JsonFile.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace fcdp;

namespace {
/// Leaves alone what is of no use here.
class TraceReader {
public:
  explicit TraceReader(llvm::MemoryBufferRef text) : json(text) {
    trace.file = text.getBufferIdentifier();
  }
  llvm::Expected<MeasuredTrace> read();

private:
  bool readEvent(const Json &event);
  bool readSpan(const Json &event);
  bool readFigures(const Json &figures);

  JsonFile json;
  MeasuredTrace trace;
};
} // namespace

bool TraceReader::readSpan(const Json &event) {
  for (llvm::StringRef name : {"name", "cat", "tid", "ts", "dur"})
    if (event[name].isNull())
      return json.fail(event, "expected a span to have '" + name + "'");
  llvm::StringRef name, category;
  int64_t stream = 0;
  double begin = 0, seconds = 0;
  if (!json.readString(event["name"], name) ||
      !json.readString(event["cat"], category) ||
      !json.readInteger(event["tid"], stream, 0) ||
      !json.readPositive(event["ts"], begin) ||
      !json.readPositive(event["dur"], seconds))
    return false;
  if (stream > getMaxEnumValForStream())
    return json.fail(event, "expected a 'tid' of at most " +
                                llvm::Twine(getMaxEnumValForStream()) +
                                ", got " + llvm::Twine(stream));
  MeasuredTrace::Span span;
  span.stream = static_cast<Stream>(stream);
  span.name = name.str();
  span.begin = begin / 1e6;
  span.end = span.begin + seconds / 1e6;
  span.line = json.getLine(event);
  if (category == "wait") {
    llvm::StringRef waitsFor = event["args"]["for"].asString().value_or("");
    span.waitsFor = symbolizeStream(waitsFor);
    if (!span.waitsFor)
      return json.fail(event, "expected a wait to be 'for' a stream, got '" +
                                  waitsFor + "'");
  }
  trace.spans.push_back(std::move(span));
  return true;
}

bool TraceReader::readEvent(const Json &event) {
  llvm::StringRef phase = event["ph"].asString().value_or("");
  if (phase == "X")
    return readSpan(event);
  return phase == "M" || phase == "i" ||
         json.fail(event, "expected an event of the phases that fcdp-run "
                          "writes, 'X', 'M' or 'i', got '" +
                              phase + "'");
}

bool TraceReader::readFigures(const Json &figures) {
  auto readCount = [&](llvm::StringRef name, auto &count) {
    const Json &figure = figures[name];
    int64_t value = 0;
    if (!figure.isNull() && !json.readInteger(figure, value, 0))
      return false;
    count = value;
    return true;
  };
  const Json &seconds = figures["seconds"];
  return readCount("inter_bytes_sent", trace.bytes.inter) &&
         readCount("intra_bytes_sent", trace.bytes.intra) &&
         readCount("h2d_bytes", trace.bytes.hostToDevice) &&
         readCount("d2h_bytes", trace.bytes.deviceToHost) &&
         readCount("device_peak_bytes", trace.deviceBytes) &&
         readCount("host_cache_bytes", trace.hostBytes) &&
         json.readPositive(seconds, trace.seconds) &&
         (trace.seconds > 0 ||
          json.fail(seconds, "expected 'seconds' to be above 0"));
}

llvm::Expected<MeasuredTrace> TraceReader::read() {
  bool isRead = json.read([&](const Json &root) {
    const Json &events = root["traceEvents"], &figures = root["otherData"];
    if (!events.isArray() || figures["seconds"].isNull())
      return json.fail(root,
                       "expected 'traceEvents' of a step and its 'seconds' in "
                       "'otherData', as fcdp-run --trace writes them");
    return json.readArray(events, [&](const Json &event) {
      return readEvent(event);
    }) && readFigures(figures);
  });
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
