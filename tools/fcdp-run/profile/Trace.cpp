// SPDX-License-Identifier: Apache-2.0
#include "profile/Trace.h"

#include "StepText.h"
#include "operators/RecordedOp.h"

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

} // namespace

class TraceText::Writer {
public:
  Writer(const Manifest &manifest, const StepRecorder &recorder)
      : manifest(manifest), recorder(recorder) {
    for (const Op &op : manifest.ops)
      if (op.kind == OpKind::Record) {
        const auto &record = std::get<ops::Event>(op.body);
        recordedOn[record.event] = record.stream;
      }
  }

  void add(const RankTrace &trace);
  std::string finish(const StepStats &stats);

private:
  void add(const Json &event) {
    text += (text.empty() ? "  " : ",\n  ") + event.dump();
  }
  void addNames(uint32_t rank);
  void addSpans(const RankTrace &trace, StreamId stream);
  void addBorder(uint32_t rank, double seconds, const std::string &name) {
    add({{"ph", "i"},
         {"pid", rank},
         {"tid", 0},
         {"name", name},
         {"s", "p"},
         {"ts", 1e6 * seconds}});
  }
  void addBorders(const RankTrace &trace);

  const Manifest &manifest;
  const StepRecorder &recorder;
  std::map<uint32_t, StreamId> recordedOn;
  std::string text;
};

void TraceText::Writer::addNames(uint32_t rank) {
  auto addName = [&](const char *name, size_t thread, const char *key,
                     const Json &value) {
    add({{"ph", "M"},
         {"pid", rank},
         {"tid", thread},
         {"name", name},
         {"args", {{key, value}}}});
  };
  addName("process_name", 0, "name",
          "rank " + std::to_string(rank) + ", measured");
  addName("process_sort_index", 0, "sort_index", rank);
  for (size_t stream = 0; stream < kNumStreams; ++stream) {
    addName("thread_name", stream, "name", name(StreamId(stream)));
    addName("thread_sort_index", stream, "sort_index", stream);
  }
}

void TraceText::Writer::addSpans(const RankTrace &trace, StreamId stream) {
  const auto &issues = recorder.getIssues(stream);
  const auto &spans = trace.spans[size_t(stream)];
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
         {"pid", trace.rank},
         {"tid", size_t(stream)},
         {"name", labelOf(op, manifest)},
         {"cat", activityOf(op)},
         {"ts", 1e6 * spans[i].begin},
         {"dur", 1e6 * (spans[i].end - spans[i].begin)},
         {"args", arguments}});
  }
}

void TraceText::Writer::addBorders(const RankTrace &trace) {
  addBorder(trace.rank, trace.begin, "step begins");
  const auto &issues = recorder.getIssues(StreamId::Compute);
  const auto &spans = trace.spans[size_t(StreamId::Compute)];
  double end = trace.begin;
  size_t next = 0;
  for (size_t i = 0; i < recorder.getFunctions().size(); ++i) {
    for (; next < issues.size() && issues[next].function == i; ++next)
      end = spans[next].end;
    addBorder(trace.rank, end, recorder.getFunctions()[i] + " ends");
  }
}

void TraceText::Writer::add(const RankTrace &trace) {
  addNames(trace.rank);
  for (size_t stream = 0; stream < kNumStreams; ++stream)
    addSpans(trace, StreamId(stream));
  addBorders(trace);
}

std::string TraceText::Writer::finish(const StepStats &stats) {
  Json figures = Json::parse(toJson(stats));
  figures["rank_seconds"] = stats.secondsOfRanks;
  return "{\"displayTimeUnit\": \"ms\",\n\"traceEvents\": [\n" +
         std::move(text) + "],\n\"otherData\": " + figures.dump() + "}\n";
}

TraceText::TraceText(const Manifest &manifest, const StepRecorder &recorder)
    : writer(std::make_unique<Writer>(manifest, recorder)) {}

TraceText::~TraceText() = default;

void TraceText::add(const RankTrace &trace) { writer->add(trace); }

std::string TraceText::finish(const StepStats &stats) {
  return writer->finish(stats);
}

} // namespace fcdp::run
