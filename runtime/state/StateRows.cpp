// SPDX-License-Identifier: Apache-2.0
#include "state/StateRows.h"

#include "checkpoint/Shards.h"
#include "state/CommonPart.h"

#include <algorithm>
#include <cstring>

namespace fcdp {

namespace {

constexpr const char *kRows = "exchange of rows";

/// The elements that two ranges have in common, with their position in each.
struct Overlap {
  size_t inPart, inRows, elements;
};

Overlap overlapOf(const ShardRange &part, const ElementRange &rows) {
  int64_t first = std::max(part.inParameter, rows.first);
  int64_t end =
      std::min(part.inParameter + part.elements, rows.first + rows.count);
  if (end <= first)
    return {0, 0, 0};
  return {size_t(part.inShard + first - part.inParameter),
          size_t(first - rows.first), size_t(end - first)};
}

/// The transfers of one rank between its part of a bucket and rows. Used by
/// one thread.
class RowExchange {
public:
  RowExchange(const StepPlan &plan, Job &job, Step &step,
              const NamedState &state)
      : plan(plan), mesh(plan.mesh), job(job), state(state),
        bucket(*plan.buckets[state.parameter->bucket]), step(step),
        ownRows(rowsOf(job.rank())), width(byteSize(state.dtype)) {}

  void gather(std::byte *out) {
    const CommonPart common(plan, job, step, bucket, state.role, *state.region);
    const std::byte *region = common.bytes().data();
    std::vector<uint32_t> owners = ownersOf(bucket, mesh);
    for (uint32_t part = 0; part < owners.size(); ++part) {
      ShardRange range = stateRangeOf(plan, *state.parameter, part, state.role);
      if (owners[part] != job.rank()) {
        Overlap own = overlapOf(range, ownRows);
        recvs.push_back(
            {owners[part], out + own.inRows * width, own.elements * width});
        continue;
      }
      for (uint32_t rank = 0; rank < mesh.size(); ++rank) {
        Overlap theirs = overlapOf(range, rowsOf(rank));
        const std::byte *from = region + theirs.inPart * width;
        if (rank == job.rank())
          copy(out + theirs.inRows * width, from, theirs);
        else
          sends.push_back({rank, from, theirs.elements * width});
      }
    }
    job.control().exchange(sends, recvs, kRows);
  }

  void scatter(const std::byte *value) {
    std::byte *region = step.region(*state.region).data();
    ShardRange own = partRangeOf(job.rank());
    for (uint32_t rank = 0; rank < mesh.size(); ++rank) {
      Overlap mine = overlapOf(own, rowsOf(rank));
      std::byte *to = region + mine.inPart * width;
      if (rank == job.rank()) {
        copy(to, value + mine.inRows * width, mine);
        continue;
      }
      recvs.push_back({rank, to, mine.elements * width});
      Overlap theirs = overlapOf(partRangeOf(rank), ownRows);
      sends.push_back(
          {rank, value + theirs.inRows * width, theirs.elements * width});
    }
    job.control().exchange(sends, recvs, kRows);
  }

private:
  ElementRange rowsOf(uint32_t rank) const {
    return fcdp::rowsOf(state.shape, rank, mesh.size());
  }
  ShardRange partRangeOf(uint32_t rank) const {
    return stateRangeOf(plan, *state.parameter,
                        partOf(bucket.sharding, mesh, placeOf(mesh, rank)),
                        state.role);
  }
  void copy(std::byte *to, const std::byte *from, const Overlap &overlap) {
    if (overlap.elements != 0)
      std::memcpy(to, from, overlap.elements * width);
  }

  const StepPlan &plan;
  const Mesh &mesh;
  Job &job;
  const NamedState &state;
  const plan::BucketT &bucket;
  Step &step;
  const ElementRange ownRows;
  const size_t width;
  std::vector<Send> sends;
  std::vector<Recv> recvs;
};

} // namespace

/// Returns the number of rows of each rank, except for the last ones.
static int64_t chunkOf(const Shape &shape, uint32_t ranks) {
  return (shape[0] + ranks - 1) / ranks;
}

/// Returns the first of a rank's rows.
static int64_t firstRowOf(const Shape &shape, uint32_t rank, uint32_t ranks) {
  return std::min(shape[0], int64_t(rank) * chunkOf(shape, ranks));
}

int64_t numRowsOf(const Shape &shape, uint32_t rank, uint32_t ranks) {
  return std::min(chunkOf(shape, ranks),
                  shape[0] - firstRowOf(shape, rank, ranks));
}

ElementRange rowsOf(const Shape &shape, uint32_t rank, uint32_t ranks) {
  if (shape.empty())
    return {0, 1};
  int64_t width = numElements(Shape(shape.begin() + 1, shape.end()));
  return {firstRowOf(shape, rank, ranks) * width,
          numRowsOf(shape, rank, ranks) * width};
}

void gatherRows(const StepPlan &plan, Job &job, Step &step,
                const NamedState &state, std::byte *out) {
  if (state.parameter)
    return RowExchange(plan, job, step, state).gather(out);
  std::span<std::byte> own = step.buffer(state.buffer);
  if (job.rank() != 0) {
    Recv whole{0, out, own.size()};
    return job.control().exchange({}, {&whole, 1}, kRows);
  }
  std::copy(own.begin(), own.end(), out);
  std::vector<Send> sends;
  for (uint32_t rank = 1; rank < plan.mesh.size(); ++rank)
    sends.push_back({rank, own.data(), own.size()});
  job.control().exchange(sends, {}, kRows);
}

void scatterRows(const StepPlan &plan, Job &job, Step &step,
                 const NamedState &state, const std::byte *value) {
  Place place = placeOf(plan.mesh, job.rank());
  // These states are whole on each rank.
  if (!state.parameter || state.shape.empty())
    return scatterState(plan, place, step, state, value);
  RowExchange(plan, job, step, state).scatter(value);
  updateMaster(plan, place, step, state);
}

} // namespace fcdp
