// SPDX-License-Identifier: Apache-2.0
//
// Places a session's state as PyTorch's DTensor does: each rank has some rows.
#pragma once

#include "state/StateByName.h"

namespace fcdp {

/// Elements [first, first + count) of a tensor.
struct ElementRange {
  int64_t first = 0, count = 0;
};

/// Returns the elements that rank `rank` of `ranks` has of a tensor whose
/// placement is Shard(0): its first dimension is divided as by torch.chunk. A
/// tensor without dimensions is whole on each rank.
ElementRange rowsOf(const Shape &shape, uint32_t rank, uint32_t ranks);

/// Returns the number of rows of a tensor with dimensions that the rank has.
int64_t numRowsOf(const Shape &shape, uint32_t rank, uint32_t ranks);

/// Collects this rank's rows of a parameter's state in `out`, or a buffer of
/// rank 0. All ranks must call it.
void gatherRows(const StepPlan &plan, Job &job, Step &step,
                const NamedState &state, std::byte *out);

/// Sets a parameter's state from the rows of all ranks, or this rank's copy of
/// a buffer. All ranks must call it. A master and its parameter are set
/// together.
void scatterRows(const StepPlan &plan, Job &job, Step &step,
                 const NamedState &state, const std::byte *value);

} // namespace fcdp
