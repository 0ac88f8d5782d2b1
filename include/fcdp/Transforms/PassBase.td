// SPDX-License-Identifier: Apache-2.0
#ifndef FCDP_TRANSFORMS_PASSBASE
#define FCDP_TRANSFORMS_PASSBASE

include "fcdp/Transforms/PipelineOptions.td"

// Each description shows what the pass does to a fragment of a module, or what it
// refuses; test/lit/Docs/passes.test runs these examples.
class FcdpPass<string name> : Pass<name, "::mlir::ModuleOp"> {
  let dependentDialects = ["::fcdp::FcdpDialect", "::fcdp::aten::AtenDialect",
                           "::mlir::func::FuncDialect"];
}

#endif // FCDP_TRANSFORMS_PASSBASE
