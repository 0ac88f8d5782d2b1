// SPDX-License-Identifier: Apache-2.0
#ifndef FCDP_CONVERSION_PASSES
#define FCDP_CONVERSION_PASSES

include "mlir/Pass/PassBase.td"

def ConvertFcdpToLLVMPass : Pass<"convert-fcdp-to-llvm", "::mlir::ModuleOp"> {
  let summary = "turn a planned step into the data of an object";
  let description = [{
    Requires phase `planned`; gives a module of the LLVM dialect that has
    constants (runtime/include/fcdp/runtime.h): the plan, encoded with FlatBuffers
    by the schema runtime/plan/Plan.fbs, its hash, and the values of buffers that are
    not persistent. Kernels, which the plan has as text, stay operations beside it, of
    which the code of an object is made.

    An operation that the runtime has no call for is an error. The same module
    gives the same bytes. Time and output are linear in the operations.

    Before:

    ```mlir
    %shard = fcdp.read_shard @bucket.a : tensor<64xf32>
    %a = fcdp.view_member %shard @a of @bucket.a : tensor<64xf32> to tensor<64xf32>
    %l = aten.call "aten.sum.default"(self = %a) : (tensor<64xf32>) -> tensor<f32>
    fcdp.loss %l : tensor<f32>
    ```

    After `--convert-fcdp-to-llvm`:

    ```mlir
    llvm.mlir.global external constant @fcdp_abi_version(...
    llvm.mlir.global external constant @fcdp_plan("...
    llvm.mlir.global external constant @fcdp_plan_size(...
    llvm.mlir.global external constant @fcdp_plan_hash("...
    llvm.mlir.global external constant @fcdp_constants("...
    llvm.mlir.global external constant @fcdp_constants_size(...
    ```
  }];
  let options = [
    Option<"archive", "archive", "std::string", "\"\"",
           "reads the values of constants from this archive, for a module that was moved "
           "without its archive (default: the archive that the module names)">
  ];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
}

#endif // FCDP_CONVERSION_PASSES
