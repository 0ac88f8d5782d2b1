// SPDX-License-Identifier: Apache-2.0
#include "Trace.h"

#include "step/RecordedOp.h"

#include <map>
#include <nlohmann/json.hpp>
#include <optional>

namespace fcdp::run {

namespace {

using Json = nlohmann::ordered_json;

bool isOverNodes(Axis axis) { return axis != Axis::Local; }

/// What an operation does for the step, as fcdp-sim calls it.
std::string activityOf(const Op &op) {
  if (auto *gather = std::get_if<ops::AllGather>(&op.body))
    return isOverNodes(gather->axis) ? "inter gather" : "intra gather";
  if (auto *reduce = std::get_if<ops::ReduceScatter>(&op.body))
    return isOverNodes(reduce->axis) ? "inter reduce" : "intra reduce";
  switch (op.kind) {
  case OpKind::CacheStore:
    return "host store";
  case OpKind::CacheLoad:
    return "host load";
  case OpKind::ShardUpdate:
  case OpKind::ClipGradients:
    return "optimizer";
  case OpKind::Wait:
    return "wait";
  default:
    return "compute";
  }
}

std::optional<size_t> bucketOf(const Op &op) {
  return std::visit(
      [](const auto &body) -> std::optional<size_t> {
        if constexpr (requires { body.bucket; })
          return body.bucket;
        else
          return std::nullopt;
      },
      op.body);
}

/// `aten.mm.default`, or `all_gather` and the unit whose bucket it is for.
std::string labelOf(const Op &op, const Manifest &manifest) {
  if (auto *call = std::get_if<ops::AtenCall>(&op.body))
    return operatorName(*call);
  std::string label = op.kind == OpKind::Cast ? "cast_shard" : name(op.kind);
  if (std::optional<size_t> index = bucketOf(op)) {
    const Bucket &bucket = manifest.buckets[*index];
    label += " " + (bucket.unit.empty() ? bucket.name : bucket.unit);
  }
  return label;
}

/// Used by one thread.
class TraceWriter {
public:
  TraceWriter(const Manifest &manifest, const StepRecorder &recorder)
      : manifest(manifest), recorder(recorder) {
    for (const Op &op : manifest.ops)
      if (op.kind == OpKind::Record) {
        const auto &record = std::get<ops::Event>(op.body);
        recordedOn[record.event] = record.stream;
      }
  }

  std::string write(const StepStats &stats);

private:
  void add(const Json &event) {
    text += (text.empty() ? "  " : ",\n  ") + event.dump();
  }
  void addNames();
  void addSpans(StreamId stream);
  void addBorder(double time, const std::string &name) {
    add({{"ph", "i"},
         {"pid", 0},
         {"tid", 0},
         {"name", name},
         {"s", "p"},
         {"ts", time}});
  }
  void addBorders();
  double timeOf(double clock) const {
    return 1e6 * (clock - recorder.getBegin());
  }

  const Manifest &manifest;
  const StepRecorder &recorder;
  std::map<uint32_t, StreamId> recordedOn;
  std::string text;
};

void TraceWriter::addNames() {
  auto addName = [&](const char *name, size_t thread, const char *key,
                     const Json &value) {
    add({{"ph", "M"},
         {"pid", 0},
         {"tid", thread},
         {"name", name},
         {"args", {{key, value}}}});
  };
  addName("process_name", 0, "name", "rank 0, measured");
  for (size_t stream = 0; stream < kNumStreams; ++stream) {
    addName("thread_name", stream, "name", name(StreamId(stream)));
    addName("thread_sort_index", stream, "sort_index", stream);
  }
}

void TraceWriter::addSpans(StreamId stream) {
  const auto &issues = recorder.getIssues(stream);
  const auto &spans = recorder.getSpans(stream);
  for (size_t i = 0; i < issues.size(); ++i) {
    const Op &op = manifest.ops[issues[i].op];
    Json arguments = {
        {"function", recorder.getFunctions()[issues[i].function]}};
    if (!op.module.empty())
      arguments["module"] = op.module;
    if (!op.loc.empty())
      arguments["at"] = op.loc;
    if (op.kind == OpKind::Wait)
      arguments["for"] = name(recordedOn[std::get<ops::Event>(op.body).event]);
    add({{"ph", "X"},
         {"pid", 0},
         {"tid", size_t(stream)},
         {"name", labelOf(op, manifest)},
         {"cat", activityOf(op)},
         {"ts", timeOf(spans[i].begin)},
         {"dur", 1e6 * (spans[i].end - spans[i].begin)},
         {"args", arguments}});
  }
}

void TraceWriter::addBorders() {
  addBorder(0, "step begins");
  const auto &issues = recorder.getIssues(StreamId::Compute);
  const auto &spans = recorder.getSpans(StreamId::Compute);
  double end = 0;
  size_t next = 0;
  for (size_t i = 0; i < recorder.getFunctions().size(); ++i) {
    for (; next < issues.size() && issues[next].function == i; ++next)
      end = timeOf(spans[next].end);
    addBorder(end, recorder.getFunctions()[i] + " ends");
  }
}

std::string TraceWriter::write(const StepStats &stats) {
  addNames();
  for (size_t stream = 0; stream < kNumStreams; ++stream)
    addSpans(StreamId(stream));
  addBorders();
  return "{\"displayTimeUnit\": \"ms\",\n\"traceEvents\": [\n" + text +
         "],\n\"otherData\": " + toJson(stats) + "}\n";
}

} // namespace

std::string traceOf(const Manifest &manifest, const StepRecorder &recorder,
                    const StepStats &stats) {
  return TraceWriter(manifest, recorder).write(stats);
}

} // namespace fcdp::run
