// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Report/StepFacts.h"

using namespace mlir;
using namespace fcdp;

std::string fcdp::describeBoundedMessages(ModuleOp module) {
  int64_t deltas = 0, coded = 0;
  for (auto bucket : module.getOps<BucketOp>()) {
    deltas += bucket.getGatherWire() == Wire::delta;
    coded += bucket.getReduceWire() == Wire::coded;
  }
  if (deltas == 0 && coded == 0)
    return "";
  return std::to_string(deltas) + " buckets gathered as differences, " +
         std::to_string(coded) + " reduced with coded exponents";
}
