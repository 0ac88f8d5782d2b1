// SPDX-License-Identifier: Apache-2.0

#include "MoveSearch.h"
#include "Options/ClusterOption.h"
#include "Verify/VerifyPhase.h"
#include "dialects/Fcdp/StatePieces.h"
#include "fcdp/Cluster/CostModel.h"
#include "fcdp/Support/Units.h"
#include "fcdp/Transforms/PipelineOptions.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/Remarks.h"
#include "llvm/Support/FormatVariadic.h"

namespace fcdp {
#define GEN_PASS_DEF_DECIDESTATESPASS
#include "fcdp/Transforms/Passes.h.inc"
} // namespace fcdp

using namespace mlir;
using namespace fcdp;

namespace {
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
  LogicalResult findCluster();
  LogicalResult checkUpdate();
  FailureOr<bool> isUpdatedOnHost(const MovableStates &states) const;
  FailureOr<SmallVector<bool>> choose(ArrayRef<MovableStates> movable);
  void remark(ArrayRef<MovableStates> moved, int64_t before, int64_t after);
  void remarkOnUpdate(const MovableStates &states, bool isOnHost);

  std::optional<Cluster> described;
  StatesSpec spec;
  UpdateMode updateMode = UpdateMode::Device;
  int64_t limit = 0;
};
} // namespace

std::unique_ptr<Pass>
fcdp::createDecideStatesPass(DecideStatesPassOptions options,
                             std::optional<Cluster> described) {
  return std::make_unique<DecideStatesPass>(std::move(options),
                                            std::move(described));
}

