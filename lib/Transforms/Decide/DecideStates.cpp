// SPDX-License-Identifier: Apache-2.0

#include "Options/ClusterOption.h"
#include "PhasePasses.h"
#include "Verify/VerifyPhase.h"
#include "dialects/Fcdp/StatePieces.h"
#include "fcdp/Cluster/CostModel.h"
#include "fcdp/Planning/Memory/DeviceMemory.h"
#include "fcdp/Planning/Overlap/OverlapAnalysis.h"
#include "fcdp/Planning/States/StatePlacement.h"
#include "fcdp/Support/Units.h"
#include "fcdp/Transforms/Options/StatesSpec.h"
#include "fcdp/Transforms/PipelineOptions.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/FormatVariadic.h"

namespace fcdp {
#define GEN_PASS_DEF_DECIDESTATESPASS
#include "fcdp/Transforms/Passes.h.inc"
} // namespace fcdp

using namespace mlir;
using namespace fcdp;

namespace {
/// A bucket whose states may leave the device.
struct MovableStates {
  BucketOp bucket;
  OptimizerAttrInterface optimizer;
  int64_t bytes = 0;
};

class DecideStatesPass
    : public fcdp::impl::DecideStatesPassBase<DecideStatesPass> {
public:
  using DecideStatesPassBase::DecideStatesPassBase;
  DecideStatesPass(DecideStatesPassOptions options,
                   std::optional<Cluster> described)
      : DecideStatesPassBase(std::move(options)),
        described(std::move(described)) {}
  void runOnOperation() override;

private:
  LogicalResult decide();
  LogicalResult findModel();
  FailureOr<int64_t> measure(ArrayRef<MovableStates> moved);
  FailureOr<SmallVector<bool>> choose(ArrayRef<MovableStates> movable);
  void remark(ArrayRef<MovableStates> moved, int64_t before, int64_t after);

  std::optional<Cluster> described;
  StatesSpec spec;
  std::optional<CostModel> model;
  int64_t limit = 0;
};
} // namespace

std::unique_ptr<Pass>
fcdp::createDecideStatesPass(DecideStatesPassOptions options,
                             std::optional<Cluster> described) {
  return std::make_unique<DecideStatesPass>(std::move(options),
                                            std::move(described));
}

/// Returns the buckets with states that an update changes and that have no
/// given place.
static SmallVector<MovableStates> findMovable(ModuleOp module) {
  SymbolTable symbols(module);
  MeshOp mesh = getMesh(module);
  SmallVector<MovableStates> movable;
  auto function =
      module.lookupSymbol<func::FuncOp>(stringifyRole(Role::update));
  for (auto update : function.getOps<ShardUpdateOp>()) {
    auto bucket = symbols.lookup<BucketOp>(update.getTargetAttr().getAttr());
    if (!bucket || bucket.getStates() || update.isOfPiece() ||
        countShardElements(bucket) == 0)
      continue;
    MovableStates states{bucket, update.getSettings()};
    for (StateRole role : getUpdatedStates(bucket, states.optimizer))
      states.bytes += byteSize(getStateType(bucket, role, mesh));
    if (states.bytes > 0)
      movable.push_back(states);
  }
  return movable;
}

/// Moves the states of the bucket of that name to `arena`.
static void moveStates(ModuleOp module, const MovableStates &states,
                       Arena arena, int64_t pieceBytes) {
  auto bucket =
      module.lookupSymbol<BucketOp>(BucketOp(states.bucket).getSymNameAttr());
  bucket.setStates(arena);
  if (getPieceUnit(states.optimizer)) {
    int64_t all = countShardElements(bucket);
    double each = double(states.bytes) / double(all);
    auto most = static_cast<int64_t>(double(pieceBytes) / each);
    int64_t multiple = getPieceMultiple(bucket, states.optimizer);
    bucket.setPiece(std::max(multiple, most / multiple * multiple));
  }
  for (auto state : module.getOps<StateOp>())
    if (isOptimizerState(state.getRole()) &&
        state.getBucketAttr().getAttr() == bucket.getSymNameAttr())
      state.setArena(arena);
}

/// Finds the memory and the cost model for `auto`.
LogicalResult DecideStatesPass::findModel() {
  ModuleOp module = getOperation();
  if (!cluster.empty() || described) {
    llvm::Expected<Cluster> found =
        getClusterOf(getMesh(module), described, cluster, profile);
    if (!found)
      return module.emitError("cluster: ") << toString(found.takeError());
    model.emplace(*found);
    limit = found->getDeviceCapacity().usable;
  }
  if (deviceMemory > 0)
    limit = deviceMemory;
  if (limit > 0)
    return success();
  return module.emitError("states 'auto' moves as many bytes as the device's "
                          "memory demands; give --device-memory or --cluster");
}

