// SPDX-License-Identifier: Apache-2.0
#include "probe/DeviceTimer.h"

#include "probe/RandomMatrix.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>
#include <algorithm>
#include <cmath>

namespace fcdp::probe {

/// The seconds of work before the work that is measured.
static constexpr double kBacklogSeconds = 4e-3;
/// The least time of a kernel that counts, as a share of its time with the gap.
static constexpr double kLeastShare = 0.05;

double timeEach(const DeviceTimer &time, const Work &before, int count,
                const Work &work) {
  work();
  return time(before,
              [&] {
                for (int i = 0; i < count; ++i)
                  work();
              }) /
         count;
}

double withoutGap(double seconds, double gap) {
  return std::max(seconds - gap, kLeastShare * seconds);
}

Work makeBacklog(c10::Device device, const DeviceTimer &time) {
  for (int64_t rows = kLeastRowsOfGpu;; rows *= 2) {
    at::Tensor left = makeRandomMatrix(device, DType::F32, rows, rows),
               out = at::empty_like(left);
    Work work = [=]() mutable { at::mm_out(out, left, left); };
    double seconds = timeEach(time, [] {}, 2, work);
    if (seconds < kBacklogSeconds / 4 && rows < kMostRowsOfGpu)
      continue;
    auto count = int(std::ceil(kBacklogSeconds / std::max(seconds, 1e-6)));
    return [=] {
      for (int i = 0; i < count; ++i)
        work();
    };
  }
}

} // namespace fcdp::probe
