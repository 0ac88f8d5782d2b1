// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Report/Trace.h"

#include "fcdp/Report/StepFacts.h"
#include "llvm/Support/JSON.h"

using namespace fcdp;
using llvm::json::OStream;

namespace {
class TraceWriter {
public:
  TraceWriter(const Timeline &timeline, OStream &json)
      : timeline(timeline), json(json) {}

  void write();

private:
  void writeNames();
  void writeSpan(const Timeline::Span &span);
  void writeInstant(double time, llvm::StringRef name);
  void writeMemory(const Timeline::Memory &memory);
  void begin(llvm::StringRef phase, int64_t thread, llvm::StringRef name) {
    json.attribute("ph", phase);
    json.attribute("pid", 0);
    json.attribute("tid", thread);
    json.attribute("name", name);
  }
  /// Microseconds from the first span.
  double getTime(double seconds) const {
    return 1e6 * (seconds - timeline.begin);
  }

  const Timeline &timeline;
  OStream &json;
};
} // namespace

void TraceWriter::writeNames() {
  json.object([&] {
    begin("M", 0, "process_name");
    json.attributeObject("args", [&] { json.attribute("name", "rank"); });
  });
  for (unsigned i = 0; i <= getMaxEnumValForStream(); ++i) {
    llvm::StringRef stream = stringifyStream(static_cast<Stream>(i));
    json.object([&] {
      begin("M", i, "thread_name");
      json.attributeObject("args", [&] { json.attribute("name", stream); });
    });
    json.object([&] {
      begin("M", i, "thread_sort_index");
      json.attributeObject("args", [&] { json.attribute("sort_index", i); });
    });
  }
}

void TraceWriter::writeSpan(const Timeline::Span &span) {
  OperationPlace place = describePlace(span.op);
  json.object([&] {
    begin("X", static_cast<int64_t>(span.stream), getLabel(span.op));
    json.attribute("cat", stringifyActivity(span.activity));
    json.attribute("ts", getTime(span.begin));
    json.attribute("dur", 1e6 * (span.end - span.begin));
    json.attributeObject("args", [&] {
      json.attribute("function", place.function);
      if (!place.module.empty())
        json.attribute("module", place.module);
      if (!place.file.empty())
        json.attribute("at", place.file + ":" + std::to_string(place.line));
    });
  });
}

/// Writes an instant event for all threads.
void TraceWriter::writeInstant(double time, llvm::StringRef name) {
  json.object([&] {
    begin("i", 0, name);
    json.attribute("s", "p");
    json.attribute("ts", getTime(time));
  });
}

void TraceWriter::writeMemory(const Timeline::Memory &memory) {
  json.object([&] {
    begin("C", 0, "device memory");
    json.attribute("ts", getTime(memory.time));
    json.attributeObject("args", [&] {
      for (size_t i = 0; i < kMemoryUseCount; ++i)
        json.attribute(getName(static_cast<MemoryUse>(i)),
                       memory.inUse.bytes[i]);
    });
  });
}

void TraceWriter::write() {
  json.object([&] {
    json.attribute("displayTimeUnit", "ms");
    json.attributeArray("traceEvents", [&] {
      writeNames();
      for (const Timeline::Span &span : timeline.spans)
        writeSpan(span);
      writeInstant(0, "step begins");
      for (const Timeline::Function &function : timeline.functions)
        writeInstant(function.end,
                     (stringifyRole(function.role) + " ends").str());
      for (const Timeline::Memory &memory : timeline.memory)
        writeMemory(memory);
    });
  });
}

void fcdp::writeTrace(const Timeline &timeline, llvm::raw_ostream &stream) {
  OStream json(stream);
  TraceWriter(timeline, json).write();
  stream << '\n';
}
