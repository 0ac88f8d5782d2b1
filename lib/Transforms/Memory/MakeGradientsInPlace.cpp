// SPDX-License-Identifier: Apache-2.0

#include "Verify/VerifyPhase.h"
#include "fcdp/Analysis/InPlaceGradients.h"
#include "fcdp/Planning/Memory/BufferPlans.h"
#include "fcdp/Planning/Memory/InPlacePlanning.h"
#include "fcdp/Planning/Memory/PoolProblem.h"
#include "fcdp/Planning/Memory/SharedArena.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/Remarks.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

#include <map>

namespace fcdp {
#define GEN_PASS_DEF_MAKEGRADIENTSINPLACEPASS
#include "fcdp/Transforms/Passes.h.inc"
} // namespace fcdp

using namespace mlir;
using namespace fcdp;

namespace {
/// Gradients that may be written in place for `pack`.
struct Choice {
  PackOp pack;
  ArrayAttr inPlace;
};

/// The decisions about one function.
struct Described {
  FailureOr<SmallVector<Choice>> choose(int64_t limit);

  func::FuncOp function;
  SmallVector<PackOp> packs;
  /// Gradients by pack, in the order in which they are computed.
  SmallVector<SmallVector<InPlaceGradient>> gradients;
  /// One bucket for each pack.
  InPlaceProblem problem;
};

class MakeGradientsInPlacePass
    : public fcdp::impl::MakeGradientsInPlacePassBase<
          MakeGradientsInPlacePass> {
public:
  void runOnOperation() override;

private:
  LogicalResult describe(func::FuncOp function);
  LogicalResult decide();
  LogicalResult apply(func::FuncOp function, ArrayRef<Choice> choices,
                      int64_t &tries);

  std::vector<Described> functions;
  BufferPlans *plans = nullptr;
  /// Bytes of the arena if all gradients are copied.
  int64_t copied = 0;
};
} // namespace

static InPlaceProblem::Bucket
describePack(PackOp pack, ArrayRef<InPlaceGradient> gradients,
             const llvm::DenseMap<Operation *, int64_t> &positions) {
  InPlaceProblem::Bucket bucket;
  bucket.bytes =
      llvm::alignTo(byteSize(pack.getResult().getType()), kBufferAlignment);
  bucket.packed = positions.lookup(pack);
  for (InPlaceGradient gradient : gradients) {
    auto type =
        cast<RankedTensorType>(gradient.producer->getResult(0).getType());
    bucket.gradients.push_back(
        {positions.lookup(gradient.producer), getPoolBytes(byteSize(type))});
  }
  return bucket;
}

LogicalResult MakeGradientsInPlacePass::describe(func::FuncOp function) {
  Described described;
  described.function = function;
  llvm::DenseMap<Operation *, int64_t> positions;
  for (Operation &op : function.front())
    positions.try_emplace(&op, positions.size());
  for (auto pack : function.getOps<PackOp>()) {
    if (pack.getInPlaceAttr())
      continue; // a given one wins
    SmallVector<InPlaceGradient> gradients = findInPlaceGradients(pack);
    if (gradients.empty())
      continue;
    llvm::sort(gradients, [&](const auto &a, const auto &b) {
      return positions.lookup(a.producer) < positions.lookup(b.producer);
    });
    described.problem.buckets.push_back(
        describePack(pack, gradients, positions));
    described.packs.push_back(pack);
    described.gradients.push_back(std::move(gradients));
  }
  FailureOr<PackingProblem> values =
      describeBuffers(function, plans->getTimeline(), plans->getStates());
  if (failed(values))
    return failure();
  described.problem.inUse = measureUse(
      function, *values, plans->getTimeline().lookup(function).results,
      plans->getStates().deviceBytes);
  if (llvm::Error error = described.problem.check())
    return function.emitError("gradients in place: ")
           << toString(std::move(error));
  functions.push_back(std::move(described));
  return success();
}

/// Returns the choices that lifetimes allow if `limit` bytes may be in use at
/// once.
FailureOr<SmallVector<Choice>> Described::choose(int64_t limit) {
  problem.limit = limit;
  InPlaceSolution solution = planInPlace(problem);
  if (llvm::Error error = solution.verify(problem))
    return function.emitError("gradients in place: ")
           << toString(std::move(error));
  SmallVector<Choice> choices;
  for (size_t i = 0; i < packs.size(); ++i) {
    SmallVector<Attribute> parameters;
    for (auto [gradient, known] :
         llvm::zip_equal(gradients[i], problem.buckets[i].gradients))
      if (known.made >= solution.begins[i])
        parameters.push_back(gradient.parameter);
    if (!parameters.empty())
      choices.push_back(
          {packs[i], ArrayAttr::get(function.getContext(), parameters)});
  }
  return choices;
}

