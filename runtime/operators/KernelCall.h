// SPDX-License-Identifier: Apache-2.0
//
// Calls kernels that the compiler wrote.
#pragma once

#include "operators/PreparedOp.h"

namespace fcdp {

/// Prepares a call of the plan's kernel of that index.
PreparedOpPtr prepareKernel(const plan::AtenCallT &call, size_t kernel,
                            StepState &state);

} // namespace fcdp
