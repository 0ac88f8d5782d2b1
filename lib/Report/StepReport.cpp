// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Report/StepReport.h"

using namespace mlir;
using namespace fcdp;

FailureOr<StepReport> fcdp::makeReport(llvm::StringRef input, ModuleOp module,
                                       const StepPrediction &prediction,
                                       const Cluster &cluster,
                                       MemoryCapacity capacity) {
  FailureOr<StepFacts> facts = measureStep(module);
  if (failed(facts))
    return failure();
  return StepReport{input.str(), std::move(*facts), prediction, capacity,
                    describeBuckets(module, CostModel(cluster))};
}
