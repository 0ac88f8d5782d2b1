// SPDX-License-Identifier: Apache-2.0
//
// Prepares an operation of the plan as far as possible when the step is loaded.
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

/// Prepares an operation, which messages call `what`. Throws std::runtime_error
/// without the operation's name, which the caller adds.
std::unique_ptr<PreparedOp> prepare(const plan::OpT &op, const char *what,
                                    StepState &state);

std::unique_ptr<PreparedOp> prepareAtenCall(const plan::AtenCallT &call);
std::unique_ptr<PreparedOp> prepareTensorOp(const plan::WriteBufferT &op,
                                            StepState &state);
std::unique_ptr<PreparedOp> prepareTensorOp(const plan::LossT &op,
                                            StepState &state);
std::unique_ptr<PreparedOp> prepareTensorOp(const plan::CastT &op,
                                            StepState &state);
std::unique_ptr<PreparedOp> prepareTensorOp(const plan::PackBucketT &op,
                                            StepState &state);
std::unique_ptr<PreparedOp> prepareTensorOp(const plan::AccumulateT &op,
                                            StepState &state);
std::unique_ptr<PreparedOp> prepareTensorOp(const plan::AddT &op,
                                            StepState &state);
std::unique_ptr<PreparedOp> prepareUnscaling(const char *what,
                                             StepState &state);
std::unique_ptr<PreparedOp> prepareClipping(const plan::ClipGradientsT &op,
                                            const char *what, StepState &state);
std::unique_ptr<PreparedOp> prepareUpdate(const plan::ShardUpdateT &op,
                                          StepState &state);
std::unique_ptr<PreparedOp> prepareOuter(const plan::OuterDifferenceT &op,
                                         StepState &state);
std::unique_ptr<PreparedOp> prepareOuter(const plan::OuterUpdateT &op,
                                         StepState &state);
/// Prepares an operation that the backend queues: a collective, a copy, a sum
/// on another stream, or an event.
std::unique_ptr<PreparedOp> prepareQueued(const plan::OpT &op, const char *what,
                                          StepState &state);

} // namespace fcdp
