// SPDX-License-Identifier: Apache-2.0
//
// A session's state as PyTorch's DTensor places it: each rank has some rows.
#pragma once

#include "session/StateByName.h"

namespace fcdp {

/// Elements [first, first + count) of a tensor.
struct ElementRange {
  int64_t first = 0, count = 0;
};

/// Returns the elements that rank `rank` of `ranks` has of a tensor whose
/// placement is Shard(0): its first dimension is divided as torch.chunk divides
/// it. A tensor without dimensions is whole on each rank.
ElementRange rowsOf(const Shape &shape, uint32_t rank, uint32_t ranks);

/// Returns the number of rows in them, of a tensor with dimensions.
int64_t numRowsOf(const Shape &shape, uint32_t rank, uint32_t ranks);

/// Called by all ranks: collects this rank's rows of a parameter's state in
/// `out`, or a buffer as rank 0 has it.
void gatherRows(const StepPlan &plan, Job &job, Step &step,
                const NamedState &state, std::byte *out);

/// Called by all ranks: sets a parameter's state from the rows of all ranks,
/// or the own copy of a buffer. A master and its parameter are set together.
void scatterRows(const StepPlan &plan, Job &job, Step &step,
                 const NamedState &state, const std::byte *value);

} // namespace fcdp
