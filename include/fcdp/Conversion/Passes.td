// SPDX-License-Identifier: Apache-2.0
#ifndef FCDP_CONVERSION_PASSES
#define FCDP_CONVERSION_PASSES

include "mlir/Pass/PassBase.td"

def ConvertFcdpToLLVMPass : Pass<"convert-fcdp-to-llvm", "::mlir::ModuleOp"> {
  let summary = "turn a planned step into the data of an object";
  let description = [{
    Requires a module in phase `planned`; gives a module of the LLVM dialect
    that has constants only (runtime/include/fcdp/runtime.h): the plan, which is
    FlatBuffers by the schema runtime/plan/Plan.fbs, its hash, and the values of
    buffers that are not persistent.

    An operation that the runtime has no call for is an error. The same module
    gives the same bytes. Time and output are linear in the operations.
  }];
  let options = [
    Option<"archive", "archive", "std::string", "\"\"",
           "where the values of constants are read; the archive that the module "
           "names if empty. For a module that travelled without its archive">
  ];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
}

#endif // FCDP_CONVERSION_PASSES
