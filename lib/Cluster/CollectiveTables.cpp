// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Cluster/CollectiveTables.h"

#include "llvm/Support/ErrorHandling.h"

#include <algorithm>

using namespace fcdp;

const char *fcdp::stringify(RankSet set) {
  switch (set) {
  case RankSet::world:
    return "world";
  case RankSet::node:
    return "node";
  case RankSet::local:
    return "local";
  }
  llvm_unreachable("unknown set of ranks");
}

const char *fcdp::stringify(CollectiveKind kind) {
  return kind == CollectiveKind::allGather ? "all_gather" : "reduce_scatter";
}

bool BusTable::set(int64_t nodes, double bytes, double rate) {
  std::vector<RateCurve::Point> &points = curves[nodes].points;
  auto at = std::lower_bound(
      points.begin(), points.end(), bytes,
      [](const RateCurve::Point &point, double x) { return point.size < x; });
  bool isNew = at == points.end() || at->size != bytes;
  if (isNew)
    points.insert(at, {bytes, rate});
  else
    at->rate = rate;
  return isNew;
}

void BusTable::scale(int64_t nodes, double factor) {
  auto found = curves.find(nodes);
  if (found == curves.end())
    return;
  for (RateCurve::Point &point : found->second.points)
    point.rate *= factor;
}

static BusBandwidth readSizes(const RateCurve &curve, double bytes) {
  const RateCurve::Point &smallest = curve.points.front();
  auto most = std::max_element(
      curve.points.begin(), curve.points.end(),
      [](const RateCurve::Point &a, const RateCurve::Point &b) {
        return a.rate < b.rate;
      });
  double rate = bytes < smallest.size ? smallest.rate * (bytes / smallest.size)
                                      : curve.read(bytes);
  return {rate, most->rate};
}

std::optional<BusBandwidth> BusTable::read(double bytes, int64_t nodes) const {
  RateCurve rates, peaks;
  for (const auto &[measured, curve] : curves) {
    if ((measured == 1) != (nodes == 1))
      continue;
    BusBandwidth found = readSizes(curve, bytes);
    rates.points.push_back({static_cast<double>(measured), found.rate});
    peaks.points.push_back({static_cast<double>(measured), found.peak});
  }
  if (rates.empty() || bytes <= 0)
    return std::nullopt;
  return BusBandwidth{rates.read(nodes), peaks.read(nodes)};
}

std::optional<BusBandwidth> CollectiveTables::read(RankSet set,
                                                   CollectiveKind kind,
                                                   double bytes,
                                                   int64_t nodes) const {
  auto found = readKind(set, kind, bytes, nodes);
  if (found)
    return found;
  return readKind(set,
                  kind == CollectiveKind::allGather
                      ? CollectiveKind::reduceScatter
                      : CollectiveKind::allGather,
                  bytes, nodes);
}

std::optional<BusBandwidth> CollectiveTables::readKind(RankSet set,
                                                       CollectiveKind kind,
                                                       double bytes,
                                                       int64_t nodes) const {
  if (set == RankSet::local || (set == RankSet::world && nodes == 1)) {
    RankSet first = set,
            second = set == RankSet::local ? RankSet::world : RankSet::local;
    auto found = get(first).get(kind).read(bytes, 1);
    return found ? found : get(second).get(kind).read(bytes, 1);
  }
  auto found = get(set).get(kind).read(bytes, nodes);
  if (found || set == RankSet::world)
    return found;
  double groups = static_cast<double>(ranksPerNode);
  found = world.get(kind).read(groups * bytes, nodes);
  if (found)
    found = BusBandwidth{found->rate / groups, found->peak / groups};
  return found;
}
