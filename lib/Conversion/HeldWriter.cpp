// SPDX-License-Identifier: Apache-2.0

#include "HeldWriter.h"

#include "fcdp/Analysis/Borders.h"
#include "fcdp/Planning/Memory/ReservedMemory.h"

using namespace mlir;
using namespace fcdp;

namespace {
/// Where the calls of a function stand among all.
struct CallRange {
  int64_t first = 0, end = 0;
  /// By position of an operation, the first call from it on.
  std::vector<int64_t> byPosition;
  llvm::DenseMap<Operation *, int64_t> byOp;
};
} // namespace

static CallRange findCalls(func::FuncOp function, ArrayRef<RuntimeCall> calls,
                           int64_t first) {
  CallRange range;
  range.first = range.end = first;
  auto size = static_cast<int64_t>(calls.size());
  for (Operation &op : function.front()) {
    range.byPosition.push_back(range.end);
    if (range.end < size && calls[range.end].op == &op)
      range.byOp[&op] = range.end++;
  }
  range.byPosition.push_back(range.end);
  return range;
}

static void writeNumbers(std::initializer_list<int64_t> numbers,
                         llvm::json::OStream &json) {
  json.array([&] {
    for (int64_t number : numbers)
      json.value(number);
  });
}

static void writeFunction(const CallRange &range, const ReservedMemory &held,
                          const FunctionMemory &memory,
                          llvm::json::OStream &json) {
  json.attribute("first", range.first);
  json.attribute("end", range.end);
  json.attributeArray("ranges", [&] {
    for (const MemoryRange &one : held.ranges) {
      int64_t from = range.byPosition[one.begin];
      int64_t to = range.byPosition[one.end];
      if (from < to)
        writeNumbers({from, to, one.offset, one.bytes}, json);
    }
  });
  json.attributeArray("results", [&] {
    for (const ResultPlace &result : memory.results)
      writeNumbers({range.byOp.lookup(result.op), result.offset, result.bytes},
                   json);
  });
}

LogicalResult fcdp::writeHeld(ModuleOp module, const DeviceMemory &memory,
                              ArrayRef<RuntimeCall> calls,
                              llvm::json::OStream &json) {
  FailureOr<MemoryLayouts> layouts = computeMemoryLayouts(module);
  if (failed(layouts))
    return failure();
  std::vector<ReservedMemory> held;
  for (auto function : module.getOps<func::FuncOp>())
    held.push_back(findReservedMemory(function, *layouts));
  json.attributeObject("held", [&] {
    // The same in all.
    json.attribute("states", held.empty() ? 0 : held.front().stateBytes);
    json.attributeObject("functions", [&] {
      int64_t next = 0;
      for (auto indexed : llvm::enumerate(module.getOps<func::FuncOp>())) {
        func::FuncOp function = indexed.value();
        CallRange range = findCalls(function, calls, next);
        next = range.end;
        json.attributeObject(stringifyRole(getRole(function)), [&] {
          writeFunction(range, held[indexed.index()],
                        memory.functions[indexed.index()], json);
        });
      }
    });
  });
  return success();
}
