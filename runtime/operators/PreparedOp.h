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

/// Declares an overload for each table of the union OpBody, which is defined
/// beside its class. One that is not defined does not link. `what` is the
/// operation's name in messages.
#define FCDP_DECLARE_OP(Table)                                                 \
  PreparedOpPtr prepare(const plan::Table &op, const char *what,               \
                        StepState &state);
FCDP_PLAN_OPS(FCDP_DECLARE_OP)
#undef FCDP_DECLARE_OP

/// For a table of several kinds, they take the kind.
PreparedOpPtr prepare(const plan::EventT &op,
                      plan::Kind<plan::OpBody::record> kind, StepState &state);
PreparedOpPtr prepare(const plan::EventT &op,
                      plan::Kind<plan::OpBody::wait> kind, StepState &state);

} // namespace fcdp
