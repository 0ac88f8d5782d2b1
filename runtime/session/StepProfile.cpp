// SPDX-License-Identifier: Apache-2.0
#include "session/StepProfile.h"

#include "operators/PreparedOp.h"
#include "session/OverRanks.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace fcdp {

namespace {

using Span = StepRecorder::Span;

const char *name(AxisId axis) {
  switch (axis) {
  case AxisId::Node:
    return "node";
  case AxisId::Local:
    return "local";
  case AxisId::World:
    return "world";
  }
  return "?";
}

/// Returns the other stream that uses the same link as `stream`.
StreamId otherStreamOfLink(StreamId stream) {
  switch (stream) {
  case StreamId::Inter:
    return StreamId::InterReduce;
  case StreamId::InterReduce:
    return StreamId::Inter;
  case StreamId::Intra:
    return StreamId::IntraReduce;
  case StreamId::IntraReduce:
    return StreamId::Intra;
  default:
    return stream;
  }
}

std::optional<AxisId> axisOf(const plan::OpT &op) {
  if (auto *gather = op.body.Asall_gather())
    return toAxis(gather->axis);
  if (auto *reduce = op.body.Asreduce_scatter())
    return toAxis(reduce->axis);
  if (op.body.type == plan::OpBody::clip_gradients ||
      op.body.type == plan::OpBody::unscale_gradients)
    return AxisId::World;
  return std::nullopt;
}

bool isCollective(const plan::OpT &op) {
  return op.body.type == plan::OpBody::all_gather ||
         op.body.type == plan::OpBody::reduce_scatter;
}

/// Returns the seconds of `span` in which `others`, which do not overlap each
/// other, run.
double overlapOf(const Span &span, const std::vector<Span> &others) {
  auto first = std::lower_bound(
      others.begin(), others.end(), span.begin,
      [](const Span &other, double begin) { return other.end <= begin; });
  double seconds = 0;
  for (auto other = first; other != others.end() && other->begin < span.end;
       ++other)
    seconds +=
        std::min(span.end, other->end) - std::max(span.begin, other->begin);
  return seconds;
}

} // namespace

size_t StepProfile::getEntry(const plan::OpT &op,
                             const std::string &operatorKey) {
  nlohmann::ordered_json keys;
  if (!operatorKey.empty()) {
    keys["operator"] = operatorKey;
  } else {
    keys["kind"] = operationKind(op);
    if (isCollective(op))
      keys["axis"] = name(*axisOf(op));
    keys["bytes"] = *countProfiledBytes(op, plan);
  }
  auto [found, isNew] = indices.try_emplace(keys.dump(), entries.size());
  if (isNew)
    entries.push_back({!operatorKey.empty(), found->first, 0, {}});
  return found->second;
}

void StepProfile::measureCompute(const StepRecorder &recorder,
                                 std::vector<Sample> &samples) {
  const auto &issues = recorder.getIssues(StreamId::Compute);
  const auto &spans = recorder.getSpans(StreamId::Compute);
  size_t waits = 0;
  for (size_t i = 0; i < issues.size(); ++i) {
    const plan::OpT &op = *plan.ops[issues[i].op];
    waits += op.body.type == plan::OpBody::wait;
    const std::string &key = recorder.getKey(issues[i].op);
    if (key.empty() && !countProfiledBytes(op, plan))
      continue;
    samples.push_back({getEntry(op, key), spans[i].end - spans[i].begin,
                       axisOf(op), true, waits});
  }
}

void StepProfile::measureStream(const StepRecorder &recorder, StreamId stream,
                                std::vector<Sample> &samples) {
  // Two transfers that share a link have half of it each. A model that lets
  // them share it needs the time that one would take alone.
  StreamId other = otherStreamOfLink(stream);
  std::vector<Span> others;
  if (other != stream)
    for (size_t i = 0; i < recorder.getIssues(other).size(); ++i)
      if (isCollective(*plan.ops[recorder.getIssues(other)[i].op]))
        others.push_back(recorder.getSpans(other)[i]);
  for (size_t i = 0; i < recorder.getIssues(stream).size(); ++i) {
    const plan::OpT &op = *plan.ops[recorder.getIssues(stream)[i].op];
    const Span &span = recorder.getSpans(stream)[i];
    double seconds = span.end - span.begin;
    if (isCollective(op))
      seconds -= overlapOf(span, others) / 2;
    samples.push_back({getEntry(op, ""), seconds, axisOf(op)});
  }
}

