// SPDX-License-Identifier: Apache-2.0
#include "StepStats.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace fcdp::run {

namespace {

double RankStats::*const kNumbers[] = {
    &RankStats::seconds,         &RankStats::interBytes,
    &RankStats::intraBytes,      &RankStats::h2dBytes,
    &RankStats::d2hBytes,        &RankStats::controlBytes,
    &RankStats::devicePeakBytes, &RankStats::systemAllocations};

double greatestOverNodes(const Mesh &mesh, const std::vector<RankStats> &ranks,
                         double RankStats::*number) {
  double greatest = 0;
  for (uint32_t node = 0; node < mesh.nodes; ++node) {
    double sum = 0;
    for (uint32_t local = 0; local < mesh.locals; ++local)
      sum += ranks[worldRank(mesh, {node, local})].*number;
    greatest = std::max(greatest, sum);
  }
  return greatest;
}

double meanLoss(const Mesh &mesh, const std::vector<RankStats> &ranks) {
  double sum = 0;
  for (uint32_t node = 0; node < mesh.nodes; ++node) {
    double nodeSum = 0;
    for (uint32_t local = 0; local < mesh.locals; ++local) {
      double rankSum = 0;
      for (double loss : ranks[worldRank(mesh, {node, local})].losses)
        rankSum += loss;
      nodeSum += rankSum;
    }
    sum += nodeSum;
  }
  return sum / (double(mesh.size()) * double(ranks[0].losses.size()));
}

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

std::vector<double> RankStats::pack() const {
  std::vector<double> values = losses;
  for (double RankStats::*number : kNumbers)
    values.push_back(this->*number);
  return values;
}

RankStats RankStats::unpack(std::span<const double> values) {
  size_t numLosses = values.size() - std::size(kNumbers);
  RankStats stats;
  stats.losses.assign(values.begin(), values.begin() + numLosses);
  for (size_t i = 0; i < std::size(kNumbers); ++i)
    stats.*kNumbers[i] = values[numLosses + i];
  return stats;
}

StepStats combine(const Mesh &mesh, const std::vector<RankStats> &ranks) {
  StepStats stats;
  stats.loss = meanLoss(mesh, ranks);
  auto perNode = [&](double RankStats::*number) {
    return greatestOverNodes(mesh, ranks, number);
  };
  stats.interBytes = perNode(&RankStats::interBytes);
  stats.intraBytes = perNode(&RankStats::intraBytes);
  stats.h2dBytes = perNode(&RankStats::h2dBytes);
  stats.d2hBytes = perNode(&RankStats::d2hBytes);
  stats.controlBytes = perNode(&RankStats::controlBytes);
  for (const RankStats &rank : ranks) {
    stats.seconds = std::max(stats.seconds, rank.seconds);
    stats.secondsOfRanks.push_back(rank.seconds);
    stats.devicePeakBytes =
        std::max(stats.devicePeakBytes, rank.devicePeakBytes);
    stats.systemAllocations += rank.systemAllocations;
  }
  return stats;
}

std::string toLine(const StepStats &stats) {
  char start[96];
  std::snprintf(start, sizeof(start), "step %lld  loss %.8g  %.3f s",
                static_cast<long long>(stats.step), stats.loss, stats.seconds);
  return std::string(start) + "  inter " + bytesText(stats.interBytes) +
         "  intra " + bytesText(stats.intraBytes) + "  h2d " +
         bytesText(stats.h2dBytes) + "  d2h " + bytesText(stats.d2hBytes) +
         "  host cache " + bytesText(stats.hostCacheBytes) + "  peak " +
         bytesText(stats.devicePeakBytes);
}

std::string toJson(const StepStats &stats) {
  auto whole = [](double number) { return static_cast<uint64_t>(number); };
  nlohmann::ordered_json object = {
      {"step", stats.step},
      {"loss", stats.loss},
      {"seconds", stats.seconds},
      {"inter_bytes_sent", whole(stats.interBytes)},
      {"intra_bytes_sent", whole(stats.intraBytes)},
      {"h2d_bytes", whole(stats.h2dBytes)},
      {"d2h_bytes", whole(stats.d2hBytes)},
      {"control_bytes", whole(stats.controlBytes)},
      {"device_peak_bytes", whole(stats.devicePeakBytes)},
      {"host_cache_bytes", whole(stats.hostCacheBytes)},
      {"system_allocations", whole(stats.systemAllocations)}};
  return object.dump();
}

} // namespace fcdp::run