/// Applies the `choices` with which the arena of `function` is not larger than
/// with copies, in at most `tries` plans.
LogicalResult MakeGradientsInPlacePass::apply(func::FuncOp function,
                                              ArrayRef<Choice> choices,
                                              int64_t &tries) {
  if (choices.empty() || tries-- <= 0)
    return success();
  FailureOr<const BufferPlan *> plan = plans->lookup(function);
  if (failed(plan))
    return failure();
  BufferPlan before = **plan;
  for (Choice choice : choices)
    choice.pack.setInPlaceAttr(choice.inPlace);
  plan = plans->replan(function);
  if (failed(plan))
    return failure();
  if ((*plan)->arenaBytes <= copied)
    return success();
  for (Choice choice : choices)
    choice.pack.removeInPlaceAttr();
  plans->restore(function, std::move(before));
  if (choices.size() == 1)
    return success();
  // Later choices use less memory.
  size_t half = choices.size() / 2;
  if (failed(apply(function, choices.drop_front(half), tries)))
    return failure();
  return apply(function, choices.take_front(half), tries);
}

/// Decides by lifetimes, which tell the bytes in use. Packing needs more memory
/// than that, and other lifetimes may increase it further, so each choice is
/// packed.
LogicalResult MakeGradientsInPlacePass::decide() {
  // A share of 1 / kMargin of the bytes in use is left to packing.
  constexpr int64_t kMargin = 64;
  // The number of operations in all plans that are tried, which take less than
  // half a second.
  constexpr int64_t kMostOperations = 100000;
  // All functions share one arena, so each may use as much as the one that
  // needs the most.
  int64_t inUse = 0, open = 0;
  for (const Described &described : functions) {
    FailureOr<const BufferPlan *> plan = plans->lookup(described.function);
    if (failed(plan))
      return failure();
    copied = std::max(copied, (*plan)->arenaBytes);
    inUse = std::max(inUse, *llvm::max_element(described.problem.inUse));
    open += !described.packs.empty();
  }
  for (Described &described : functions) {
    FailureOr<SmallVector<Choice>> choices =
        described.choose(inUse - inUse / kMargin);
    auto size = static_cast<int64_t>(described.problem.inUse.size());
    int64_t tries = std::max<int64_t>(
        kMostOperations / std::max<int64_t>(open, 1) / size, 1);
    if (failed(choices) || failed(apply(described.function, *choices, tries)))
      return failure();
  }
  return success();
}

/// Emits remarks on the gradients of `function` that are copied because they
/// cannot be written in place, one for each reason.
static void remarkOnRefused(func::FuncOp function) {
  std::map<std::string, size_t> copies;
  size_t all = 0;
  for (auto pack : function.getOps<PackOp>())
    for (Value gradient : pack.getValues()) {
      ++all;
      if (std::string reason = findReasonToCopy(pack, gradient);
          !reason.empty())
        ++copies[reason];
    }
  for (auto &[reason, count] : copies)
    remark::missed(function.getLoc(),
                   remark::RemarkOpts::name("refused")
                       .category("fcdp-make-gradients-in-place")
                       .function(function.getSymName()))
        << llvm::formatv("@{0} copies {1} of {2} gradients into their buckets, "
                         "because {3}",
                         function.getSymName(), count, all, reason)
               .str();
}

/// Emits a remark for each pack on the gradients that are copied for lack of
/// memory.
static void remarkOnCopies(const Described &described) {
  for (auto [pack, gradients] :
       llvm::zip_equal(described.packs, described.gradients)) {
    ArrayAttr inPlace = PackOp(pack).getInPlaceAttr();
    size_t copied = gradients.size() - (inPlace ? inPlace.size() : 0);
    if (copied == 0)
      continue;
    remark::missed(pack->getLoc(),
                   remark::RemarkOpts::name("copies")
                       .category("fcdp-make-gradients-in-place")
                       .function(func::FuncOp(described.function).getSymName()))
        << llvm::formatv("bucket {0}: {1} of {2} gradients are copied into the "
                         "bucket, for want of room for the bucket while they "
                         "are made",
                         PackOp(pack).getBucket(), copied, gradients.size())
               .str();
  }
}

void MakeGradientsInPlacePass::runOnOperation() {
  ModuleOp module = getOperation();
  if (failed(requirePhase(module, Phase::scheduled)) ||
      failed(verifyOneLevel(module)))
    return signalPassFailure();
  functions.clear();
  copied = 0;
  plans = &getAnalysis<BufferPlans>();
  markAnalysesPreserved<BufferPlans>();
  for (auto function : module.getOps<func::FuncOp>())
    if (failed(describe(function)))
      return signalPassFailure();
  bool isOpen = llvm::any_of(functions, [](const Described &described) {
    return !described.packs.empty();
  });
  if (isOpen && failed(decide()))
    return signalPassFailure();
  if (!getContext().getRemarkEngine())
    return;
  for (const Described &described : functions) {
    remarkOnCopies(described);
    remarkOnRefused(described.function);
  }
}
