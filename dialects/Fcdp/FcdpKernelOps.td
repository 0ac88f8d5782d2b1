// SPDX-License-Identifier: Apache-2.0
//
// Kernels that the compiler writes.
#ifndef FCDP_FCDP_KERNEL_OPS
#define FCDP_FCDP_KERNEL_OPS

include "dialects/Fcdp/FcdpBase.td"

def Fcdp_KernelOp : Fcdp_SymbolOp<"kernel", !listconcat(
    [IsolatedFromAbove, SingleBlock], Always)> {
  let summary = "a function of elements that the compiler generates code for";
  let description = [{
    The body computes one element of each result from one element of each operand.
    Calls are calls of the operator `fcdp.kernel.NAME`, where the symbol is
    `@kernel.NAME`, with the tensors as the list `operands`. Each result has the shape of
    the first operand whose map is `identity`. All such operands have as many elements.
    They are seen as rows, whose width is the number of elements of operands with the map
    `row`, and whose number is that of operands with the map `column`.

    Arithmetic is in f32, and each rounding to bf16 and each fused multiply-add is an
    operation of the body, so that all back ends compute the same bits. `math.exp` is
    Sleef's `expf` with an error of at most 1.0 ulp, bit for bit.

    Example:
    ```mlir
    fcdp.kernel @kernel.mul_add maps [identity, row, identity] {
    ^bb0(%x: f32, %w: bf16, %y: f32):
      %0 = arith.extf %w : bf16 to f32
      %1 = arith.mulf %x, %0 : f32
      %2 = arith.addf %1, %y : f32
      fcdp.yield %1, %2 : f32, f32
    }
    ```

    Constraints:
    - (C1) The name is `kernel.NAME`, where NAME has letters, digits and `_`.
    - (C2) The body has an argument of f32 or bf16 for each map, and at least one map is
      `identity`.
    - (C3) Operations of the body are `arith.constant`, `addf`, `subf`, `mulf`, `divf`, `negf`,
      `extf`, `truncf`, and `math.fma`, `sqrt` and `exp`. They compute in f32, without
      flags of fast math. `extf` extends bf16, and `truncf` rounds to it.
    - (C4) Operands and results are at most 16, and operations of the body at most 512.
    - (C5) A call gives tensors of these types and numbers of elements, and has a result
      for each value of `fcdp.yield`, of its type. Passes and the conversion to a plan
      check this.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Fcdp_KernelMapsAttr:$maps);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name `maps` custom<KernelMaps>($maps) attr-dict-with-keyword $body";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Returns the name without `kernel.`.
    ::llvm::StringRef getShortName();
    /// Returns the types of the results' elements.
    ::mlir::TypeRange getResultElements();
  }];
}

def Fcdp_YieldOp : Fcdp_Op<"yield", !listconcat(
    [Terminator, Pure, HasParent<"::fcdp::KernelOp">, RunsNothing, TakesNoTime], Always)> {
  let summary = "give the elements of a kernel's results";
  let description = [{
    Example:
    ```mlir
    fcdp.kernel @kernel.neg maps [identity] {
    ^bb0(%x: f32):
      %0 = arith.negf %x : f32
      fcdp.yield %0 : f32
    }
    ```

    Constraints:
    - (C1) There is at least one value, and values are of f32 or bf16.
  }];
  let arguments = (ins Variadic<AnyTypeOf<[F32, BF16]>>:$values);
  let assemblyFormat = "$values attr-dict `:` type($values)";
  let hasVerifier = 1;
}

#endif // FCDP_FCDP_KERNEL_OPS
