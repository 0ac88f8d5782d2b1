// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Transforms/Options/RematSpec.h"

#include "fcdp/Support/Units.h"

#include "llvm/ADT/StringRef.h"

using namespace fcdp;

llvm::Expected<RematSpec> fcdp::parseRemat(llvm::StringRef text) {
  if (text == "none")
    return RematSpec{RematSpec::Mode::None, std::nullopt};
  if (text == "unit")
    return RematSpec{RematSpec::Mode::Unit, std::nullopt};
  if (text == "auto")
    return RematSpec{RematSpec::Mode::Auto, std::nullopt};
  std::optional<int64_t> bytes = parseInteger(text);
  if (bytes && *bytes >= 0)
    return RematSpec{RematSpec::Mode::Budget, bytes};
  return llvm::createStringError(
      "expected 'none', 'unit', 'auto' or a number of bytes, got '" + text +
      "'");
}