SmallVector<MovableStates> fcdp::findMovableStates(ModuleOp module) {
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

void fcdp::moveStates(ModuleOp module, const MovableStates &states, Arena arena,
                      int64_t pieceBytes) {
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

/// Finds the cluster and the memory, if they are described.
LogicalResult DecideStatesPass::findCluster() {
  ModuleOp module = getOperation();
  if (!cluster.empty() || described) {
    llvm::Expected<Cluster> found =
        getClusterOf(getMesh(module), described, cluster, profile);
    if (!found)
      return module.emitError("cluster: ") << toString(found.takeError());
    described = std::move(*found);
    limit = described->getDeviceCapacity().usable;
  }
  if (deviceMemory > 0)
    limit = deviceMemory;
  return success();
}

/// Checks where states may be updated.
LogicalResult DecideStatesPass::checkUpdate() {
  ModuleOp module = getOperation();
  if (updateMode == UpdateMode::Auto && spec.mode != StatesSpec::Mode::File &&
      !described)
    return module.emitError("update: 'auto' compares predicted times; give "
                            "--cluster");
  if (updateMode != UpdateMode::Host)
    return success();
  if (spec.mode == StatesSpec::Mode::File)
    return module.emitError("update: expected 'device' for states in files, "
                            "got 'host'");
  return success();
}

/// Decides where states in host memory are updated. That needs no more device
/// memory on the host than on the device.
FailureOr<bool>
DecideStatesPass::isUpdatedOnHost(const MovableStates &states) const {
  BucketOp bucket = states.bucket;
  if (updateMode == UpdateMode::Device || spec.mode == StatesSpec::Mode::File)
    return false;
  bool isForced = updateMode == UpdateMode::Host;
  if (canUpdateOnHost(states.optimizer))
    return isForced ||
           CostModel(*described).isFasterOnHost(bucket, states.optimizer);
  if (!isForced)
    return false;
  return bucket.emitError("update: expected an optimizer that updates elements "
                          "for 'host', got '")
         << OptimizerAttrInterface(states.optimizer).getName()
         << "', which updates whole parameters; use 'device' or 'auto'";
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
                          formatBytes(after), formatBytes(limit))
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

/// Emits a remark on where states are updated, if `auto` decides it.
void DecideStatesPass::remarkOnUpdate(const MovableStates &states,
                                      bool isOnHost) {
  if (updateMode != UpdateMode::Auto || !getContext().getRemarkEngine())
    return;
  remark::passed(BucketOp(states.bucket).getLoc(),
                 remark::RemarkOpts::name("update").category(getArgument()))
      << llvm::formatv("bucket {0}: states are updated on the {1}",
                       BucketOp(states.bucket).getSymName(),
                       isOnHost ? "host" : "device")
             .str();
}

/// Emits a remark on what was compared, if values of the forward pass were,
/// too.
static void remarkOnCompared(ModuleOp module, ArrayRef<Moves> compared,
                             const Moves &chosen) {
  if (compared.size() < 3 || !module.getContext()->getRemarkEngine())
    return;
  std::string text = "states and activations:";
  for (const Moves &one : compared)
    text +=
        llvm::formatv(" {0} takes {1} and needs {2};", one.describe(),
                      formatSeconds(one.seconds), formatBytes(one.deviceBytes))
            .str();
  text += " chosen: " + chosen.describe();
  remark::passed(module.getLoc(), remark::RemarkOpts::name("moves").category(
                                      "fcdp-decide-states"))
      << text;
}

/// Chooses the states that leave the device so that the plan fits.
FailureOr<SmallVector<bool>>
DecideStatesPass::choose(ArrayRef<MovableStates> movable) {
  ModuleOp module = getOperation();
  llvm::Expected<ActivationsMode> mode = parseActivations(activations);
  if (!mode)
    return module.emitError("activations: ") << toString(mode.takeError());
  MoveSearch search(module, described, {spec, *mode, limit});
  FailureOr<Moves> found = search.find();
  if (failed(found))
    return module.emitError("states: expected a step that can be scheduled");
  SmallVector<MovableStates> moved;
  for (auto [moves, states] : llvm::zip_equal(found->states, movable))
    if (moves)
      moved.push_back(states);
  ArrayRef<Moves> compared = search.getCompared();
  remark(moved, compared.front().deviceBytes, found->deviceBytes);
  remarkOnCompared(module, compared, *found);
  return found->states;
}

LogicalResult DecideStatesPass::decide() {
  ModuleOp module = getOperation();
  llvm::Expected<StatesSpec> parsed = parseStates(states);
  if (!parsed)
    return module.emitError("states: ") << toString(parsed.takeError());
  spec = *parsed;
  llvm::Expected<UpdateMode> mode = parseUpdate(update);
  if (!mode)
    return module.emitError("update: ") << toString(mode.takeError());
  updateMode = *mode;
  if (spec.mode == StatesSpec::Mode::Device) {
    bool hasOnHost =
        llvm::any_of(module.getOps<BucketOp>(), [](BucketOp bucket) {
          return bucket.getStates() == Arena::host;
        });
    if (updateMode == UpdateMode::Host && !hasOnHost)
      return module.emitError("update: expected states in host memory for "
                              "'host'; give --states=host or --states=auto");
    return success();
  }
  bool needsCluster =
      spec.mode == StatesSpec::Mode::Auto || updateMode == UpdateMode::Auto;
  if ((needsCluster && failed(findCluster())) || failed(checkUpdate()))
    return failure();
  SmallVector<MovableStates> movable = findMovableStates(module);
  SmallVector<bool> moves(movable.size(), true);
  if (spec.mode == StatesSpec::Mode::Auto) {
    if (limit <= 0)
      return module.emitError(
          "states 'auto' moves as many bytes as the device's memory demands; "
          "give --device-memory or --cluster");
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
    FailureOr<bool> onHost = isUpdatedOnHost(states);
    if (failed(onHost))
      return failure();
    moveStates(module, states, arena, spec.pieceBytes);
    if (*onHost)
      BucketOp(states.bucket).setUpdatedOnHost(true);
    remarkOnUpdate(states, *onHost);
  }
  return success();
}

void DecideStatesPass::runOnOperation() {
  if (failed(requirePhase(getOperation(), Phase::sharded)) || failed(decide()))
    signalPassFailure();
}
