// SPDX-License-Identifier: Apache-2.0

#include "Verify/VerifyPhase.h"
#include "dialects/Fcdp/StatePieces.h"
#include "fcdp/Analysis/Aliases.h"
#include "fcdp/Analysis/EarlyUpdates.h"
#include "fcdp/Analysis/StepFunctions.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Remarks.h"
#include "llvm/Support/FormatVariadic.h"

namespace fcdp {
#define GEN_PASS_DEF_UPDATEEARLYPASS
#include "fcdp/Transforms/Passes.h.inc"
} // namespace fcdp

using namespace mlir;
using namespace fcdp;

namespace {
/// The update of a piece of a shard in @update, with the operations that bring
/// its states or its gradient, and those that bring the results back.
struct UpdateOfPiece {
  SmallVector<Operation *, 4> before;
  Operation *update = nullptr;
  SmallVector<Operation *, 4> after;

  bool isOnHost() const { return isa<HostUpdateOp>(update); }
};

/// The updates of a bucket in a micro-batch: after `sum`, which is before the
/// first of `places`. There is a place in front of which each piece is updated.
struct EarlyUpdate {
  AccumulateOp sum;
  ArrayRef<UpdateOfPiece> pieces;
  SmallVector<Operation *> places = {};
};

class UpdateEarlyPass
    : public fcdp::impl::UpdateEarlyPassBase<UpdateEarlyPass> {
public:
  void runOnOperation() override;

private:
  void collect(func::FuncOp update);
  std::vector<EarlyUpdate> findPlaces(func::FuncOp function);
  void insert(func::FuncOp function);

  llvm::MapVector<StringAttr, std::vector<UpdateOfPiece>> pieces;
};
} // namespace

/// Collects the pieces of the buckets that may be updated early.
void UpdateEarlyPass::collect(func::FuncOp update) {
  llvm::DenseSet<StringAttr> candidates = findEarlyCandidates(getOperation());
  if (candidates.empty())
    return;
  for (auto each : update.getOps<UpdateOpInterface>()) {
    StringAttr target = each.getTargetAttr().getAttr();
    if (!candidates.contains(target) || !each.isOfPiece())
      continue;
    UpdateOfPiece piece;
    piece.update = each;
    for (Value operand : each->getOperands())
      if (Operation *load = operand.getDefiningOp()) {
        piece.before.push_back(load);
        for (Operation *user : operand.getUsers())
          if (user != each.getOperation())
            piece.after.push_back(user);
      }
    for (Value result : each->getResults())
      llvm::append_range(piece.after, result.getUsers());
    pieces[target].push_back(std::move(piece));
  }
}

/// Returns the last operation of each bucket's use in `block`: of its shard, of
/// copies that were gathered from there, or of what they became.
static llvm::DenseMap<StringAttr, Operation *> findLastUses(Block &block) {
  llvm::DenseMap<Value, StringAttr> copyOf;
  llvm::DenseMap<StringAttr, Operation *> last;
  for (Operation &op : block) {
    StringAttr bucket;
    if (isa<ReadShardOp, ReadStateOp, CacheLoadOp>(op)) {
      StringAttr name = cast<StorageOpInterface>(op).getStorageAttr().getAttr();
      auto state = SymbolTable::lookupNearestSymbolFrom<StateOp>(&op, name);
      bucket = state ? state.getBucketAttr().getAttr() : name;
      last[bucket] = &op;
    }
    // A use may have copies of several buckets, but what makes a copy has one.
    for (Value operand : op.getOperands())
      if (StringAttr of = copyOf.lookup(operand)) {
        last[of] = &op;
        bucket = of;
      }
    bool isCopy =
        isa<FetchOpInterface, CollectiveOpInterface, CastShardOp, ViewMemberOp,
            ReadShardOp, ReadStateOp, CacheLoadOp>(op) ||
        isView(&op) || mayAlias(&op);
    if (bucket && isCopy)
      for (Value result : op.getResults())
        copyOf[result] = bucket;
  }
  return last;
}

