// SPDX-License-Identifier: Apache-2.0
//
// A part of a rank's shard, which an optimizer updates at once.
#pragma once

#include "optimizers/UpdateSegments.h"

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

namespace fcdp {

/// Tensors of a part. Few enough to be copied without an allocation.
using PartTensors = c10::SmallVector<at::Tensor, 4>;

/// A segment of the shard, of its gradients and of the optimizer's states.
struct UpdatePart {
  UpdateSegment segment;
  at::Tensor parameter;
  /// In the parameter's type.
  at::Tensor grad;
  /// The same gradients in f32, in memory that the update may overwrite;
  /// undefined for a piece.
  at::Tensor sum;
  /// In the order of the attribute `states` of the optimizer's table.
  PartTensors states;
  /// Scratch memory of as many elements, if the part is a piece.
  PartTensors memories;
};

/// Returns the part of a state that belongs to elements [begin, begin +
/// elements) of `all` elements, which it covers in blocks of equal size.
at::Tensor cutState(const at::Tensor &state, int64_t all, int64_t begin,
                    int64_t elements);

} // namespace fcdp
