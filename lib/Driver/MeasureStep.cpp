// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Driver/MeasureStep.h"

using namespace mlir;
using namespace fcdp;

namespace {
class MeasureStepPass
    : public PassWrapper<MeasureStepPass, OperationPass<ModuleOp>> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(MeasureStepPass)
  explicit MeasureStepPass(std::function<LogicalResult(StepFacts)> use)
      : use(std::move(use)) {}

  StringRef getArgument() const final { return "fcdp-measure-step"; }

  void runOnOperation() override {
    markAllAnalysesPreserved();
    FailureOr<const DeviceMemory *> memory =
        getAnalysis<DeviceMemoryAnalysis>().get();
    if (failed(memory) || failed(use(measureStep(getOperation(), **memory))))
      signalPassFailure();
  }

private:
  std::function<LogicalResult(StepFacts)> use;
};
} // namespace

std::unique_ptr<Pass>
fcdp::createMeasureStepPass(std::function<LogicalResult(StepFacts)> use) {
  return std::make_unique<MeasureStepPass>(std::move(use));
}
