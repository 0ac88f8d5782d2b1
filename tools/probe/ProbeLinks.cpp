// SPDX-License-Identifier: Apache-2.0
#include "probe/ProbeLinks.h"

#include "session/OverRanks.h"

#include <algorithm>
#include <cmath>

namespace fcdp::probe {

namespace {

/// The bytes of copies that touch all memory first, and of copies in both
/// directions.
constexpr size_t kBlock = 4 << 20;
/// The seconds of copies in each of both directions, if they do not slow each
/// other down, and the factor from which on they do.
constexpr double kBothSeconds = 0.04, kSlowedDown = 1.1;
/// The seconds of consecutive transfers together.
constexpr double kRowSeconds = 0.01;
/// The bytes of a rank's part in gathers that run beside other work.
constexpr size_t kGathered = 1 << 20;
/// The resolution of the clock, for work that takes less.
constexpr double kLeastSeconds = 1e-9;

} // namespace

/// Returns the time of transfers by all ranks, or by one of each node, after
/// one that is not counted.
SteadyTime LinkProbe::timeTransfer(const Transfer &transfer, size_t bytes,
                                   int inRow,
                                   std::optional<uint32_t> onlyLocal) {
  bool isMine = !onlyLocal || *onlyLocal == job.place().local;
  if (isMine) {
    transfer.issue(bytes);
    prober.finish();
  }
  auto work = [&] {
    for (int i = 0; i < inRow; ++i)
      transfer.issue(bytes);
  };
  // The mean includes ranks that did nothing.
  const double factor =
      onlyLocal && !transfer.axis ? double(job.mesh().locals) : 1;
  auto sample = [&] {
    job.barrier("begin of a transfer of the probe");
    double own = isMine ? prober.time({transfer.stream}, work) / inRow : 0;
    return std::max(
        factor *
            secondsOverRanks(job.mesh(), transfer.axis,
                             job.gather({&own, 1}, "exchange of the probe")),
        kLeastSeconds);
  };
  return takeSteady(sample, prober.limits().leastSamples);
}

/// Returns the number of ranks that share a link. The ranks of a node make the
/// transfer one after the other, which took `secondsOfAll` when all made it at
/// once.
uint32_t LinkProbe::findSharers(const Transfer &transfer, size_t bytes,
                                double secondsOfAll) {
  std::vector<double> alone;
  for (uint32_t local = 0; local < job.mesh().locals; ++local)
    alone.push_back(timeTransfer(transfer, bytes, 1, local).seconds);
  return countSharers(secondsOfAll / medianOf(alone), job.mesh().locals);
}

std::vector<TimedSize> LinkProbe::measureSizes(const Transfer &transfer,
                                               LinkScatter &scatter) {
  const TransferLimits limits = prober.limits();
  std::vector<TimedSize> times;
  size_t bytes = std::min(kLeastTransfer, transfer.mostBytes);
  int inRow = limits.mostInRow;
  while (true) {
    SteadyTime found = timeTransfer(transfer, bytes, inRow);
    const double median = found.seconds;
    if (times.empty())
      scatter.latency = std::max(scatter.latency, found.scatter);
    times.push_back({double(bytes) * transfer.perByte, median});
    // All ranks have the same number.
    if (median > limits.longSeconds || bytes == transfer.mostBytes) {
      scatter.bandwidth = std::max(scatter.bandwidth, found.scatter);
      return times;
    }
    bytes = std::min(bytes * limits.growth, transfer.mostBytes);
    inRow = std::clamp(int(kRowSeconds / median), 1, limits.mostInRow);
  }
}

/// Returns the link with these times. The largest size shows how many ranks
/// share it.
SharedLink LinkProbe::measureLink(const Transfer &transfer,
                                  const std::vector<TimedSize> &times) {
  SharedLink link{fitLink(times)};
  size_t largest = std::llround(times.back().bytes / transfer.perByte);
  link.sharers = findSharers(transfer, largest, times.back().seconds);
  return link;
}

/// Returns a collective of all ranks along `axis`, without its results.
Collective LinkProbe::makeCollective(AxisId axis, StreamId stream) {
  Collective collective{};
  collective.axis = axis;
  collective.stream = stream;
  collective.in = prober.device().deviceBase();
  collective.inType = collective.outType = DType::F32;
  collective.what = axis == AxisId::Node    ? "probe of the link between nodes"
                    : axis == AxisId::Local ? "probe of the link within a node"
                                            : "probe of all links";
  return collective;
}

SharedLink LinkProbe::measureCollectives(AxisId axis, StreamId stream,
                                         uint32_t ranks,
                                         ProbedCollectives &measured,
                                         LinkScatter &scatter) {
  Backend &device = prober.device();
  const size_t most = prober.mostPart(ranks);
  Collective collective = makeCollective(axis, stream);
  Transfer gather{stream,
                  [&, collective](size_t bytes) mutable {
                    collective.out = device.deviceBase() + most;
                    collective.bytes = bytes;
                    device.allGather(collective);
                  },
                  most, axis, ranks - 1.0};
  Transfer reduction{stream,
                     [&, collective](size_t bytes) mutable {
                       collective.out = device.deviceBase() + ranks * most;
                       collective.scratch = collective.out + most;
                       collective.bytes = ranks * bytes;
                       device.reduceScatter(collective);
                     },
                     most, axis, ranks - 1.0};
  measured.gathers = measureSizes(gather, scatter);
  measured.reductions = measureSizes(reduction, scatter);
  // A gather within a node needs all ranks of the node.
  return axis == AxisId::Node ? measureLink(gather, measured.gathers)
                              : SharedLink{fitLink(measured.gathers)};
}

void LinkProbe::issueGathers(AxisId axis, StreamId stream,
                             const SharedLink &link, double seconds) {
  Collective gather = makeCollective(axis, stream);
  gather.bytes = std::min(kGathered, prober.mostPart(job.mesh().size()));
  gather.out = prober.device().deviceBase() + gather.bytes;
  const double each = double(gather.bytes) / link.each.bandwidth;
  for (int i = 0; i < int(std::ceil(seconds / each)); ++i)
    prober.device().allGather(gather);
}

SharedLink LinkProbe::measureCopies(StreamId stream, LinkScatter &scatter) {
  Backend &backend = prober.device();
  std::byte *host = backend.hostBase() + kProbeWindow * job.place().local;
  std::byte *device = backend.deviceBase();
  bool isStore = stream == StreamId::D2H;
  size_t at = 0;
  auto copy = [&](size_t bytes) {
    at = at + bytes > kProbeWindow ? 0 : at;
    backend.copy(stream, (isStore ? host : device) + at,
                 (isStore ? device : host) + at, bytes);
    at += bytes;
  };
  // Accessing memory for the first time takes longer.
  for (size_t done = 0; done < kProbeWindow; done += kBlock)
    copy(kBlock);
  prober.finish();
  Transfer transfer{stream, copy, prober.limits().mostCopied, std::nullopt};
  return measureLink(transfer, measureSizes(transfer, scatter));
}

double LinkProbe::timeCopies(std::initializer_list<StreamId> streams,
                             const Work &work) {
  return takeSteady([&] {
           job.barrier("begin of a transfer of the probe");
           return std::max(prober.mean(prober.time(streams, work)),
                           kLeastSeconds);
         })
      .seconds;
}

std::optional<double> LinkProbe::measureBothWays(const SharedLink &h2d,
                                                 const SharedLink &d2h) {
  Backend &backend = prober.device();
  // Each direction uses a half of both memories.
  std::byte *host = backend.hostBase() + kProbeWindow * job.place().local;
  std::byte *device = backend.deviceBase();
  constexpr size_t half = kProbeWindow / 2;
  auto count = [](const SharedLink &link) {
    return size_t(
        std::max(kBothSeconds * link.each.bandwidth / double(kBlock), 1.0));
  };
  const size_t loads = count(h2d), stores = count(d2h);
  auto copy = [&](size_t ofLoads, size_t ofStores) {
    for (size_t i = 0; i < std::max(ofLoads, ofStores); ++i) {
      size_t at = i * kBlock % half;
      if (i < ofLoads)
        backend.copy(StreamId::H2D, device + at, host + at, kBlock);
      if (i < ofStores)
        backend.copy(StreamId::D2H, host + half + at, device + half + at,
                     kBlock);
    }
  };
  double load = timeCopies({StreamId::H2D}, [&] { copy(loads, 0); }),
         store = timeCopies({StreamId::D2H}, [&] { copy(0, stores); }),
         both = timeCopies({StreamId::H2D, StreamId::D2H},
                           [&] { copy(loads, stores); });
  if (both < kSlowedDown * std::max(load, store))
    return std::nullopt;
  return double((loads + stores) * kBlock) * job.mesh().locals /
         std::min(both, load + store);
}

} // namespace fcdp::probe
