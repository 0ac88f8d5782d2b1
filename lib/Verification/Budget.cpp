// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Verification/PlanProofs.h"

#include "PlanModel.h"
#include "ResultPlaces.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace fcdp;

namespace {
/// A value that is live at some operation.
struct Live {
  Operation *op;
  Extent extent;
};
} // namespace

/// Returns the values of `function` that are live where `top` is defined: `top`
/// first, then the others by decreasing size.
static SmallVector<Live> findLiveAt(const FunctionModel &function,
                                    const BufferModel &top) {
  SmallVector<Live> live;
  for (const BufferModel &buffer : function.buffers) {
    bool isMade = buffer.op == top.op || buffer.op->isBeforeInBlock(top.op);
    bool isReleased = llvm::any_of(buffer.op->getUsers(), [&](Operation *user) {
      auto release = dyn_cast<ReleaseOp>(user);
      return release && !release.getStream() && user->isBeforeInBlock(top.op);
    });
    if (isMade && !isReleased && buffer.op != top.op)
      live.push_back({buffer.op, buffer.extent});
  }
  llvm::sort(live, [](const Live &a, const Live &b) {
    int64_t left = a.extent.end - a.extent.begin;
    int64_t right = b.extent.end - b.extent.begin;
    return left != right ? left > right : a.op->isBeforeInBlock(b.op);
  });
  live.insert(live.begin(), {top.op, top.extent});
  return live;
}

static void attachLive(InFlightDiagnostic &diag, const PlanModel &plan) {
  constexpr size_t maxNotes = 4;
  const FunctionModel *function = nullptr;
  const BufferModel *top = nullptr;
  for (const auto &[role, model] : plan.functions)
    for (const BufferModel &buffer : model.buffers)
      if (!top || buffer.extent.end > top->extent.end) {
        function = &model;
        top = &buffer;
      }
  if (!top)
    return;
  SmallVector<Live> live = findLiveAt(*function, *top);
  for (const Live &one : ArrayRef(live).take_front(maxNotes))
    diag.attachNote(one.op->getLoc())
        << "at the peak, in @" << func::FuncOp(function->op).getSymName()
        << ", '" << one.op->getName() << "' uses "
        << one.extent.end - one.extent.begin << " bytes";
}

static void attachStates(InFlightDiagnostic &diag, const PlanModel &plan,
                         Arena arena) {
  int64_t sum = 0, most = -1;
  const StateModel *largest = nullptr;
  for (const StateModel &state : plan.states) {
    if (StateOp(state.op).getArena() != arena)
      continue;
    int64_t bytes = state.extent.end - state.extent.begin;
    sum += bytes;
    if (bytes > most) {
      most = bytes;
      largest = &state;
    }
  }
  if (largest)
    diag.attachNote(StateOp(largest->op).getLoc())
        << "states use " << sum << " bytes; the largest is this one, of "
        << plan.describe(largest->bucket) << ", with " << most << " bytes";
}

static LogicalResult verifyArena(ModuleOp module, const PlanModel &plan,
                                 Arena arena, int64_t needed, int64_t budget) {
  bool isDevice = arena == Arena::device;
  if (budget == 0 || needed <= budget)
    return success();
  InFlightDiagnostic diag = module.emitError("the plan needs ")
                            << needed << " bytes of " << stringifyArena(arena)
                            << " memory per " << (isDevice ? "rank" : "node")
                            << ", expected at most " << budget
                            << "; raise the limit or choose other residencies";
  attachStates(diag, plan, arena);
  if (isDevice)
    attachLive(diag, plan);
  return diag;
}

/// Returns the bytes of the inputs and buffers of the model, which are outside
/// of the arena. Inputs of one name have the same memory in all variants of a
/// step.
static int64_t countInputBytes(ModuleOp module) {
  int64_t bytes = 0;
  llvm::StringMap<int64_t> ofStep;
  for (auto input : module.getOps<InputOp>()) {
    int64_t own = byteSize(cast<RankedTensorType>(input.getType()));
    if (input.getEvaluation())
      bytes += own;
    else
      ofStep[input.getName()] = std::max(ofStep[input.getName()], own);
  }
  for (const auto &input : ofStep)
    bytes += input.second;
  for (auto buffer : module.getOps<BufferOp>())
    bytes += byteSize(cast<RankedTensorType>(buffer.getType()));
  return bytes;
}

/// Proves that the arena of `planned` contains all places.
static LogicalResult verifyArenaBytes(ModuleOp module, const PlanModel &plan,
                                      const PlannedMemory &planned) {
  FailureOr<int64_t> end = verifyResultPlaces(
      module, planned.free, planned.results, plan.arenaBytes[Arena::device]);
  if (failed(end))
    return failure();
  int64_t needed = std::max(*end, plan.arenaBytes[Arena::device]);
  if (needed <= planned.arenaBytes)
    return success();
  return module.emitError("expected a device arena of at least ")
         << needed << " bytes, which is where its last value ends, got "
         << planned.arenaBytes;
}

LogicalResult fcdp::verifyBudget(ModuleOp module, const PlannedMemory &planned,
                                 int64_t deviceBytes, int64_t hostBytes) {
  if (deviceBytes == 0 && hostBytes == 0)
    return success();
  FailureOr<PlanModel> plan = PlanModel::build(module);
  if (failed(plan) || failed(verifyArenaBytes(module, *plan, planned)))
    return failure();
  int64_t needed = planned.arenaBytes + countInputBytes(module);
  return success(
      succeeded(
          verifyArena(module, *plan, Arena::device, needed, deviceBytes)) &&
      succeeded(verifyArena(module, *plan, Arena::host,
                            plan->arenaBytes[Arena::host], hostBytes)));
}
