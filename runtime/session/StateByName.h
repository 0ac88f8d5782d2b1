// SPDX-License-Identifier: Apache-2.0
//
// A session's state by the names of parameters and buffers.
#pragma once

#include "collectives/Job.h"
#include "session/NamedTensor.h"
#include "step/Step.h"

namespace fcdp {

/// The state that a name refers to: a parameter or a buffer.
struct NamedState {
  const plan::ParameterT *parameter = nullptr;
  size_t buffer = 0;
  /// The region of the parameter's bucket; null for a buffer.
  const plan::Buf *region = nullptr;
  DType dtype = DType::F32;
  Shape shape = {};
  plan::StateRole role = plan::StateRole::shard;

  size_t bytes() const { return numElements(shape) * byteSize(dtype); }
};

/// A parameter, a buffer, or a parameter's optimizer state.
struct StateInfo {
  /// All names of a tied parameter.
  std::vector<std::string> names;
  StateRole role;
  DType dtype;
  Shape shape;
  /// False for a buffer that PyTorch's state dicts do not have.
  bool persistent = true;
};

/// All that `findState` finds, each once.
std::vector<StateInfo> listStates(const StepPlan &plan);

/// "exp_avg", ...: the role as PyTorch's optimizers spell it.
const char *name(StateRole role);
/// Throws SessionError(Misuse) for a name that no role has.
StateRole stateRoleOf(const std::string &name);

/// Throws SessionError(Misuse) if the step has no such state.
NamedState findState(const StepPlan &plan, const std::string &name,
                     StateRole role);

/// Copies what `place` owns of `value`, which is whole. A parameter that has a
/// master sets the master, too, and the master sets the parameter, rounded.
void scatterState(const StepPlan &plan, Place place, Step &step,
                  const NamedState &state, const std::byte *value);

/// After the own part of a parameter or its master was set: sets the other of
/// the two, if the parameter has a master.
void updateMaster(const StepPlan &plan, Place place, Step &step,
                  const NamedState &state);

/// Called by all ranks: collects the whole of a state in `out` on rank 0. Of
/// parameters that each node has for itself, here and below, it is the mean
/// over nodes, and of other such states the first node's.
void gatherState(const StepPlan &plan, Job &job, Step &step,
                 const NamedState &state, std::byte *out);

/// Called by all ranks: a bucket's parts on rank 0, in their order; nothing on
/// other ranks.
std::vector<std::byte> gatherShards(const StepPlan &plan, Job &job, Step &step,
                                    size_t bucket);

} // namespace fcdp
