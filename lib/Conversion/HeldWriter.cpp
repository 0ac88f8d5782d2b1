// SPDX-License-Identifier: Apache-2.0

#include "HeldWriter.h"

#include "fcdp/Analysis/Borders.h"
#include "fcdp/Analysis/HeldMemory.h"

using namespace mlir;
using namespace fcdp;

namespace {
/// Where the calls of a function stand among all.
struct CallRange {
  int64_t first = 0, end = 0;
  /// By position of an operation, the first call from it on.
  std::vector<int64_t> byPosition;
};
} // namespace

static CallRange findCalls(func::FuncOp function, ArrayRef<RuntimeCall> calls,
                           int64_t first) {
  CallRange range{first, first, {}};
  auto size = static_cast<int64_t>(calls.size());
  for (Operation &op : function.front()) {
    range.byPosition.push_back(range.end);
    if (range.end < size && calls[range.end].op == &op)
      ++range.end;
  }
  range.byPosition.push_back(range.end);
  return range;
}

static void writeFunction(const CallRange &range, const HeldMemory &held,
                          llvm::json::OStream &json) {
  json.attribute("first", range.first);
  json.attribute("end", range.end);
  json.attributeArray("ranges", [&] {
    for (const HeldRange &one : held.ranges) {
      int64_t from = range.byPosition[one.begin];
      int64_t to = range.byPosition[one.end];
      if (from < to)
        json.array([&] {
          for (int64_t number : {from, to, one.offset, one.bytes})
            json.value(number);
        });
    }
  });
}

LogicalResult fcdp::writeHeld(ModuleOp module, ArrayRef<RuntimeCall> calls,
                              llvm::json::OStream &json) {
  FailureOr<MemoryLayouts> layouts = computeMemoryLayouts(module);
  if (failed(layouts))
    return failure();
  llvm::MapVector<Operation *, HeldMemory> held;
  int64_t states = 0, next = 0;
  for (auto function : module.getOps<func::FuncOp>()) {
    held[function] = findHeldMemory(function, *layouts);
    states = held[function].stateBytes; // the same in all
  }
  json.attributeObject("held", [&] {
    json.attribute("states", states);
    json.attributeObject("functions", [&] {
      for (auto function : module.getOps<func::FuncOp>()) {
        CallRange range = findCalls(function, calls, next);
        next = range.end;
        json.attributeObject(stringifyRole(getRole(function)), [&] {
          writeFunction(range, held[function], json);
        });
      }
    });
  });
  return success();
}
