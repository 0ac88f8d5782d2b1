// SPDX-License-Identifier: Apache-2.0

#include "Verify/VerifyPhase.h"
#include "dialects/Fcdp/StepFamily.h"
#include "fcdp/Analysis/Casts.h"
#include "fcdp/Analysis/StepFunctions.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/MapVector.h"

namespace fcdp {
#define GEN_PASS_DEF_NARROWGATHERSPASS
#include "fcdp/Transforms/Passes.h.inc"
} // namespace fcdp

using namespace mlir;
using namespace fcdp;

namespace {
/// The gathers of a parameter by steps, or by evaluations.
class Reads {
public:
  void add(AllGatherOp gather) {
    FloatType type = findNarrowReadType(gather.getResult());
    narrowed = gathers.empty() || narrowed == type ? type : FloatType();
    gathers.push_back(gather);
  }
  bool empty() const { return gathers.empty(); }
  /// The narrower type that all are read in; null if there is none.
  FloatType getType() const { return narrowed; }
  ArrayRef<AllGatherOp> getGathers() const { return gathers; }

private:
  FloatType narrowed;
  SmallVector<AllGatherOp> gathers;
};

struct ParameterReads {
  Reads step, evaluation;

  /// The narrower type that the parameter is gathered in, or null. A parameter
  /// has one wire type, so all its gathers must agree.
  FloatType getType() const {
    if (step.empty() || evaluation.empty())
      return (step.empty() ? evaluation : step).getType();
    return step.getType() == evaluation.getType() ? step.getType()
                                                  : FloatType();
  }
  /// Whether steps would gather it in a narrower type if it were not for
  /// evaluations.
  bool isWidened() const {
    return !step.empty() && step.getType() && !getType();
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

/// Gives `value` and the views on it the element type `type`, and drops the
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
  getOperation().emitWarning("the step reads ")
      << llvm::count_if(parameters, isWidened) << " parameters, such as @"
      << first->first.getValue() << ", in " << first->second.step.getType()
      << ", and the evaluation does not: both gather their full width; "
         "export the evaluation under the same autocast";
}

void NarrowGathersPass::runOnOperation() {
  if (failed(requirePhase(getOperation(), Phase::sharded)))
    return signalPassFailure();
  ReadsOfAll parameters;
  for (auto function : getOperation().getOps<func::FuncOp>())
    for (auto gather : function.getOps<AllGatherOp>())
      if (isa<ShardType>(gather.getInput().getType())) {
        ParameterReads &reads = parameters[gather.getSourceAttr().getAttr()];
        (isEvaluation(getRole(function)) ? reads.evaluation : reads.step)
            .add(gather);
      }
  warnOfWidened(parameters);
  for (auto &[name, reads] : parameters)
    if (FloatType type = reads.getType())
      for (const Reads *some : {&reads.step, &reads.evaluation})
        for (AllGatherOp gather : some->getGathers())
          narrow(gather, type);
}
