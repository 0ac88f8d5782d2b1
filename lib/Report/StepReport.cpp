// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Report/StepReport.h"

using namespace mlir;
using namespace fcdp;

StepReport fcdp::makeReport(llvm::StringRef input, ModuleOp module,
                            const StepFacts &facts,
                            const StepPrediction &prediction,
                            const Cluster &cluster, MemoryCapacity capacity) {
  return {input.str(), facts, prediction, capacity,
          describeBuckets(module, CostModel(cluster))};
}
