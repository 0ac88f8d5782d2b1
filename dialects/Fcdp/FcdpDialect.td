// SPDX-License-Identifier: Apache-2.0
#ifndef FCDP_FCDP_DIALECT
#define FCDP_FCDP_DIALECT

include "mlir/IR/OpBase.td"

def Fcdp_Dialect : Dialect {
  let name = "fcdp";
  let cppNamespace = "::fcdp";
  let summary = "sharded parameters, their collectives and their copies";
  let description = [{
    A training step passes through four phases; the module's attribute
    `fcdp.phase` names the one that it is in, and every operation says in which
    phases it may appear.

    1. **imported**: one function `@step` computes loss and gradients of one
       rank's micro-batch. Parameters, buffers and inputs are symbols.
    2. **sharded**: parameters are cut over a mesh and belong to buckets;
       gathers, reductions, host-cache copies and the optimizer are operations
       with value semantics. The step is a family of functions.
    3. **scheduled**: communication and copies run on named streams, waits are
       explicit, and the order of operations is the order of issue. What is in
       flight when a function ends is a token among its results, and an argument
       of the next.
    4. **planned**: every buffer has its place in an arena and every token is
       an event; `fcdp.event` on an argument is that of the function before.
  }];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
}

#endif // FCDP_FCDP_DIALECT
