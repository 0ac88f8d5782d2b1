// SPDX-License-Identifier: Apache-2.0
//
// Prepares collectives that send messages instead of the values themselves.
#pragma once

#include "operators/PreparedOp.h"

namespace fcdp {

/// Return the collective that sends the values themselves.
Collective describe(const plan::AllGatherT &op, const char *what,
                    StepState &state);
Collective describe(const plan::ReduceScatterT &op, const char *what,
                    StepState &state);

/// Pre: the plan has memory for the messages of `op`.
PreparedOpPtr prepareWithMessages(const plan::AllGatherT &op, const char *what,
                                  StepState &state);
PreparedOpPtr prepareWithMessages(const plan::ReduceScatterT &op,
                                  const char *what, StepState &state);

} // namespace fcdp
