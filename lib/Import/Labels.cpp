// SPDX-License-Identifier: Apache-2.0

#include "Labels.h"

#include "mlir/IR/BuiltinAttributes.h"

using namespace llvm;
using namespace mlir;
using namespace fcdp;
using namespace fcdp::pt2;

const Label &Labels::get(const Node &node) {
  auto [entry, isNew] = cache.try_emplace(node.label);
  if (isNew)
    entry->second = parse(node.label);
  return entry->second;
}

Label Labels::parse(StringRef text) const {
  Label label;
  label.location = UnknownLoc::get(context);
  BumpPtrAllocator arena;
  Expected<Json> json = parseJson(text, arena);
  if (!json) {
    // The metadata may be from another tool. A label does not change the
    // computation, so it is ignored.
    consumeError(json.takeError());
    return label;
  }
  auto [file, line] = (*json)["source"].asString().value_or("").rsplit(':');
  unsigned number;
  if (!file.empty() && !line.getAsInteger(10, number))
    label.location = FileLineColLoc::get(context, file, number, /*column=*/0);
  StringRef module = (*json)["module"].asString().value_or("");
  if (!module.empty())
    label.location =
        NameLoc::get(StringAttr::get(context, module), label.location);
  std::optional<int64_t> region = (*json)["region"].asInteger();
  if (region && *region >= 0)
    label.checkpointRegion = region;
  return label;
}