/// Returns the updates in the order in which they may begin. An update follows
/// all uses of the old parameters, and the loss, which may prevent it and is
/// therefore given as soon as it is known. Its accumulate moves there, so that
/// only the gradient of one bucket is there at a time. Its pieces are spread
/// over the operations up to the next bucket's update, which hide the copies.
std::vector<EarlyUpdate> UpdateEarlyPass::findPlaces(func::FuncOp function) {
  Block &block = function.front();
  for (auto loss : llvm::to_vector(function.getOps<LossOp>()))
    if (Operation *made = loss->getOperand(0).getDefiningOp())
      loss->moveAfter(made);
  std::vector<Operation *> order;
  llvm::DenseMap<Operation *, size_t> positions;
  for (Operation &op : block) {
    positions[&op] = order.size();
    order.push_back(&op);
  }
  size_t first = 0;
  for (auto loss : function.getOps<LossOp>())
    first = positions.lookup(loss);
  llvm::DenseMap<StringAttr, Operation *> lastUses = findLastUses(block);
  std::vector<std::pair<size_t, EarlyUpdate>> found;
  llvm::SmallDenseSet<Operation *> sums;
  for (auto sum : function.getOps<AccumulateOp>()) {
    auto it = pieces.find(sum.getTargetAttr().getAttr());
    if (it == pieces.end())
      continue;
    size_t last = std::max(first, positions.lookup(sum));
    if (Operation *use = lastUses.lookup(it->first))
      last = std::max(last, positions.lookup(use));
    found.push_back({last, {sum, it->second}});
    sums.insert(sum);
  }
  llvm::stable_sort(
      found, [](const auto &a, const auto &b) { return a.first < b.first; });
  // Accumulates move, so that no update can be in front of one.
  auto findPlace = [&](size_t position) {
    while (position + 1 < order.size() && sums.contains(order[position]))
      ++position;
    return std::min(position, order.size() - 1);
  };
  std::vector<EarlyUpdate> updates;
  for (size_t i = 0; i < found.size(); ++i) {
    EarlyUpdate &update = found[i].second;
    size_t begin = findPlace(found[i].first + 1);
    size_t end = i + 1 < found.size() ? findPlace(found[i + 1].first + 1)
                                      : order.size() - 1;
    // The accumulate of the next bucket takes the memory of this one's
    // gradient, so that all pieces are updated before it.
    const size_t count = update.pieces.size();
    for (size_t piece = 0; piece < count; ++piece)
      update.places.push_back(order[std::min(
          findPlace(begin + (end - begin) * piece / count), end)]);
    updates.push_back(std::move(update));
  }
  return updates;
}

namespace {
/// Copies the operations of a piece into a micro-batch.
class PieceCopy {
public:
  explicit PieceCopy(const UpdateOfPiece &piece) : piece(&piece) {}

  void load(OpBuilder &builder) {
    for (Operation *op : piece->before)
      builder.clone(*op, mapping);
  }
  void update(OpBuilder &builder) {
    builder.clone(*piece->update, mapping);
    for (Operation *op : piece->after)
      builder.clone(*op, mapping);
  }

private:
  const UpdateOfPiece *piece;
  IRMapping mapping;
};
} // namespace

/// Each piece is loaded before the one in front of it is updated. The gradients
/// of a bucket that is updated on the host are stored as far ahead as there are
/// windows.
void UpdateEarlyPass::insert(func::FuncOp function) {
  std::vector<EarlyUpdate> updates = findPlaces(function);
  std::vector<PieceCopy> streamed;
  for (const EarlyUpdate &update : updates)
    for (const UpdateOfPiece &piece : update.pieces)
      if (!piece.isOnHost())
        streamed.emplace_back(piece);
  size_t next = 0;
  for (EarlyUpdate &update : updates) {
    update.sum->moveBefore(update.places.front());
    if (update.pieces.front().isOnHost()) {
      std::vector<PieceCopy> copies(update.pieces.begin(), update.pieces.end());
      for (size_t i = 0; i < copies.size() + kHostWindows; ++i) {
        OpBuilder builder(update.places[std::min(i, update.places.size() - 1)]);
        if (i >= kHostWindows)
          copies[i - kHostWindows].update(builder);
        if (i < copies.size())
          copies[i].load(builder);
      }
      continue;
    }
    for (size_t i = 0; i < update.pieces.size(); ++i, ++next) {
      if (next == 0) {
        Operation *reduced = update.sum.getValue().getDefiningOp();
        OpBuilder begin(reduced ? reduced : update.sum);
        streamed[0].load(begin);
      }
      OpBuilder builder(update.places[i]);
      if (next + 1 < streamed.size())
        streamed[next + 1].load(builder);
      streamed[next].update(builder);
    }
  }
}

void UpdateEarlyPass::runOnOperation() {
  ModuleOp module = getOperation();
  if (failed(requirePhase(module, Phase::sharded)))
    return signalPassFailure();
  pieces.clear();
  auto update = module.lookupSymbol<func::FuncOp>(stringifyRole(Role::update));
  collect(update);
  if (pieces.empty())
    return;
  for (auto function : module.getOps<func::FuncOp>())
    if (isLastOfStep(getRole(function)))
      insert(function);
  for (auto &[bucket, all] : pieces)
    for (UpdateOfPiece &piece : all) {
      for (Operation *op : piece.after)
        op->erase();
      piece.update->erase();
      for (Operation *op : piece.before)
        op->erase();
    }
  if (getContext().getRemarkEngine())
    remark::passed(module.getLoc(),
                   remark::RemarkOpts::name("update").category(getArgument()))
        << llvm::formatv("{0} buckets are updated as soon as their gradients "
                         "are complete, in the backward pass",
                         pieces.size())
               .str();
}
