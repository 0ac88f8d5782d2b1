// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fcdp/Conversion/Manifest.h"
#include "fcdp/Planning/Memory/DeviceMemory.h"
#include "llvm/Support/JSON.h"

namespace fcdp {

/// Writes the key `held`: what of the device arena is not lent to operators,
/// and when, in indices of `calls`, and where the plan has their results, by
/// `memory`. An error is reported.
mlir::LogicalResult writeHeld(mlir::ModuleOp module, const DeviceMemory &memory,
                              llvm::ArrayRef<RuntimeCall> calls,
                              llvm::json::OStream &json);

} // namespace fcdp
