// SPDX-License-Identifier: Apache-2.0

#include "PhasePasses.h"

#include "fcdp/Transforms/Passes.h"

using namespace mlir;
using namespace fcdp;

void fcdp::buildDecided(OpPassManager &pm) {
  // The order matters: the cache keeps the slice that a gather between nodes
  // yields, and the result of a reduction within the node may be accumulated.
  pm.addPass(createTwoLevelPass());
  pm.addPass(createAccumulatePass());
  pm.addPass(createCachePass());
  // Gathers may refer to the copies in host memory, so this pass follows the
  // one that stores them.
  pm.addPass(createCodeWiresPass());
  pm.addPass(createStreamStatesPass());
}

void fcdp::buildOrdered(OpPassManager &pm) {
  pm.addPass(createPrefetchPass());
  pm.addPass(createPrefetchAcrossPass());
  pm.addPass(createDelaySumsPass());
  // This runs when it is known where gradients are accumulated.
  pm.addPass(createUpdateEarlyPass());
}

void fcdp::buildScheduled(OpPassManager &pm, const Cluster &cluster) {
  buildOrdered(pm);
  // Values that attributes put into host memory.
  pm.addPass(createStoreActivationsPass({}, cluster));
  pm.addPass(createSchedulePass());
}
