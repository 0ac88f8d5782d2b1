// SPDX-License-Identifier: Apache-2.0
//
// Measures copies and collectives of all ranks at once.
#pragma once

#include "probe/Prober.h"
#include "probe/Steady.h"

#include <functional>
#include <optional>
#include <vector>

namespace fcdp::probe {

/// The scatter of the times of a link's largest and of its least transfers, as
/// takeSteady returns it.
struct LinkScatter {
  double bandwidth = 0, latency = 0;
};

/// Measures links. Used by one thread of each rank. All ranks call the same
/// functions in the same order. Functions raise a scatter argument to the value
/// that they find.
class LinkProbe {
public:
  LinkProbe(Prober &prober, Job &job) : prober(prober), job(job) {}

  /// Measures copies between device and host.
  SharedLink measureCopies(StreamId stream, LinkScatter &scatter);
  /// Measures collectives along an axis of `ranks`.
  SharedLink measureCollectives(AxisId axis, StreamId stream, uint32_t ranks,
                                ProbedCollectives &measured,
                                LinkScatter &scatter);

  /// Issues gathers of `link` along `axis` that take about `seconds` if nothing
  /// else runs. Does not wait for them.
  void issueGathers(AxisId axis, StreamId stream, const SharedLink &link,
                    double seconds);

  /// Returns the bytes per second of a node's memory, if copies in both
  /// directions at once take longer than copies in one.
  std::optional<double> measureBothWays(const SharedLink &h2d,
                                        const SharedLink &d2h);

private:
  /// A transfer of a given size, and the axis along which it is a collective.
  struct Transfer {
    StreamId stream;
    std::function<void(size_t bytes)> issue;
    size_t mostBytes;
    std::optional<AxisId> axis;
    /// The number of times that a link has to carry each byte.
    double perByte = 1;
  };

  SteadyTime timeTransfer(const Transfer &transfer, size_t bytes, int inRow,
                          std::optional<uint32_t> onlyLocal = {});
  /// Returns the seconds of `work` on these streams: the median over runs of
  /// the mean over ranks.
  double timeCopies(std::initializer_list<StreamId> streams, const Work &work);
  uint32_t findSharers(const Transfer &transfer, size_t bytes,
                       double secondsOfAll);
  std::vector<TimedSize> measureSizes(const Transfer &transfer,
                                      LinkScatter &scatter);
  SharedLink measureLink(const Transfer &transfer,
                         const std::vector<TimedSize> &times);
  Collective makeCollective(AxisId axis, StreamId stream);

  Prober &prober;
  Job &job;
};

} // namespace fcdp::probe
