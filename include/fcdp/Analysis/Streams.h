// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/Fcdp/Fcdp.h"

namespace fcdp {

/// The stream that `op` runs on.
Stream chooseStream(mlir::Operation *op);

} // namespace fcdp
