// SPDX-License-Identifier: Apache-2.0
#ifndef FCDP_FCDP_DIALECT
#define FCDP_FCDP_DIALECT

include "mlir/IR/OpBase.td"

def Fcdp_Dialect : Dialect {
  let name = "fcdp";
  let cppNamespace = "::fcdp";
  let summary = "sharded parameters, their collectives and their copies";
  let description = [{
    A training step passes through four phases. The module's attribute
    `fcdp.phase` names the current one, and every operation has traits that say
    in which phases it may appear.

    1. **imported**: one function `@step` computes loss and gradients of one
       rank's micro-batch. Parameters, buffers and inputs are symbols.
    2. **sharded**: parameters are sharded over a mesh and grouped in buckets.
       Gathers, reductions, host-cache copies and the optimizer are operations
       with value semantics. The step is a family of functions.
    3. **scheduled**: communication and copies run on named streams, waits are
       explicit, and the order of operations is the order of issue. A function
       returns a token for work that is still in flight at its end, and the
       next function takes the token as an argument.
    4. **planned**: every buffer has a location in an arena, and every token is
       an event. `fcdp.event` on an argument is the event of the live-in token.
  }];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
}

#endif // FCDP_FCDP_DIALECT
