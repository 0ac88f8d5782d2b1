// SPDX-License-Identifier: Apache-2.0
//
// Reads the trace events that fcdp-run writes.

#include "fcdp/Report/MeasuredStep.h"
#include "fcdp/Support/InputFile.h"
#include "fcdp/Support/JsonFile.h"

#include <map>

using namespace fcdp;

namespace {
/// Reads the members that MeasuredTrace needs and ignores all others.
class TraceReader {
public:
  explicit TraceReader(llvm::MemoryBufferRef text) : json(text) {
    trace.file = text.getBufferIdentifier();
  }
  llvm::Expected<MeasuredTrace> read();

private:
  bool readEvent(const Json &event);
  bool readBegin(const Json &event);
  bool readSpan(const Json &event);
  bool readFigures(const Json &figures);
  bool readRankSeconds(const Json &figures);
  void keepSlowest();

  JsonFile json;
  MeasuredTrace trace;
  /// Begin of the step by rank, in seconds; 0 if the file does not give it.
  std::map<int64_t, double> begins;
};
} // namespace

bool TraceReader::readSpan(const Json &event) {
  for (llvm::StringRef name : {"name", "cat", "pid", "tid", "ts", "dur"})
    if (event[name].isNull())
      return json.fail(event, "expected a span to have '" + name + "'");
  llvm::StringRef name, category;
  int64_t rank = 0, stream = 0;
  double begin = 0, seconds = 0;
  if (!json.readString(event["name"], name) ||
      !json.readString(event["cat"], category) ||
      !json.readInteger(event["pid"], rank, 0) ||
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
  span.rank = rank;
  begins.try_emplace(rank, 0);
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

bool TraceReader::readBegin(const Json &event) {
  int64_t rank = 0;
  double begin = 0;
  if (!json.readInteger(event["pid"], rank, 0) ||
      !json.readPositive(event["ts"], begin))
    return false;
  begins[rank] = begin / 1e6;
  return true;
}

bool TraceReader::readEvent(const Json &event) {
  llvm::StringRef phase = event["ph"].asString().value_or("");
  if (phase == "X")
    return readSpan(event);
  if (phase == "i" && event["name"].asString() == "step begins")
    return readBegin(event);
  return phase == "M" || phase == "i" ||
         json.fail(event, "expected an event of the phases that fcdp-run "
                          "writes, 'X', 'M' or 'i', got '" +
                              phase + "'");
}

bool TraceReader::readRankSeconds(const Json &figures) {
  const Json &seconds = figures["rank_seconds"];
  return seconds.isNull() || json.readArray(seconds, [&](const Json &one) {
    return json.readPositive(one, trace.secondsOfRanks.emplace_back());
  });
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
  return llvm::all_of(kLinks,
                      [&](LinkId link) {
                        return readCount(kLinkFigures[link], trace.bytes[link]);
                      }) &&
         readCount("device_peak_bytes", trace.deviceBytes) &&
         readCount("host_cache_bytes", trace.hostBytes) &&
         readRankSeconds(figures) &&
         json.readPositive(seconds, trace.seconds) &&
         (trace.seconds > 0 ||
          json.fail(seconds, "expected 'seconds' to be above 0"));
}

/// Keeps the spans of the slowest rank in the file, and counts time from the
/// begin of its step.
void TraceReader::keepSlowest() {
  if (begins.empty())
    return;
  auto getSeconds = [&](int64_t rank) {
    return rank < static_cast<int64_t>(trace.secondsOfRanks.size())
               ? trace.secondsOfRanks[rank]
               : 0;
  };
  auto slowest = llvm::max_element(begins, [&](auto &a, auto &b) {
    return getSeconds(a.first) < getSeconds(b.first);
  });
  trace.rank = slowest->first;
  llvm::erase_if(trace.spans, [&](const MeasuredTrace::Span &span) {
    return span.rank != trace.rank;
  });
  for (MeasuredTrace::Span &span : trace.spans) {
    span.begin -= slowest->second;
    span.end -= slowest->second;
  }
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
  keepSlowest();
  return std::move(trace);
}

llvm::Expected<MeasuredTrace> fcdp::parseTrace(llvm::MemoryBufferRef text) {
  return TraceReader(text).read();
}

llvm::Expected<MeasuredTrace> fcdp::loadTrace(llvm::StringRef file) {
  auto text = readInputFile(file);
  if (!text)
    return llvm::createStringError("cannot read '" + file +
                                   "': " + toString(text.takeError()));
  return parseTrace((*text)->getMemBufferRef());
}
