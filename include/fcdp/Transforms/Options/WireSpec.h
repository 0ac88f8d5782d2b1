// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fcdp/Planning/Residency/WireChoice.h"
#include "llvm/Support/Error.h"

namespace fcdp {

/// Parses `raw`, `delta` or `auto`. Errors list them.
llvm::Expected<GatherWireSpec> parseGatherWire(llvm::StringRef text);

/// Parses `raw`, `coded`, `int8` or `int4`. Errors list them.
llvm::Expected<Wire> parseReduceWire(llvm::StringRef text);

} // namespace fcdp