/// Returns the device bytes of a plan in which these states are in host memory.
/// The copy of the step passes through the real passes.
FailureOr<int64_t> DecideStatesPass::measure(ArrayRef<MovableStates> moved) {
  OwningOpRef<ModuleOp> step(cast<ModuleOp>(getOperation()->clone()));
  for (const MovableStates &states : moved)
    moveStates(*step, states, Arena::host, spec.pieceBytes);
  auto run = [&](auto build) {
    PassManager passes(&getContext());
    passes.enableVerifier(false); // see Trial
    build(passes);
    return passes.run(*step);
  };
  if (failed(run(buildDecided)))
    return failure();
  // A schedule that does not fit has the default distances.
  if (model && !isPrefetched(*step))
    llvm::consumeError(decideOverlap(*step, *model, limit));
  if (failed(run(buildScheduled)) || failed(run([](OpPassManager &passes) {
        passes.addPass(createMakeGradientsInPlacePass());
      })))
    return failure();
  return peakDeviceBytes(*step);
}

/// Returns the time in which an update loads and stores the states. Without a
/// cluster it is in proportion to their bytes.
static double getCopyTime(const std::optional<CostModel> &model,
                          const MovableStates &states) {
  auto bytes = static_cast<double>(states.bytes);
  return model ? model->costOfLoad(bytes).getTotal() +
                     model->costOfStore(bytes).getTotal()
               : bytes;
}

void DecideStatesPass::remark(ArrayRef<MovableStates> moved, int64_t before,
                              int64_t after) {
  if (!getContext().getRemarkEngine())
    return;
  int64_t bytes = 0;
  for (const MovableStates &states : moved)
    bytes += states.bytes;
  std::string text =
      moved.empty()
          ? llvm::formatv("states: all stay on the device; the plan needs {0} "
                          "of {1}",
                          formatBytes(before), formatBytes(limit))
                .str()
          : llvm::formatv("states: {0} of {1} buckets are in host memory; the "
                          "plan needs {2} of {3}, and {4} with all states on "
                          "the device",
                          formatBytes(bytes), moved.size(), formatBytes(after),
                          formatBytes(limit), formatBytes(before))
                .str();
  remark::passed(getOperation().getLoc(),
                 remark::RemarkOpts::name("states").category(getArgument()))
      << text;
  for (const MovableStates &states : moved)
    remark::passed(BucketOp(states.bucket).getLoc(),
                   remark::RemarkOpts::name("states").category(getArgument()))
        << llvm::formatv("bucket {0}: states of {1} are in host memory",
                         BucketOp(states.bucket).getSymName(),
                         formatBytes(states.bytes))
               .str();
}

/// Chooses the states that leave the device so that the plan fits. Pieces need
/// memory that only a plan with them shows, so the bytes that must leave grow
/// by the excess of the last plan.
FailureOr<SmallVector<bool>>
DecideStatesPass::choose(ArrayRef<MovableStates> movable) {
  FailureOr<int64_t> before = measure({});
  if (failed(before))
    return failure();
  StatePlacementProblem problem;
  for (const MovableStates &states : movable)
    problem.buckets.push_back({states.bytes, getCopyTime(model, states)});
  StatePlacement placed;
  placed.isOnHost.assign(movable.size(), false);
  SmallVector<MovableStates> moved;
  int64_t after = *before;
  while (after > limit && moved.size() < movable.size()) {
    problem.needed =
        std::max(problem.needed, placed.countBytes(problem)) + (after - limit);
    if (llvm::Error error = problem.check())
      return getOperation().emitError("states: ") << toString(std::move(error));
    placed = placeStates(problem);
    if (llvm::Error error = placed.verify(problem))
      return getOperation().emitError("states: ") << toString(std::move(error));
    moved.clear();
    for (auto [moves, states] : llvm::zip_equal(placed.isOnHost, movable))
      if (moves)
        moved.push_back(states);
    FailureOr<int64_t> measured = measure(moved);
    if (failed(measured))
      return failure();
    after = *measured;
  }
  remark(moved, *before, after);
  return placed.isOnHost;
}

LogicalResult DecideStatesPass::decide() {
  ModuleOp module = getOperation();
  llvm::Expected<StatesSpec> parsed = parseStates(states);
  if (!parsed)
    return module.emitError("states: ") << toString(parsed.takeError());
  spec = *parsed;
  if (spec.mode == StatesSpec::Mode::Device)
    return success();
  SmallVector<MovableStates> movable = findMovable(module);
  SmallVector<bool> moves(movable.size(), true);
  if (spec.mode == StatesSpec::Mode::Auto) {
    if (failed(findModel()))
      return failure();
    FailureOr<SmallVector<bool>> chosen = choose(movable);
    if (failed(chosen))
      return failure();
    moves = *chosen;
  }
  Arena arena = spec.mode == StatesSpec::Mode::File ? Arena::file : Arena::host;
  for (auto [moved, states] : llvm::zip_equal(moves, movable)) {
    if (!moved)
      continue;
    if (reducesWithinNode(BucketOp(states.bucket)))
      return BucketOp(states.bucket)
                 .emitError("states: expected states on the device if nodes "
                            "train by themselves, got '")
             << stringifyArena(arena) << "'";
    moveStates(module, states, arena, spec.pieceBytes);
  }
  return success();
}

void DecideStatesPass::runOnOperation() {
  if (failed(requirePhase(getOperation(), Phase::sharded)) || failed(decide()))
    signalPassFailure();
}
