// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Transforms/Options/LayoutSpec.h"

using namespace mlir;
using namespace fcdp;

llvm::Expected<LayoutAttr> fcdp::parseLayout(StringRef spec,
                                             MLIRContext *context) {
  if (spec == stringifyLayoutKind(LayoutKind::flat))
    return LayoutAttr::get(context, LayoutKind::flat, 0);
  if (spec == stringifyLayoutKind(LayoutKind::owned))
    return LayoutAttr::get(context, LayoutKind::owned, 0);
  StringRef rows = spec;
  int64_t number = 0;
  if (rows.consume_front(stringifyLayoutKind(LayoutKind::ragged)) &&
      rows.consume_front("<") && rows.consume_back(">") &&
      !rows.getAsInteger(10, number) && number > 0)
    return LayoutAttr::get(context, LayoutKind::ragged, number);
  return llvm::createStringError("expected 'flat', 'ragged<N>' with a positive "
                                 "number of rows N or 'owned', got '" +
                                 spec + "'");
}
