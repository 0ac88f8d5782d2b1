// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Transforms/Options/StatesSpec.h"

#include "fcdp/Support/Units.h"

using namespace fcdp;

llvm::Expected<StatesSpec> fcdp::parseStates(llvm::StringRef text) {
  auto [name, setting] = text.split(',');
  StatesSpec spec;
  if (name == "host")
    spec.mode = StatesSpec::Mode::Host;
  else if (name == "auto")
    spec.mode = StatesSpec::Mode::Auto;
  else if (name == "file")
    spec.mode = StatesSpec::Mode::File;
  else if (name != "device")
    return llvm::createStringError(
        "expected 'device', 'host', 'file' or 'auto', got '" + name + "'");
  if (name.size() == text.size())
    return spec;
  std::optional<int64_t> bytes;
  if (spec.mode != StatesSpec::Mode::Device && setting.consume_front("piece="))
    bytes = parseInteger(setting);
  if (!bytes || *bytes <= 0)
    return llvm::createStringError(
        "expected 'piece=BYTES' after 'host', 'file' "
        "or 'auto', a positive number, got '" +
        text + "'");
  spec.pieceBytes = *bytes;
  return spec;
}

llvm::Expected<UpdateMode> fcdp::parseUpdate(llvm::StringRef text) {
  if (text == "device")
    return UpdateMode::Device;
  if (text == "host")
    return UpdateMode::Host;
  if (text == "auto")
    return UpdateMode::Auto;
  return llvm::createStringError("expected 'device', 'host' or 'auto', got '" +
                                 text + "'");
}
