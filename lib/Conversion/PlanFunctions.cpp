// SPDX-License-Identifier: Apache-2.0

#include "PlanParts.h"

#include "PlanValues.h"
#include "fcdp/Analysis/FunctionBoundaries.h"
#include "fcdp/Analysis/Traffic.h"

using namespace mlir;
using namespace fcdp;

namespace {
/// The range of a function's operations in the plan.
struct CallRange {
  uint64_t first = 0, end = 0;
  /// By position of an operation in the function, the index of the plan's first
  /// operation that is not before it.
  std::vector<uint64_t> byPosition;
  llvm::DenseMap<Operation *, uint64_t> byOp;
};
} // namespace

static CallRange findCalls(func::FuncOp function, ArrayRef<Operation *> calls,
                           uint64_t first) {
  CallRange range;
  range.first = range.end = first;
  for (Operation &op : function.front()) {
    range.byPosition.push_back(range.end);
    if (range.end < calls.size() && calls[range.end] == &op)
      range.byOp[&op] = range.end++;
  }
  range.byPosition.push_back(range.end);
  return range;
}

static void fillMemory(plan::FunctionT &out, const CallRange &range,
                       const FunctionMemory &memory) {
  for (const MemoryRange &one : memory.reserved.ranges) {
    uint64_t from = range.byPosition[one.begin];
    uint64_t to = range.byPosition[one.end];
    if (from < to)
      out.reserved.emplace_back(from, to, one.offset, one.bytes);
  }
  for (const ResultPlace &result : memory.results)
    if (!result.isAmbiguous)
      out.results.emplace_back(range.byOp.lookup(result.op), result.offset,
                               result.bytes);
}

static plan::LinkBytes convert(const LinkBytes &bytes) {
  return {bytes[LinkId::Inter], bytes[LinkId::Intra], bytes[LinkId::H2D],
          bytes[LinkId::D2H]};
}

void fcdp::fillFunctions(plan::PlanT &plan, ModuleOp module,
                         const DeviceMemory &memory,
                         ArrayRef<Operation *> calls) {
  ArenaArray<uint64_t> arenas = measureArenas(module);
  plan.deviceBytes =
      std::max(static_cast<int64_t>(arenas[Arena::device]), memory.arena.bytes);
  plan.hostBytes = arenas[Arena::host];
  plan.fileBytes = arenas[Arena::file];
  if (BufferAttr window = getFileWindow(module))
    plan.fileWindow = std::make_unique<plan::Buf>(toBuf(window));
  plan.planned = plan::Planned(memory.total(), memory.pool, memory.inputs);
  uint64_t next = 0;
  for (auto [function, functionMemory] :
       llvm::zip_equal(module.getOps<func::FuncOp>(), memory.functions)) {
    CallRange range = findCalls(function, calls, next);
    next = range.end;
    // Equal for all functions.
    plan.stateBytes = functionMemory.reserved.stateBytes;
    plan::FunctionT &out = append(plan.functions);
    out.role = findByName<plan::Role>(stringifyRole(getRole(function)),
                                      plan::EnumNamesRole());
    out.variant = getNumber(function);
    out.first = range.first;
    out.end = range.end;
    fillMemory(out, range, functionMemory);
    out.expected = convert(predictTraffic(function, getMesh(module)));
  }
}
