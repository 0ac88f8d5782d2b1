// SPDX-License-Identifier: Apache-2.0
#ifndef FCDP_CONVERSION_PASSES
#define FCDP_CONVERSION_PASSES

include "mlir/Pass/PassBase.td"

def ConvertFcdpToLLVMPass : Pass<"convert-fcdp-to-llvm", "::mlir::ModuleOp"> {
  let summary = "turn a planned step into calls of the runtime";
  let description = [{
    Requires a module in phase `planned`; gives a module of the LLVM dialect.
    Every function becomes `void fcdp_ROLE(fcdp_step *)` with one call
    `fcdp_rt_KIND(step, op)` for each operation that does something, in order.
    What the calls mean stands in the manifest (docs/manifest.md), a constant of
    the module, and so do the values of buffers that are not persistent.

    An operation that the runtime has no call for is an error. The same module
    gives the same bytes. Time and output are linear in the operations: values
    live in numbered slots, and no SSA value but the step reaches a call.
  }];
  let options = [
    Option<"archive", "archive", "std::string", "\"\"",
           "where the values of constants are read; the archive that the module "
           "names if empty. For a module that travelled without its archive">
  ];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
}

#endif // FCDP_CONVERSION_PASSES