std::vector<StepProfile::Sample>
StepProfile::measure(const StepRecorder &recorder) {
  std::vector<Sample> samples;
  measureCompute(recorder, samples);
  for (size_t stream = 0; stream < kNumStreams; ++stream)
    if (StreamId(stream) != StreamId::Compute)
      measureStream(recorder, StreamId(stream), samples);
  return samples;
}

std::vector<double>
StepProfile::findDelays(const std::vector<Sample> &samples,
                        const std::vector<double> &all) const {
  size_t ranks = plan.mesh.size();
  size_t segments = 1;
  for (const Sample &sample : samples)
    segments = std::max(segments, sample.segment + 1);
  std::vector<std::vector<double>> sums(segments, std::vector<double>(ranks));
  for (size_t i = 0; i < samples.size(); ++i)
    if (samples[i].isAlone())
      for (size_t rank = 0; rank < ranks; ++rank)
        sums[samples[i].segment][rank] += all[rank * samples.size() + i];
  std::vector<double> delays;
  for (const std::vector<double> &sum : sums) {
    double mean = secondsOverRanks(plan.mesh, std::nullopt, sum);
    double most = *std::max_element(sum.begin(), sum.end());
    delays.push_back(mean > 0 ? most / mean : 1);
  }
  return delays;
}

void StepProfile::add(const StepRecorder &recorder) {
  std::vector<Sample> samples = measure(recorder);
  std::vector<double> own;
  for (const Sample &sample : samples)
    own.push_back(sample.seconds);
  std::vector<double> all = job.gather(own, "exchange of the profile");
  std::vector<double> delays = findDelays(samples, all);
  std::vector<double> sums(entries.size());
  std::vector<size_t> calls(entries.size());
  for (size_t i = 0; i < samples.size(); ++i) {
    const Sample &sample = samples[i];
    std::vector<double> ofRanks;
    for (size_t rank = 0; rank < plan.mesh.size(); ++rank)
      ofRanks.push_back(all[rank * samples.size() + i]);
    double seconds = secondsOverRanks(plan.mesh, sample.axis, ofRanks);
    if (sample.isAlone())
      seconds *= delays[sample.segment];
    sums[sample.entry] += seconds;
    ++calls[sample.entry];
  }
  for (size_t i = 0; i < entries.size(); ++i) {
    entries[i].calls = calls[i];
    entries[i].seconds.push_back(sums[i] / double(calls[i]));
  }
}

std::string StepProfile::toJson() const {
  std::string text = "{\"version\": 1,\n";
  text += " \"nodes\": " + std::to_string(plan.mesh.nodes) +
          ", \"ranks_per_node\": " + std::to_string(plan.mesh.locals) +
          ",\n \"steps\": " +
          std::to_string(entries.empty() ? 0 : entries[0].seconds.size());
  for (bool isOperator : {true, false}) {
    text += isOperator ? ",\n \"operators\": [" : ",\n \"operations\": [";
    const char *separator = "\n  ";
    for (const Entry &entry : entries) {
      if (entry.isOperator != isOperator)
        continue;
      // Each entry has a line, so that an error message can name its number.
      auto object = nlohmann::ordered_json::parse(entry.keys);
      object["calls"] = entry.calls;
      // Times are rounded to a nanosecond, the resolution of clocks.
      object["seconds"] = std::round(1e9 * medianOf(entry.seconds)) / 1e9;
      text += separator + object.dump();
      separator = ",\n  ";
    }
    text += "]";
  }
  return text + "}\n";
}

} // namespace fcdp
