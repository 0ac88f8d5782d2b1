// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/Aten/Aten.h"

namespace fcdp {

/// What running `call` once more costs, in bytes moved: those of its operands
/// and results, and of its floating-point operations as many as a device moves
/// bytes meanwhile. For comparing calls with each other; no time.
double estimateCost(aten::CallOp call);

} // namespace fcdp
