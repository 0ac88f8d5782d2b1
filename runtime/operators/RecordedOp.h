// SPDX-License-Identifier: Apache-2.0
//
// Operations that a recorder is told of.
#pragma once

#include "core/StepRecorder.h"
#include "operators/PreparedOp.h"

namespace fcdp {

/// What `manifest.ops[index]` was prepared to be, with its time taken each time
/// it runs. A record is returned as it is.
std::unique_ptr<PreparedOp> makeRecorded(std::unique_ptr<PreparedOp> op,
                                         const Manifest &manifest, size_t index,
                                         StepRecorder &recorder);

/// "aten.add.Tensor", as the compiler spells it; of a call that writes to its
/// argument `out` the operator that makes new memory.
std::string operatorName(const ops::AtenCall &call);

/// The stream that an operation works on, or that a wait holds back.
StreamId streamOf(const Op &op);

} // namespace fcdp
