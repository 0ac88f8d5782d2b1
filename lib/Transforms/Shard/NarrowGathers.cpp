// SPDX-License-Identifier: Apache-2.0

#include "Verify/VerifyPhase.h"
#include "dialects/Fcdp/StepFamily.h"
#include "fcdp/Analysis/Casts.h"
#include "fcdp/Analysis/StepFunctions.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/MapVector.h"
#include <map>

namespace fcdp {
#define GEN_PASS_DEF_NARROWGATHERSPASS
#include "fcdp/Transforms/Passes.h.inc"
} // namespace fcdp

using namespace mlir;
using namespace fcdp;

namespace {
/// The gathers of a parameter by a variant of the step, or by evaluations.
class Reads {
public:
  void add(AllGatherOp gather) {
    FloatType type = findNarrowReadType(gather.getResult());
    narrowed = gathers.empty() || narrowed == type ? type : FloatType();
    gathers.push_back(gather);
  }
  bool empty() const { return gathers.empty(); }
  /// Returns the narrower type that all of them are read in; null if there is
  /// none.
  FloatType getType() const { return narrowed; }
  ArrayRef<AllGatherOp> getGathers() const { return gathers; }

private:
  FloatType narrowed;
  SmallVector<AllGatherOp> gathers;
};

struct ParameterReads {
  /// The gathers of the step, by variant.
  std::map<int64_t, Reads> steps;
  Reads evaluation;

  Reads &readsOf(func::FuncOp function) {
    if (isEvaluation(getRole(function)))
      return evaluation;
    return steps[findVariant(function).value_or(0)];
  }
  /// Returns the reads of all functions that read the parameter.
  SmallVector<const Reads *> getAll() const {
    SmallVector<const Reads *> all;
    for (auto &[variant, reads] : steps)
      all.push_back(&reads);
    if (!evaluation.empty())
      all.push_back(&evaluation);
    return all;
  }
  /// Returns the narrower type of all of `reads`, or null if they differ.
  static FloatType findCommonType(ArrayRef<const Reads *> reads) {
    bool isCommon = llvm::all_of(reads, [&](const Reads *some) {
      return some->getType() == reads.front()->getType();
    });
    return isCommon ? reads.front()->getType() : FloatType();
  }
  /// Returns the narrower type that the parameter is gathered in, or null. A
  /// parameter has one wire type, so all its gathers must agree.
  FloatType getType() const { return findCommonType(getAll()); }
  /// Returns the narrower type in which some variant reads the parameter, or
  /// null.
  FloatType findStepType() const {
    for (auto &[variant, reads] : steps)
      if (FloatType type = reads.getType())
        return type;
    return {};
  }
  /// Returns whether some variant alone would gather it in a narrower type.
  bool isWidened() const { return findStepType() && !getType(); }
  bool areStepsDifferent() const {
    return llvm::any_of(steps, [&](const auto &entry) {
      return entry.second.getType() != findStepType();
    });
  }
};

class NarrowGathersPass
    : public fcdp::impl::NarrowGathersPassBase<NarrowGathersPass> {
public:
  void runOnOperation() override;

private:
  using ReadsOfAll = llvm::MapVector<StringAttr, ParameterReads>;
  void warnOfWidened(const ReadsOfAll &parameters);
};
} // namespace

/// Changes the element type of `value` and its views to `type`, and drops the
/// casts to it.
static void retype(Value value, Type type) {
  for (Operation *user : llvm::make_early_inc_range(value.getUsers())) {
    if (isWholeView(user)) {
      retype(user->getResult(0), type);
      continue;
    }
    user->getResult(0).replaceAllUsesWith(value);
    user->erase();
  }
  value.setType(cast<RankedTensorType>(value.getType()).clone(type));
}

static void narrow(AllGatherOp gather, Type type) {
  OpBuilder builder(gather);
  auto shard = cast<ShardType>(gather.getInput().getType());
  auto narrowed =
      ShardType::get(builder.getContext(),
                     cast<RankedTensorType>(shard.getWhole().clone(type)));
  auto cast = CastShardOp::create(builder, gather.getLoc(), narrowed,
                                  gather.getInput(), BufferAttr());
  gather.getInputMutable().assign(cast);
  retype(gather.getResult(), type);
}

void NarrowGathersPass::warnOfWidened(const ReadsOfAll &parameters) {
  auto isWidened = [](const auto &entry) { return entry.second.isWidened(); };
  const auto *first = llvm::find_if(parameters, isWidened);
  if (first == parameters.end())
    return;
  bool isOfSteps = first->second.areStepsDifferent();
  getOperation().emitWarning(isOfSteps ? "a variant of the step reads "
                                       : "the step reads ")
      << llvm::count_if(parameters, isWidened) << " parameters, such as @"
      << first->first.getValue() << ", in " << first->second.findStepType()
      << ", and " << (isOfSteps ? "another one" : "the evaluation")
      << " does not: both gather their full width; export "
      << (isOfSteps ? "all variants" : "the evaluation")
      << " under the same autocast";
}

void NarrowGathersPass::runOnOperation() {
  if (failed(requirePhase(getOperation(), Phase::sharded)))
    return signalPassFailure();
  ReadsOfAll parameters;
  for (auto function : getOperation().getOps<func::FuncOp>())
    for (auto gather : function.getOps<AllGatherOp>())
      if (isa<ShardType>(gather.getInput().getType()))
        parameters[gather.getSourceAttr().getAttr()].readsOf(function).add(
            gather);
  warnOfWidened(parameters);
  for (auto &[name, reads] : parameters)
    if (FloatType type = reads.getType())
      for (const Reads *some : reads.getAll())
        for (AllGatherOp gather : some->getGathers())
          narrow(gather, type);
}
