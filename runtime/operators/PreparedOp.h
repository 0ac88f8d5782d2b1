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

using PreparedOpPtr = std::unique_ptr<PreparedOp>;

/// Prepares an operation, which messages call `what`. Throws std::runtime_error
/// without the operation's name, which the caller adds.
PreparedOpPtr prepare(const plan::OpT &op, const char *what, StepState &state);

/// One for each table of the union OpBody, beside its class. A table without
/// one does not compile. An operation of several ranks takes its name in
/// messages, and one whose table has several kinds takes the kind.
PreparedOpPtr prepare(const plan::AtenCallT &op, StepState &state);
PreparedOpPtr prepare(const plan::WriteBufferT &op, StepState &state);
PreparedOpPtr prepare(const plan::LossT &op, StepState &state);
PreparedOpPtr prepare(const plan::CastT &op, StepState &state);
PreparedOpPtr prepare(const plan::PackBucketT &op, StepState &state);
PreparedOpPtr prepare(const plan::AccumulateT &op, StepState &state);
PreparedOpPtr prepare(const plan::AddT &op, StepState &state);
PreparedOpPtr prepare(const plan::UnscaleGradientsT &op, const char *what,
                      StepState &state);
PreparedOpPtr prepare(const plan::ClipGradientsT &op, const char *what,
                      StepState &state);
PreparedOpPtr prepare(const plan::ShardUpdateT &op, StepState &state);
PreparedOpPtr prepare(const plan::OuterDifferenceT &op, StepState &state);
PreparedOpPtr prepare(const plan::OuterUpdateT &op, StepState &state);
PreparedOpPtr prepare(const plan::AllGatherT &op, const char *what,
                      StepState &state);
PreparedOpPtr prepare(const plan::ReduceScatterT &op, const char *what,
                      StepState &state);
PreparedOpPtr prepare(const plan::CacheCopyT &op, StepState &state);
PreparedOpPtr prepare(const plan::EventT &op,
                      plan::Kind<plan::OpBody::record> kind, StepState &state);
PreparedOpPtr prepare(const plan::EventT &op,
                      plan::Kind<plan::OpBody::wait> kind, StepState &state);

} // namespace fcdp
