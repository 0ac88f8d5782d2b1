// SPDX-License-Identifier: Apache-2.0
#include "profile/Trace.h"

#include "operators/RecordedOp.h"
#include "output/StepText.h"

#include <map>
#include <nlohmann/json.hpp>
#include <optional>

namespace fcdp::run {

namespace {

using Json = nlohmann::ordered_json;

bool isOverNodes(plan::Axis axis) { return axis != plan::Axis::local; }

/// Returns fcdp-sim's name for the activity of an operation.
std::string activityOf(const plan::OpT &op) {
  if (auto *gather = op.body.Asall_gather())
    return isOverNodes(gather->axis) ? "inter gather" : "intra gather";
  if (auto *reduce = op.body.Asreduce_scatter())
    return isOverNodes(reduce->axis) ? "inter reduce" : "intra reduce";
  switch (op.body.type) {
  case plan::OpBody::cache_store:
  case plan::OpBody::store_value:
  case plan::OpBody::state_store:
  case plan::OpBody::store_gradient:
    return "host store";
  case plan::OpBody::cache_load:
  case plan::OpBody::load_value:
  case plan::OpBody::state_load:
  case plan::OpBody::load_shard:
    return "host load";
  case plan::OpBody::shard_update:
  case plan::OpBody::host_update:
  case plan::OpBody::clip_gradients:
  case plan::OpBody::unscale_gradients:
    return "optimizer";
  case plan::OpBody::wait:
    return "wait";
  default:
    return "compute";
  }
}

std::optional<size_t> bucketOf(const plan::OpT &op) {
  return plan::visit(op.body, [](const auto &body) -> std::optional<size_t> {
    if constexpr (requires { body.bucket; })
      return body.bucket;
    else
      return std::nullopt;
  });
}

/// Returns `aten.mm.default`, or `all_gather` and the unit of its bucket.
std::string labelOf(const plan::OpT &op, const StepPlan &plan) {
  if (auto *call = op.body.Asaten_call())
    return operatorName(*call);
  std::string label = op.body.type == plan::OpBody::cast
                          ? "cast_shard"
                          : plan::EnumNameOpBody(op.body.type);
  if (std::optional<size_t> index = bucketOf(op)) {
    const plan::BucketT &bucket = *plan.buckets[*index];
    label += " " + (bucket.unit.empty() ? bucket.name : bucket.unit);
  }
  return label;
}

} // namespace

class TraceText::Writer {
public:
  Writer(const StepPlan &plan, const StepRecorder &recorder)
      : plan(plan), recorder(recorder) {
    for (const auto &op : plan.ops)
      if (const plan::EventT *record = op->body.Asrecord())
        recordedOn[record->event] = toStream(record->stream);
  }

  void add(const RankTrace &trace);
  std::string finish(const StepStats &stats);

private:
  void add(const Json &event) {
    text += (text.empty() ? "  " : ",\n  ") + event.dump();
  }
  void addNames(uint32_t rank);
  void addSpans(const RankTrace &trace, StreamId stream);
  void addBoundary(uint32_t rank, double seconds, const std::string &name) {
    add({{"ph", "i"},
         {"pid", rank},
         {"tid", 0},
         {"name", name},
         {"s", "p"},
         {"ts", 1e6 * seconds}});
  }
  void addBoundaries(const RankTrace &trace);

  const StepPlan &plan;
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
    const plan::OpT &op = *plan.ops[issues[i].op];
    Json arguments = {
        {"function", recorder.getFunctions()[issues[i].function]}};
    if (!op.modulePath.empty())
      arguments["module"] = op.modulePath;
    if (!op.loc.empty())
      arguments["at"] = op.loc;
    if (const plan::EventT *wait = op.body.Aswait())
      arguments["for"] = name(recordedOn[wait->event]);
    add({{"ph", "X"},
         {"pid", trace.rank},
         {"tid", size_t(stream)},
         {"name", labelOf(op, plan)},
         {"cat", activityOf(op)},
         {"ts", 1e6 * spans[i].begin},
         {"dur", 1e6 * (spans[i].end - spans[i].begin)},
         {"args", arguments}});
  }
}

void TraceText::Writer::addBoundaries(const RankTrace &trace) {
  addBoundary(trace.rank, trace.begin, "step begins");
  const auto &issues = recorder.getIssues(StreamId::Compute);
  const auto &spans = trace.spans[size_t(StreamId::Compute)];
  double end = trace.begin;
  size_t next = 0;
  for (size_t i = 0; i < recorder.getFunctions().size(); ++i) {
    for (; next < issues.size() && issues[next].function == i; ++next)
      end = spans[next].end;
    addBoundary(trace.rank, end, recorder.getFunctions()[i] + " ends");
  }
}

void TraceText::Writer::add(const RankTrace &trace) {
  addNames(trace.rank);
  for (size_t stream = 0; stream < kNumStreams; ++stream)
    addSpans(trace, StreamId(stream));
  addBoundaries(trace);
}

std::string TraceText::Writer::finish(const StepStats &stats) {
  Json figures = Json::parse(toJson(StepFigures{stats}));
  figures["rank_seconds"] = stats.secondsOfRanks;
  return "{\"displayTimeUnit\": \"ms\",\n\"traceEvents\": [\n" +
         std::move(text) + "],\n\"otherData\": " + figures.dump() + "}\n";
}

TraceText::TraceText(const StepPlan &plan, const StepRecorder &recorder)
    : writer(std::make_unique<Writer>(plan, recorder)) {}

TraceText::~TraceText() = default;

void TraceText::add(const RankTrace &trace) { writer->add(trace); }

std::string TraceText::finish(const StepStats &stats) {
  return writer->finish(stats);
}

} // namespace fcdp::run
