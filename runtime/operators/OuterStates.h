// SPDX-License-Identifier: Apache-2.0
//
// Accesses the states of a bucket that outer steps synchronize.
#pragma once

#include "operators/StepState.h"

namespace fcdp {

/// Flat tensors over the states' places. Used by the issuing thread only.
struct OuterStates {
  OuterStates(uint32_t bucket, StepState &state)
      : outer(find(bucket, plan::StateRole::outer, state)),
        momentum(find(bucket, plan::StateRole::outer_momentum, state)),
        master(find(bucket, plan::StateRole::master, state)),
        shard(find(bucket, plan::StateRole::shard, state)) {}

  const at::Tensor &own() const { return master.defined() ? master : shard; }

  /// States in host memory; undefined tensors if there are no such states.
  const at::Tensor outer, momentum;
  const at::Tensor master, shard;

private:
  static at::Tensor find(uint32_t bucket, plan::StateRole role,
                         StepState &state) {
    const plan::State *found = findState(*state.plan.buckets[bucket], role);
    if (!found)
      return {};
    DType type = toDType(found->dtype());
    return tensorOver(state.address(found->buf()),
                      {int64_t(found->buf().bytes() / byteSize(type))}, type,
                      found->buf().arena() == plan::Arena::device
                          ? state.device
                          : at::Device(at::kCPU));
  }
};

} // namespace fcdp
