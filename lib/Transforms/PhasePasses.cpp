// SPDX-License-Identifier: Apache-2.0

#include "PhasePasses.h"

#include "fcdp/Transforms/Passes.h"

using namespace mlir;
using namespace fcdp;

void fcdp::buildDecided(OpPassManager &pm) {
  // The slice that a gather between nodes yields is what is cached, and what a
  // reduction within the node yields may be what is summed.
  pm.addPass(createTwoLevelPass());
  pm.addPass(createAccumulatePass());
  pm.addPass(createCachePass());
  // What is stored in host memory is what gathers may refer to.
  pm.addPass(createCodeWiresPass());
}

void fcdp::buildScheduled(OpPassManager &pm) {
  pm.addPass(createPrefetchPass());
  pm.addPass(createPrefetchAcrossPass());
  pm.addPass(createDelaySumsPass());
  pm.addPass(createSchedulePass());
}
