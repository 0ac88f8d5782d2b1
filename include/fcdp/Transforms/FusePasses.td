// SPDX-License-Identifier: Apache-2.0
#ifndef FCDP_TRANSFORMS_FUSEPASSES
#define FCDP_TRANSFORMS_FUSEPASSES

include "fcdp/Transforms/PassBase.td"

def FusePass : FcdpPass<"fcdp-fuse"> {
  let summary = "turn chains of pointwise operators into kernels";
  let description = [{
    Requires phase `imported`, after values to recompute are chosen. With `fuse=exact`,
    pointwise operators on contiguous tensors of f32 and bf16, of which one makes what
    another reads or which read the same value, become one call of a kernel,
    `fcdp.kernel`. Equal kernels of a module are one. The operators are `add`, `sub`,
    `mul`, `div`, `neg`, `rsqrt`, `sigmoid`, `silu`, `silu_backward` and casts between
    the two types. Each result is rounded where the operator rounds it.

    A cluster is not made if its values would take more bytes than before at any time,
    or if a parameter would be gathered more often. Calls of different regions of
    `torch.utils.checkpoint`, and recomputed calls and others, do not share a kernel.
    ATen computes sigmoid and its like with other bits for the last elements of tensors
    whose number is no multiple of 64, so these calls stay as they are. So do casts of
    parameters and of gradients, which other passes look for.

    A step for the target `cuda` is refused.

    Before:

    ```mlir
    %s = aten.call "aten.silu.default"(self = %q) : (tensor<2x4x16x8xbf16>) -> tensor<2x4x16x8xbf16>
    %y = aten.call "aten.mul.Tensor"(self = %s, other = 2) : (tensor<2x4x16x8xbf16>) -> tensor<2x4x16x8xbf16>
    %l = aten.call "aten.sum.default"(self = %y) : (tensor<2x4x16x8xbf16>) -> tensor<bf16>
    fcdp.loss %l : tensor<bf16>
    ```

    After `--fcdp-fuse=fuse=exact`:

    ```mlir
    fcdp.kernel @kernel.silu_mul maps [identity] {
    ^bb0(%arg0: bf16):
    ...
    %y = aten.call "fcdp.kernel.silu_mul"(operands = [%q]) : (tensor<2x4x16x8xbf16>) -> tensor<2x4x16x8xbf16>
    %l = aten.call "aten.sum.default"(self = %y) ...
    ```
  }];
  let options = [Fuse];
  let dependentDialects = ["::fcdp::FcdpDialect", "::fcdp::aten::AtenDialect",
                           "::mlir::arith::ArithDialect", "::mlir::func::FuncDialect",
                           "::mlir::math::MathDialect"];
}

#endif // FCDP_TRANSFORMS_FUSEPASSES
