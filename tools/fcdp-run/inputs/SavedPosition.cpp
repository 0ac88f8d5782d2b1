// SPDX-License-Identifier: Apache-2.0
#include "inputs/SavedPosition.h"

#include "core/Utf8.h"

#include <nlohmann/json.hpp>

namespace fcdp::run {

namespace {

/// The limit on the rows that a job reads in a step, one for each micro-batch
/// and rank.
constexpr int64_t kMostRowsOfStep = int64_t(1) << 20;

void compare(const nlohmann::json &saved, const nlohmann::ordered_json &own,
             const std::string &what, std::vector<std::string> &differences) {
  std::string before = saved.dump(), now = own.dump();
  if (before != now)
    differences.push_back(what + ": was " + before +
                          " when the checkpoint was saved, is " + now +
                          "; rows of this epoch may be read twice or not at "
                          "all");
}

} // namespace

nlohmann::ordered_json describePosition(const Inputs &inputs, int64_t step) {
  nlohmann::ordered_json job = {{"rows", inputs.firstRowOf(step)},
                                {"data", toText(inputs.dataOptions())}};
  if (inputs.order())
    job["file_rows"] = inputs.fileRows();
  for (const InputOption &input : inputs.options())
    job["inputs"][input.name] = toUtf8(input.spec);
  return job;
}

std::vector<std::string> goOnAtPosition(const JsonNode &saved, int64_t step,
                                        Inputs &inputs) {
  // A checkpoint of another program may not have the number of rows that were
  // read.
  if (!saved.has("rows"))
    return {};
  // Steps are fewer than 2^41, so the product does not overflow.
  inputs.startAt(step, saved.at("rows").integer(0, step * kMostRowsOfStep));
  const nlohmann::json &job = saved.raw();
  std::vector<std::string> differences;
  nlohmann::ordered_json own = describePosition(inputs, step);
  if (job.contains("data"))
    compare(job["data"], own["data"], "--data", differences);
  if (job.contains("file_rows"))
    compare(job["file_rows"], own["file_rows"], "rows of the files",
            differences);
  for (const InputOption &input : inputs.options())
    if (job.contains("inputs") && job["inputs"].is_object() &&
        job["inputs"].contains(input.name))
      compare(job["inputs"][input.name], toUtf8(input.spec),
              "--input " + input.name, differences);
  return differences;
}

} // namespace fcdp::run
