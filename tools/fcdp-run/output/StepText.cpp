// SPDX-License-Identifier: Apache-2.0
#include "output/StepText.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

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

/// Returns, for example, "950", "12.3k" or "4.56M".
std::string countText(double number) {
  constexpr const char *units[] = {"", "k", "M", "G"};
  size_t unit = 0;
  while (number >= 1000 && unit + 1 < std::size(units)) {
    number /= 1000;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof(text), "%.*f%s",
                unit == 0 || number >= 100 ? 0
                : number >= 10             ? 1
                                           : 2,
                number, units[unit]);
  return text;
}

/// Returns, for example, "0:05", "12:30" or "3:00:00".
std::string durationText(double seconds) {
  constexpr int64_t minute = 60, hour = 60 * minute;
  constexpr double most = 1e15; // seconds; as an integer it is still right
  auto whole = int64_t(std::clamp(std::ceil(seconds), 0.0, most));
  char text[64];
  if (whole < hour)
    std::snprintf(text, sizeof(text), "%lld:%02lld",
                  static_cast<long long>(whole / minute),
                  static_cast<long long>(whole % minute));
  else
    std::snprintf(text, sizeof(text), "%lld:%02lld:%02lld",
                  static_cast<long long>(whole / hour),
                  static_cast<long long>(whole % hour / minute),
                  static_cast<long long>(whole % minute));
  return text;
}

template <typename... Values>
std::string formatted(const char *format, Values... values) {
  char text[96];
  std::snprintf(text, sizeof(text), format, values...);
  return text;
}

} // namespace

std::string toText(const StepFigures &figures) {
  const StepStats &stats = figures.stats;
  std::string line = formatted("step %lld  loss %.8g  lr %.4g",
                               static_cast<long long>(stats.step), stats.loss,
                               stats.learningRate);
  if (stats.lossScale)
    line += formatted("  scale %.8g", *stats.lossScale);
  if (stats.weight)
    line += formatted("  weight %.8g", *stats.weight);
  if (stats.variant)
    line += "  variant " + std::to_string(*stats.variant);
  for (size_t i = 0; i < figures.epochs.size(); ++i)
    line += (i == 0 ? "  epoch " : ":") + std::to_string(figures.epochs[i]);
  if (stats.gradientNorm)
    line += formatted("  norm %.4g", *stats.gradientNorm);
  if (stats.skipped)
    line += "  skipped (" + std::to_string(stats.skippedSteps) + ")";
  line += formatted("\n  %.3f s", stats.seconds);
  if (figures.tokensPerSecond)
    line += "  " + countText(*figures.tokensPerSecond) + " tok/s";
  if (stats.exposedSeconds && stats.seconds > 0)
    line += formatted("  exposed %.0f%%",
                      100 * *stats.exposedSeconds / stats.seconds);
  return line + "  left " + durationText(figures.secondsLeft);
}

namespace {

std::string describeLinks(const StepStats &stats) {
  std::string text;
  for (LinkId link : kLinks)
    text += std::string(link == LinkId::H2D ? "\n  " : "  ") +
            kLinkNames[link] + " " + bytesText(stats.linkBytes[link]);
  return text;
}

} // namespace

std::string describeBytes(const StepStats &stats) {
  return describeLinks(stats) + "\n  host cache " +
         bytesText(stats.hostCacheBytes) + "  peak " +
         bytesText(stats.devicePeakBytes);
}

std::string toText(const EvaluationFigures &figures) {
  const StepStats &stats = figures.stats;
  return formatted("step %lld  evaluation loss %.8g  batches %lld\n  %.3f s",
                   static_cast<long long>(stats.step), stats.loss,
                   static_cast<long long>(figures.batches), stats.seconds) +
         describeLinks(stats);
}

std::string describeSaving(const std::string &folder, uint64_t copyBytes) {
  if (copyBytes == 0)
    return "saving to " + folder + "  copies are in a file of --state-path";
  return "saving to " + folder + "  copies take " +
         bytesText(double(copyBytes)) + " of host memory per node";
}

std::string toLine(const SavedCheckpoint &saved) {
  char times[96];
  std::snprintf(times, sizeof(times), "  waited %.3f s  written in %.3f s  ",
                saved.exposedSeconds, saved.writeSeconds);
  return "saved " + saved.path + times + bytesText(double(saved.bytes));
}

namespace {

uint64_t whole(double number) { return static_cast<uint64_t>(number); }

void addLinks(nlohmann::ordered_json &object, const StepStats &stats) {
  for (LinkId link : kLinks)
    object[kLinkFigures[link]] = whole(stats.linkBytes[link]);
}

nlohmann::ordered_json toObject(const StepFigures &figures) {
  const StepStats &stats = figures.stats;
  nlohmann::ordered_json object = {{"step", stats.step},
                                   {"loss", stats.loss},
                                   {"learning_rate", stats.learningRate},
                                   {"seconds", stats.seconds},
                                   {"seconds_left", figures.secondsLeft}};
  addLinks(object, stats);
  object["control_bytes"] = whole(stats.controlBytes);
  object["device_peak_bytes"] = whole(stats.devicePeakBytes);
  object["host_cache_bytes"] = whole(stats.hostCacheBytes);
  object["system_allocations"] = whole(stats.systemAllocations);
  object["skipped_steps"] = stats.skippedSteps;
  for (const auto &[key, number] :
       {std::pair("loss_scale", stats.lossScale),
        std::pair("loss_weight", stats.weight),
        std::pair("gradient_norm", stats.gradientNorm),
        std::pair("tokens_per_second", figures.tokensPerSecond),
        std::pair("exposed_seconds", stats.exposedSeconds)})
    if (number)
      object[key] = *number;
  if (stats.variant)
    object["variant"] = *stats.variant;
  if (figures.epochs.size() == 1)
    object["epoch"] = figures.epochs[0];
  else if (!figures.epochs.empty())
    object["epochs"] = figures.epochs;
  return object;
}

} // namespace

std::string toJson(const StepFigures &figures) {
  return toObject(figures).dump();
}

std::vector<std::pair<std::string, float>>
toScalars(const StepFigures &figures) {
  const nlohmann::ordered_json object = toObject(figures);
  std::vector<std::pair<std::string, float>> scalars;
  for (const auto &[name, value] : object.items())
    if (value.is_number() && name != "step")
      scalars.emplace_back(name, value.get<float>());
  return scalars;
}

std::string toJson(const EvaluationFigures &figures) {
  const StepStats &stats = figures.stats;
  nlohmann::ordered_json object = {{"step", stats.step},
                                   {"evaluation_loss", stats.loss},
                                   {"batches", figures.batches},
                                   {"seconds", stats.seconds}};
  addLinks(object, stats);
  object["device_peak_bytes"] = whole(stats.devicePeakBytes);
  if (stats.weight)
    object["loss_weight"] = *stats.weight;
  return object.dump();
}

} // namespace fcdp::run
