// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Planning/Overlap/OverlapAnalysis.h"
#include "fcdp/Analysis/Aliases.h"
#include "fcdp/Planning/Activations/StoredActivations.h"
#include "fcdp/Simulation/StepProgram.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;
using namespace fcdp;

/// Divides the function at the points where transfers may be issued, and
/// measures the parts between them.
class FunctionOverlap::Builder {
public:
  Builder(FunctionOverlap &overlap, func::FuncOp function,
          const CostModel &model)
      : overlap(overlap), problem(overlap.problem), function(function),
        model(model), reductions(function.front()) {}
  void build();

private:
  void cut();
  void addCompute();
  void addActivations();
  void addSlices();
  void addFetches();
  void addReductions();

  int64_t positionOf(Operation *op) const { return positions.lookup(op); }
  /// Returns the piece that contains `position`.
  size_t pieceAt(int64_t position) const;
  size_t pieceOf(Operation *op) const { return pieceAt(positionOf(op)); }
  OverlapProblem::Stage describe(Operation *op) const;
  /// Adds bytes to all pieces that intersect the positions [begin, end).
  void hold(int64_t begin, int64_t end, int64_t bytes);

  FunctionOverlap &overlap;
  OverlapProblem &problem;
  func::FuncOp function;
  const CostModel &model;
  GradientSums reductions;
  llvm::DenseMap<Operation *, int64_t> positions;
  /// The position at which each piece begins.
  std::vector<int64_t> begins;
  /// The operations that run beside compute.
  llvm::SmallPtrSet<Operation *, 32> transfers;
};

static int64_t bytesOf(Value value) {
  return byteSize(cast<RankedTensorType>(value.getType()));
}

size_t FunctionOverlap::Builder::pieceAt(int64_t position) const {
  return llvm::upper_bound(begins, position) - begins.begin() - 1;
}

/// Divides before the first use of each copy, before each unit's first pack,
/// before each accumulator that is read, and after each reduction.
void FunctionOverlap::Builder::cut() {
  for (Operation &op : function.front())
    positions.try_emplace(&op, positions.size());
  begins = {0};
  for (const Fetch &fetch : overlap.fetches)
    begins.push_back(positionOf(fetch.use));
  for (Operation *pack : reductions.getFirstPacks())
    begins.push_back(positionOf(pack));
  for (const GradientSum &sum : reductions.get()) {
    begins.push_back(positionOf(sum.steps.back()) + 1);
    if (sum.isRead)
      begins.push_back(positionOf(sum.sum));
  }
  llvm::sort(begins);
  begins.erase(llvm::unique(begins), begins.end());
  problem.pieces.resize(begins.size());
  std::optional<size_t> range;
  for (const Fetch &fetch : overlap.fetches) {
    // A range has one place, before the first use of a copy.
    if (fetch.range != range)
      problem.pieces[pieceOf(fetch.use)].mayFetch = true;
    range = fetch.range;
  }
  for (Operation *pack : reductions.getFirstPacks())
    problem.pieces[pieceOf(pack)].mayAccumulate = true;
}

OverlapProblem::Stage FunctionOverlap::Builder::describe(Operation *op) const {
  return {static_cast<uint8_t>(chooseStream(op)), getActivity(op),
          model.costOf(op), isa<CacheStoreOp>(op)};
}

void FunctionOverlap::Builder::addFetches() {
  llvm::DenseMap<Attribute, int64_t> stores;
  for (auto store : function.getOps<CacheStoreOp>())
    stores[store.getTargetAttr()] = positionOf(store);
  size_t place = 0;
  std::optional<size_t> range;
  for (const Fetch &fetch : overlap.fetches) {
    if (fetch.range != range)
      place = pieceOf(fetch.use);
    range = fetch.range;
    OverlapProblem::Fetch &added = problem.fetches.emplace_back();
    added.needed = place;
    int64_t needs = -1;
    for (Operation *op : fetch.ops) {
      if (chooseStream(op) != Stream::compute) {
        added.stages.push_back(describe(op));
        transfers.insert(op);
      }
      for (Value operand : op->getOperands())
        if (!llvm::is_contained(fetch.ops, operand.getDefiningOp()))
          needs = std::max(needs, positionOf(operand.getDefiningOp()));
      if (auto load = dyn_cast<CacheLoadOp>(op))
        if (auto it = stores.find(load.getSourceAttr()); it != stores.end())
          needs = std::max(needs, it->second);
    }
    while (added.earliest < added.needed &&
           (begins[added.earliest] <= needs ||
            !problem.pieces[added.earliest].mayFetch))
      ++added.earliest;
    Value copy = fetch.last->getResult(0);
    added.bytes = getInto(fetch.last) ? 0 : bytesOf(copy);
    added.until =
        std::max(place, pieceAt(positionOf(findLastMemoryUser(copy))));
  }
}

/// Returns the collectives, and the copies of an accumulator in host memory:
/// its load, which counts as the first transfer, and its store.
static SmallVector<Operation *> findTransfers(const GradientSum &sum) {
  SmallVector<Operation *> transfers;
  if (sum.add)
    if (Operation *load = AddOp(sum.add).getSum().getDefiningOp())
      transfers.push_back(load);
  llvm::append_range(transfers, sum.steps);
  if (isa<CacheStoreOp>(sum.sum))
    transfers.push_back(sum.sum);
  return transfers;
}

