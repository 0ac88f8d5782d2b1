// SPDX-License-Identifier: Apache-2.0
#include "inputs/SavedPosition.h"

#include <nlohmann/json.hpp>
#include <stdexcept>

namespace fcdp::run {

namespace {

/// Far from overflow, whatever is added in a job.
constexpr uint64_t kMostPositions = uint64_t(1) << 60;

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
    job["inputs"][input.name] = input.spec;
  return job;
}

std::vector<std::string> goOnAtPosition(const nlohmann::json &job, int64_t step,
                                        Inputs &inputs) {
  // A checkpoint of another program may not say how many rows were read.
  if (!job.contains("rows") || !job["rows"].is_number_unsigned())
    return {};
  auto rows = job["rows"].get<uint64_t>();
  if (rows > kMostPositions)
    throw std::runtime_error("the checkpoint's number of rows: expected at "
                             "most " +
                             std::to_string(kMostPositions) + ", got " +
                             std::to_string(rows));
  inputs.startAt(step, int64_t(rows));
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
      compare(job["inputs"][input.name], input.spec, "--input " + input.name,
              differences);
  return differences;
}

} // namespace fcdp::run
