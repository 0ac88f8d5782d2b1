// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Transforms/Options/WireSpec.h"

#include "llvm/ADT/StringSwitch.h"

using namespace fcdp;

llvm::Expected<GatherWireSpec> fcdp::parseGatherWire(llvm::StringRef text) {
  auto wire = llvm::StringSwitch<std::optional<GatherWireSpec>>(text)
                  .Case("raw", GatherWireSpec::raw)
                  .Case("delta", GatherWireSpec::delta)
                  .Case("auto", GatherWireSpec::automatic)
                  .Default(std::nullopt);
  if (wire)
    return *wire;
  return llvm::createStringError("expected 'raw', 'delta' or 'auto', got '" +
                                 text + "'");
}

llvm::Expected<Wire> fcdp::parseReduceWire(llvm::StringRef text) {
  auto wire = llvm::StringSwitch<std::optional<Wire>>(text)
                  .Case("raw", Wire::raw)
                  .Case("coded", Wire::coded)
                  .Case("int8", Wire::int8)
                  .Case("int4", Wire::int4)
                  .Default(std::nullopt);
  if (wire)
    return *wire;
  return llvm::createStringError(
      "expected 'raw', 'coded', 'int8' or 'int4', got '" + text + "'");
}
