// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Transforms/Options/FrozenSpec.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace fcdp;

bool FrozenSpec::Pattern::matches(ParameterOp parameter) const {
  return llvm::any_of(
      parameter.getNames().getAsRange<StringAttr>(),
      [&](StringAttr name) { return glob.match(name.getValue()); });
}

static llvm::Error addPattern(StringRef part, FrozenSpec &spec) {
  auto [key, text] = part.split('=');
  if ((key != "keep" && key != "pack") || text.empty())
    return llvm::createStringError(
        "expected 'keep=PATTERN' or 'pack=PATTERN', got '" + part + "'");
  llvm::Expected<llvm::GlobPattern> glob = llvm::GlobPattern::create(text);
  if (!glob)
    return llvm::createStringError("expected a pattern of names, got '" + text +
                                   "': " + toString(glob.takeError()));
  (key == "keep" ? spec.keep : spec.pack)
      .push_back({text.str(), std::move(*glob)});
  return llvm::Error::success();
}

llvm::Expected<FrozenSpec> fcdp::parseFrozen(StringRef text) {
  FrozenSpec spec;
  if (text == "off")
    return spec;
  SmallVector<StringRef> parts;
  text.split(parts, ',');
  spec.packing = symbolizePacking(parts.front());
  if (!spec.packing)
    return llvm::createStringError("expected 'off', 'nf4' or 'int8', got '" +
                                   parts.front() + "'");
  for (StringRef part : ArrayRef(parts).drop_front())
    if (llvm::Error error = addPattern(part, spec))
      return std::move(error);
  return spec;
}
