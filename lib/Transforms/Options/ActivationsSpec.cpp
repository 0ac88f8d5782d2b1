// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Transforms/Options/ActivationsSpec.h"

#include "llvm/ADT/StringSwitch.h"

using namespace fcdp;

llvm::Expected<ActivationsMode> fcdp::parseActivations(llvm::StringRef text) {
  auto mode = llvm::StringSwitch<std::optional<ActivationsMode>>(text)
                  .Case("device", ActivationsMode::Device)
                  .Case("host", ActivationsMode::Host)
                  .Case("auto", ActivationsMode::Auto)
                  .Default(std::nullopt);
  if (mode)
    return *mode;
  return llvm::createStringError("expected 'device', 'host' or 'auto', got '" +
                                 text + "'");
}
