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

/// Declares the overload for a table of the union OpBody, which is defined
/// beside the operation's class. `what` is the operation's name in messages.
/// The visitor in PreparedOp.cpp does not compile without a table's overload.
#define FCDP_DECLARE_OP(Table)                                                 \
  PreparedOpPtr prepare(const plan::Table &op, const char *what,               \
                        StepState &state);
FCDP_DECLARE_OP(AtenCallT)
FCDP_DECLARE_OP(WriteBufferT)
FCDP_DECLARE_OP(LossT)
FCDP_DECLARE_OP(CastT)
FCDP_DECLARE_OP(PackBucketT)
FCDP_DECLARE_OP(AccumulateT)
FCDP_DECLARE_OP(AddT)
FCDP_DECLARE_OP(ClipGradientsT)
FCDP_DECLARE_OP(ShardUpdateT)
FCDP_DECLARE_OP(AllGatherT)
FCDP_DECLARE_OP(ReduceScatterT)
FCDP_DECLARE_OP(CacheCopyT)
FCDP_DECLARE_OP(UnscaleGradientsT)
FCDP_DECLARE_OP(OuterDifferenceT)
FCDP_DECLARE_OP(OuterUpdateT)
#undef FCDP_DECLARE_OP

/// For a table of several kinds, they take the kind.
PreparedOpPtr prepare(const plan::EventT &op,
                      plan::Kind<plan::OpBody::record> kind, StepState &state);
PreparedOpPtr prepare(const plan::EventT &op,
                      plan::Kind<plan::OpBody::wait> kind, StepState &state);

} // namespace fcdp
