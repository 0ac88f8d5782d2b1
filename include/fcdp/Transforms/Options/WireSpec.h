// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/Fcdp/Fcdp.h"
#include "llvm/Support/Error.h"

namespace fcdp {

/// What gathers send between nodes.
enum class GatherWireSpec { raw, delta, automatic };

/// Parses `raw`, `delta` or `auto`. The error lists them.
llvm::Expected<GatherWireSpec> parseGatherWire(llvm::StringRef text);

/// Parses `raw`, `coded`, `int8` or `int4`. The error lists them.
llvm::Expected<Wire> parseReduceWire(llvm::StringRef text);

} // namespace fcdp
