// SPDX-License-Identifier: Apache-2.0
//
// Accesses a session's state by the names of parameters and buffers.
#pragma once

#include "job/Job.h"
#include "plan/StepPlan.h"
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
  /// All names; a tied parameter has several.
  std::vector<std::string> names;
  plan::StateRole role;
  DType dtype;
  Shape shape;
  /// Whether PyTorch's state dicts have it. Only buffers may not be in them.
  bool persistent = true;
};

/// Returns all states that `findState` finds, each once.
std::vector<StateInfo> listStates(const StepPlan &plan);

/// Returns the role of a named state as PyTorch's optimizers spell it,
/// "exp_avg", or "value" for a parameter's or a buffer's value (`shard`).
const char *roleName(plan::StateRole role);
/// Returns the role of that name. Throws SessionError(Misuse) if there is none.
plan::StateRole stateRoleOf(const std::string &name);

/// Returns the state. Throws SessionError(Misuse) if the step has no such
/// state.
NamedState findState(const StepPlan &plan, const std::string &name,
                     plan::StateRole role);

/// Copies the part of `value`, a whole tensor, that `place` owns. A parameter
/// with a master sets the master, too, and the master sets the parameter,
/// rounded.
void scatterState(const StepPlan &plan, Place place, Step &step,
                  const NamedState &state, const std::byte *value);

/// Updates a parameter from its master, or the master from the parameter, after
/// this rank's part of the other was set. Does nothing without a master.
void updateMaster(const StepPlan &plan, Place place, Step &step,
                  const NamedState &state);

/// Collects a whole state in `out` on rank 0. All ranks must call it. If each
/// node has its own parameters, here and below, the result is their mean over
/// nodes; for other states that each node has for itself, it is the first
/// node's.
void gatherState(const StepPlan &plan, Job &job, Step &step,
                 const NamedState &state, std::byte *out);

/// Returns a bucket's parts on rank 0, in their order, and nothing on other
/// ranks. All ranks must call it.
std::vector<std::byte> gatherShards(const StepPlan &plan, Job &job, Step &step,
                                    size_t bucket);

} // namespace fcdp
