// SPDX-License-Identifier: Apache-2.0
//
// An operation of the manifest, resolved as far as can be done at load.
#pragma once

#include "operators/StepState.h"

#include <memory>

namespace fcdp {

/// Used by the issuing thread only; `run` throws on errors.
class PreparedOp {
public:
  virtual ~PreparedOp() = default;
  virtual void run(StepState &state) = 0;
};

/// Resolves an operation. Throws std::runtime_error without the operation's
/// name, which the caller has.
std::unique_ptr<PreparedOp> prepare(const Op &op, StepState &state);

std::unique_ptr<PreparedOp> prepareAtenCall(const ops::AtenCall &call);
std::unique_ptr<PreparedOp> prepareTensorOp(const ops::WriteBuffer &op,
                                            StepState &state);
std::unique_ptr<PreparedOp> prepareTensorOp(const ops::Loss &op,
                                            StepState &state);
std::unique_ptr<PreparedOp> prepareTensorOp(const ops::Cast &op,
                                            StepState &state);
std::unique_ptr<PreparedOp> prepareTensorOp(const ops::Pack &op,
                                            StepState &state);
std::unique_ptr<PreparedOp> prepareTensorOp(const ops::Accumulate &op,
                                            StepState &state);
std::unique_ptr<PreparedOp> prepareTensorOp(const ops::Add &op,
                                            StepState &state);
std::unique_ptr<PreparedOp> prepareClipping(const Op &op, StepState &state);
std::unique_ptr<PreparedOp> prepareUpdate(const ops::ShardUpdate &op,
                                          StepState &state);
/// Collectives, copies, sums on other streams and events: what the backend
/// queues.
std::unique_ptr<PreparedOp> prepareQueued(const Op &op, StepState &state);

} // namespace fcdp
