// SPDX-License-Identifier: Apache-2.0
//
// Replaces a recognized loss by fcdp.chunked_loss.
#pragma once

#include "Shard/LossHead.h"
#include "fcdp/Cluster/CostModel.h"
#include "fcdp/Planning/Loss/LossPlanning.h"

namespace fcdp {

/// Returns the sizes of the loss in these chunks.
LossShape getChunkedShape(const LossHead &head, const LossChunk &chunk);

/// Returns the cost of the loss in chunks, as costOfRecomputing does.
double costOfChunks(const LossHead &head, const LossShape &shape,
                    const CostModel *model);

/// Replaces all calls of the loss. Returns the one that computes it.
aten::CallOp rewriteLoss(LossHead &head, const LossChunk &chunk);

} // namespace fcdp
