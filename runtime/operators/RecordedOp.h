// SPDX-License-Identifier: Apache-2.0
//
// Operations that report their times to a recorder.
#pragma once

#include "operators/PreparedOp.h"
#include "streams/StepRecorder.h"

namespace fcdp {

/// Wraps the prepared operation of `plan.ops[index]` to record its times. A
/// record is returned unchanged.
std::unique_ptr<PreparedOp> makeRecorded(std::unique_ptr<PreparedOp> op,
                                         const StepPlan &plan, size_t index,
                                         StepRecorder &recorder);

/// Returns the operation that `makeRecorded` has wrapped, or `op` itself.
std::unique_ptr<PreparedOp> withoutRecord(std::unique_ptr<PreparedOp> op);

/// Returns the operator's name as the compiler spells it: "aten.add.Tensor".
/// For a call that writes to its argument `out`, it is the operator that makes
/// new memory.
std::string operatorName(const plan::AtenCallT &call);

} // namespace fcdp
