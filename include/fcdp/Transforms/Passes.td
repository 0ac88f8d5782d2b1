// SPDX-License-Identifier: Apache-2.0
#ifndef FCDP_TRANSFORMS_PASSES
#define FCDP_TRANSFORMS_PASSES

// One file for each folder of lib/Transforms.
include "fcdp/Transforms/RetargetPasses.td"
include "fcdp/Transforms/RecomputePasses.td"
include "fcdp/Transforms/FusePasses.td"
include "fcdp/Transforms/ShardPasses.td"
include "fcdp/Transforms/DecidePasses.td"
include "fcdp/Transforms/SchedulePasses.td"
include "fcdp/Transforms/ActivationPasses.td"
include "fcdp/Transforms/MemoryPasses.td"
include "fcdp/Transforms/VerifyPasses.td"

#endif // FCDP_TRANSFORMS_PASSES
