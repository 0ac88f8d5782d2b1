// SPDX-License-Identifier: Apache-2.0

#include "Labels.h"

#include "mlir/IR/BuiltinAttributes.h"

using namespace llvm;
using namespace mlir;
using namespace fcdp;
using namespace fcdp::pt2;

Location Labels::get(const Node &node) {
  if (node.label.empty())
    return UnknownLoc::get(context);
  LocationAttr &location = cache[node.label];
  if (!location)
    location = parse(node.label);
  return location;
}

Location Labels::parse(StringRef label) const {
  BumpPtrAllocator arena;
  Location location = UnknownLoc::get(context);
  Expected<Json> json = parseJson(label, arena);
  if (!json) {
    // The metadata may be from another tool. A label does not affect the step,
    // so it is ignored.
    consumeError(json.takeError());
    return location;
  }
  auto [file, line] = (*json)["source"].asString().value_or("").rsplit(':');
  unsigned number;
  if (!file.empty() && !line.getAsInteger(10, number))
    location = FileLineColLoc::get(context, file, number, /*column=*/0);
  StringRef module = (*json)["module"].asString().value_or("");
  if (!module.empty())
    location = NameLoc::get(StringAttr::get(context, module), location);
  return location;
}
