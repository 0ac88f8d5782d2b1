// SPDX-License-Identifier: Apache-2.0
#include "output/StepText.h"

#include <cstdio>
#include <iterator>
#include <nlohmann/json.hpp>

namespace fcdp::run {

namespace {

std::string bytesText(double bytes) {
  constexpr const char *units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < std::size(units)) {
    bytes /= 1024;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof(text), unit ? "%.2f %s" : "%.0f %s", bytes,
                units[unit]);
  return text;
}

} // namespace

std::string toLine(const StepStats &stats, const std::vector<int64_t> &epochs) {
  std::string epochText;
  for (int64_t epoch : epochs)
    epochText += (epochText.empty() ? "  epoch " : ":") + std::to_string(epoch);
  char start[128], time[32];
  std::snprintf(start, sizeof(start), "step %lld  loss %.8g  lr %.4g",
                static_cast<long long>(stats.step), stats.loss,
                stats.learningRate);
  std::snprintf(time, sizeof(time), "  %.3f s", stats.seconds);
  return start + epochText + time + "  inter " + bytesText(stats.interBytes) +
         "  intra " + bytesText(stats.intraBytes) + "  h2d " +
         bytesText(stats.h2dBytes) + "  d2h " + bytesText(stats.d2hBytes) +
         "  host cache " + bytesText(stats.hostCacheBytes) + "  peak " +
         bytesText(stats.devicePeakBytes) +
         (stats.skipped
              ? "  skipped (" + std::to_string(stats.skippedSteps) + ")"
              : "");
}

std::string describeSaving(const std::string &folder, uint64_t copyBytes) {
  return "saving to " + folder + "  copies take " +
         bytesText(double(copyBytes)) + " of host memory per node";
}

std::string toLine(const SavedCheckpoint &saved) {
  char times[96];
  std::snprintf(times, sizeof(times), "  waited %.3f s  written in %.3f s  ",
                saved.exposedSeconds, saved.writeSeconds);
  return "saved " + saved.path + times + bytesText(double(saved.bytes));
}

std::string toJson(const StepStats &stats, const std::vector<int64_t> &epochs) {
  auto whole = [](double number) { return static_cast<uint64_t>(number); };
  nlohmann::ordered_json object = {
      {"step", stats.step},
      {"loss", stats.loss},
      {"learning_rate", stats.learningRate},
      {"seconds", stats.seconds},
      {"inter_bytes_sent", whole(stats.interBytes)},
      {"intra_bytes_sent", whole(stats.intraBytes)},
      {"h2d_bytes", whole(stats.h2dBytes)},
      {"d2h_bytes", whole(stats.d2hBytes)},
      {"control_bytes", whole(stats.controlBytes)},
      {"device_peak_bytes", whole(stats.devicePeakBytes)},
      {"host_cache_bytes", whole(stats.hostCacheBytes)},
      {"system_allocations", whole(stats.systemAllocations)},
      {"skipped_steps", stats.skippedSteps}};
  if (epochs.size() == 1)
    object["epoch"] = epochs[0];
  else if (!epochs.empty())
    object["epochs"] = epochs;
  return object.dump();
}

} // namespace fcdp::run
