// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Transforms/Options/WrapSpec.h"

#include "llvm/ADT/StringRef.h"

using namespace fcdp;

llvm::Expected<Wrap> fcdp::parseWrap(llvm::StringRef text) {
  if (std::optional<Wrap> wrap = symbolizeWrap(text))
    return *wrap;
  return llvm::createStringError(
      "expected 'unit', 'module' or 'checkpoint', got '" + text + "'");
}