void FunctionOverlap::Builder::addReductions() {
  for (const GradientSum &sum : reductions.get()) {
    OverlapProblem::Reduction &added = problem.reductions.emplace_back();
    overlap.sums.push_back(sum);
    for (Operation *step : findTransfers(sum)) {
      transfers.insert(step);
      added.stages.push_back(describe(step));
    }
    added.issued = pieceOf(sum.steps.back());
    Operation *input = sum.steps.front()->getOperand(0).getDefiningOp();
    bool isPacked = isa_and_present<PackOp>(input);
    // The packed gradients, and scratch.
    added.bytes =
        (isPacked ? 2 : 1) * bytesOf(sum.steps.front()->getOperand(0));
    if (sum.add) // the loaded value, the reduced value, and their sum
      added.bytes += 3 * bytesOf(AddOp(sum.add).getResult());
    Operation *place = reductions.findPlace(sum, /*inFlight=*/1);
    if (sum.isRead || !place) {
      added.earliest = std::max(pieceOf(sum.sum), added.issued + 1);
      added.latest = added.earliest;
      continue;
    }
    bool isEnd = place == function.front().getTerminator();
    added.earliest = std::max(isEnd ? problem.pieces.size() : pieceOf(place),
                              added.issued + 1);
    added.latest = problem.pieces.size();
  }
}

void FunctionOverlap::Builder::addCompute() {
  for (Operation &op : function.front()) {
    if (transfers.contains(&op))
      continue;
    Cost cost = model.costOf(&op);
    OverlapProblem::Piece &piece = problem.pieces[pieceOf(&op)];
    piece.seconds += cost.getTotal();
    piece.deviceMemory += cost.deviceMemory;
  }
}

void FunctionOverlap::Builder::hold(int64_t begin, int64_t end, int64_t bytes) {
  for (size_t piece = pieceAt(begin);
       piece < begins.size() && begins[piece] < end; ++piece)
    problem.pieces[piece].bytes += bytes;
}

/// Adds states, and the greatest sum of results of operators in each piece.
void FunctionOverlap::Builder::addActivations() {
  int64_t states = 0;
  for (auto state : function->getParentOfType<ModuleOp>().getOps<StateOp>())
    if (state.getArena() == Arena::device)
      states += byteSize(state.getTensorType());
  for (auto [position, results] :
       llvm::enumerate(measureKeptActivations(function, model))) {
    int64_t &bytes = problem.pieces[pieceAt(position)].bytes;
    bytes = std::max(bytes, states + results);
  }
}

/// Adds slices that several fetches share, from the first fetch to the last.
void FunctionOverlap::Builder::addSlices() {
  for (const Fetch &fetch : overlap.fetches)
    for (Operation *op : fetch.ops) {
      CollectiveOpInterface gather = asGather(op);
      if (!gather || op == fetch.last || getInto(op))
        continue;
      int64_t last = positionOf(findLastMemoryUser(gather.getResult()));
      if (last > positionOf(fetch.use))
        hold(positionOf(fetch.use), last + 1, bytesOf(gather.getResult()));
    }
}

void FunctionOverlap::Builder::build() {
  cut();
  addFetches();
  addReductions();
  addCompute();
  addActivations();
  addSlices();
}

FunctionOverlap::FunctionOverlap(func::FuncOp function, const CostModel &model,
                                 int64_t deviceBudget)
    : fetches(findFetches(function.front())) {
  problem.deviceBudget = deviceBudget;
  auto module = function->getParentOfType<ModuleOp>();
  problem.ahead = getPrefetch(module);
  problem.inFlight = getReductions(module);
  Builder(*this, function, model).build();
}

void FunctionOverlap::write(const OverlapSolution &solution) {
  for (auto [i, fetch] : llvm::enumerate(fetches))
    if (!problem.ahead && !getPrefetch(fetch.last))
      setPrefetch(fetch.last, problem.countAhead(solution.fetched[i],
                                                 problem.fetches[i].needed));
  for (auto [i, sum] : llvm::enumerate(sums))
    if (!problem.inFlight && !getReductions(sum.sum) &&
        problem.reductions[i].latest > problem.reductions[i].earliest)
      setReductions(sum.sum,
                    1 + problem.countInFlight(problem.reductions[i].earliest,
                                              solution.accumulated[i]));
}

llvm::Error
fcdp::decideOverlap(ModuleOp module, const CostModel &model,
                    int64_t deviceBudget,
                    function_ref<void(func::FuncOp, const OverlapProblem &,
                                      const OverlapSolution &)>
                        visit,
                    bool mayMove) {
  if (getPrefetch(module) && getReductions(module))
    return llvm::Error::success();
  std::optional<AllOnHost> moved;
  for (auto function : module.getOps<func::FuncOp>()) {
    std::optional<FunctionOverlap> overlap(std::in_place, function, model,
                                           deviceBudget);
    if (overlap->getProblem().fetches.empty() &&
        overlap->getProblem().reductions.empty())
      continue;
    llvm::Expected<OverlapSolution> solution =
        planOverlap(overlap->getProblem());
    if (!solution && mayMove && !moved) {
      llvm::consumeError(solution.takeError());
      moved.emplace(module, model);
      overlap.emplace(function, model, deviceBudget);
      solution = planOverlap(overlap->getProblem());
    }
    if (!solution)
      return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                     "@" + function.getSymName() + ": " +
                                         toString(solution.takeError()));
    overlap->write(*solution);
    if (visit)
      visit(function, overlap->getProblem(), *solution);
  }
  return llvm::Error::success();
}
