// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Report/Page.h"

#include "fcdp/Report/Json.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/JSON.h"

using namespace fcdp;
using llvm::json::OStream;

namespace {
/// The page's template, style and script, from lib/Report/page.
constexpr char kTemplate[] =
#include "report.html.inc"
    ;
constexpr char kStyle[] =
#include "report.css.inc"
    ;
constexpr char kScript[] =
#include "report.js.inc"
    ;

/// Share of the step below which spans are merged with their neighbours.
constexpr double kResolution = 1.0 / 4000;

/// One or several spans of a stream.
struct ShownSpan {
  Activity activity;
  double begin, end;
  size_t label;
  int64_t count = 1;
};

class TimelineWriter {
public:
  TimelineWriter(const Timeline &timeline, llvm::raw_ostream &stream)
      : timeline(timeline), json(stream),
        shortest(timeline.seconds * kResolution) {}

  void write();

private:
  size_t getLabelIndex(llvm::StringRef label);
  void addSpan(const Timeline::Span &span);
  void writeStreams();
  void writeMemory();
  void writePoint(const Timeline::Memory &memory);

  const Timeline &timeline;
  OStream json;
  double shortest;
  std::array<std::vector<ShownSpan>, kNumSimulatedStreams> streams;
  std::vector<std::string> labels;
  llvm::StringMap<size_t> labelIndices;
};
} // namespace

size_t TimelineWriter::getLabelIndex(llvm::StringRef label) {
  auto [it, isNew] = labelIndices.try_emplace(label, labels.size());
  if (isNew)
    labels.push_back(label.str());
  return it->second;
}

void TimelineWriter::addSpan(const Timeline::Span &span) {
  std::vector<ShownSpan> &shown = streams[static_cast<unsigned>(span.stream)];
  if (!shown.empty()) {
    ShownSpan &last = shown.back();
    if (last.activity == span.activity && span.end - last.begin <= shortest) {
      last.end = span.end;
      ++last.count;
      return;
    }
  }
  shown.push_back(
      {span.activity, span.begin, span.end, getLabelIndex(getLabel(span.op))});
}

void TimelineWriter::writeStreams() {
  for (auto [i, spans] : llvm::enumerate(streams))
    json.object([&, i = i, &spans = spans] {
      json.attribute("name", stringifyStream(static_cast<Stream>(i)));
      json.attributeArray("spans", [&] {
        for (const ShownSpan &span : spans)
          json.array([&] {
            json.value(span.begin);
            json.value(span.end);
            json.value(static_cast<int64_t>(span.activity));
            json.value(static_cast<int64_t>(span.label));
            json.value(span.count);
          });
      });
    });
}

void TimelineWriter::writePoint(const Timeline::Memory &memory) {
  json.array([&] {
    json.value(memory.time);
    for (int64_t bytes : memory.inUse.bytes)
      json.value(bytes);
  });
}

void TimelineWriter::writeMemory() {
  json.attributeArray("names", [&] {
    for (size_t i = 0; i < kMemoryUseCount; ++i)
      json.value(getName(static_cast<MemoryUse>(i)));
  });
  json.attributeArray("points", [&] {
    std::optional<Timeline::Memory> shown;
    for (const Timeline::Memory &memory : timeline.memory) {
      if (shown && memory.time - shown->time < shortest) {
        if (memory.inUse.total() > shown->inUse.total())
          shown->inUse = memory.inUse;
        continue;
      }
      if (shown)
        writePoint(*shown);
      shown = memory;
    }
    if (shown)
      writePoint(*shown);
  });
}

void TimelineWriter::write() {
  double end = timeline.seconds;
  for (const Timeline::Span &span : timeline.spans) {
    addSpan(span);
    end = std::max(end, span.end);
  }
  json.object([&] {
    json.attribute("begin", timeline.begin);
    json.attribute("end", end);
    json.attributeArray("functions", [&] {
      for (const Timeline::Function &function : timeline.functions)
        json.object([&] {
          json.attribute("role", stringifyRole(function.role));
          json.attribute("end", function.end);
        });
    });
    json.attributeArray("streams", [&] { writeStreams(); });
    json.attributeObject("memory", [&] { writeMemory(); });
    json.attributeArray("labels", [&] {
      for (const std::string &label : labels)
        json.value(label);
    });
  });
}

std::string fcdp::describeTimeline(const Timeline &timeline) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  TimelineWriter(timeline, stream).write();
  return text;
}

/// Returns the data as text of a script element. The escapes keep `</` out of
/// it, which would end the element.
static std::string makeData(llvm::ArrayRef<PageStep> steps) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  OStream json(stream);
  json.object([&] {
    json.attributeArray("steps", [&] {
      for (const PageStep &step : steps)
        json.object([&] {
          writeReport(step.report, json);
          json.attributeBegin("timeline");
          json.rawValue(step.timeline);
          json.attributeEnd();
        });
    });
  });
  std::string escaped;
  for (char c : text)
    if (c == '<') // '<' occurs only within JSON strings
      escaped += "\\u003c";
    else
      escaped += c;
  return escaped;
}

void fcdp::writePage(llvm::ArrayRef<PageStep> steps,
                     llvm::raw_ostream &stream) {
  llvm::StringRef rest = kTemplate;
  auto fill = [&](llvm::StringRef place, llvm::StringRef text) {
    auto [before, after] = rest.split(place);
    stream << before << text;
    rest = after;
  };
  fill("{{style}}", kStyle);
  fill("{{data}}", makeData(steps));
  fill("{{script}}", kScript);
  stream << rest;
}
