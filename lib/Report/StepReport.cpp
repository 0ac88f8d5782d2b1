// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Report/StepReport.h"

using namespace mlir;
using namespace fcdp;

FailureOr<StepReport> fcdp::makeReport(llvm::StringRef input, ModuleOp module,
                                       const Cluster &cluster,
                                       MemoryCapacity capacity) {
  FailureOr<StepFacts> facts = measureStep(module);
  if (failed(facts))
    return failure();
  StepPrediction prediction = simulateOn(module, cluster).prediction;
  prediction.bounds = boundOn(module, cluster);
  return StepReport{input.str(), std::move(*facts), prediction, capacity,
                    describeBuckets(module, CostModel(cluster))};
}
