// SPDX-License-Identifier: Apache-2.0

#include "VerifyPhase.h"
#include "fcdp/Transforms/Strategy.h"

#include "mlir/IR/Builders.h"

namespace fcdp {
#define GEN_PASS_DEF_DECIDEPASS
#include "fcdp/Transforms/Passes.h.inc"
} // namespace fcdp

using namespace mlir;
using namespace fcdp;

namespace {
class DecidePass : public fcdp::impl::DecidePassBase<DecidePass> {
public:
  using DecidePassBase::DecidePassBase;
  void runOnOperation() override;
};
} // namespace

/// Writes what is not given. A given residency also holds between
/// micro-batches.
static void decide(BucketOp bucket, const Strategy &strategy) {
  if (!bucket.getResidency()) {
    bucket.setResidency(strategy.residency);
    if (!bucket.getCarry() && strategy.carry != strategy.residency)
      bucket.setCarry(strategy.carry);
  }
  if (bucket.getTrainable() && !bucket.getAccumulation() &&
      strategy.accumulation != Accumulation::sharded)
    bucket.setAccumulation(strategy.accumulation);
}

/// Gives what `parsed` holds, or an error of `module` about `option`.
template <typename T>
static FailureOr<T> check(ModuleOp module, StringRef option,
                          llvm::Expected<T> parsed) {
  if (parsed)
    return *parsed;
  return module.emitError(option) << ": " << toString(parsed.takeError());
}

void DecidePass::runOnOperation() {
  ModuleOp module = getOperation();
  if (failed(requirePhase(module, Phase::sharded)))
    return signalPassFailure();
  FailureOr<Strategy> preset =
      check(module, "strategy", parseStrategy(strategy));
  if (failed(preset))
    return signalPassFailure();
  if (!accumulate.empty()) {
    FailureOr<Accumulation> given =
        check(module, "accumulate", parseAccumulation(accumulate));
    if (failed(given))
      return signalPassFailure();
    preset->accumulation = *given;
  }
  bool decided = !module->hasAttr(kStrategyAttr);
  for (auto bucket : module.getOps<BucketOp>()) {
    decided |= !bucket.getResidency();
    decide(bucket, *preset);
  }
  if (decided)
    module->setAttr(kStrategyAttr, StringAttr::get(&getContext(), strategy));
}
