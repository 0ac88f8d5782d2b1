// SPDX-License-Identifier: Apache-2.0
#ifndef FCDP_TRANSFORMS_RECOMPUTEPASSES
#define FCDP_TRANSFORMS_RECOMPUTEPASSES

include "fcdp/Transforms/PassBase.td"

def DecideRematPass : FcdpPass<"fcdp-decide-remat"> {
  let summary = "choose the values that the backward pass recomputes";
  let description = [{
    Requires phase `imported`. The forward pass consists of the operations up to the
    one that computes the loss. A value of the forward pass that later operations read
    is either kept in device memory until then or recomputed from kept values. The
    pass writes `fcdp.recompute = true` on calls to recompute, and records on the
    module that it ran. A call that already has the attribute keeps it, be it `true`
    or `false`.

    Calls in a region of `torch.utils.checkpoint` (`fcdp.checkpoint_region`) are
    recomputed with every value of the option, except for calls that may run only once
    and calls whose results the forward pass reads outside of the region. That may cost
    one more gather of a parameter if a region spans several units.

    - `none`: nothing else is recomputed.
    - `unit`: in each unit (for example a transformer block), every value is recomputed
      whose recomputation frees memory. Little more is kept than the values that one
      unit passes to the next.
    - a number of bytes: as little as possible is recomputed, measured by the time that
      calls take on `cluster`, so that the kept values fit that many bytes. Without a
      cluster, time is estimated from bytes moved and floating-point operations at the
      rates of an A100. Memory that the backward pass allocates is not counted.

    The unit of a call is the unit of its module path; without a path, the unit of the
    parameters that it reads; without parameters, the unit of the preceding calls. A
    call after all units, such as the loss, has none. A value that another unit reads is
    kept. By itself, the pass never recomputes a call that draws or may draw random
    numbers (dropout, and operators that the compiler does not know), a call that reads
    a buffer that the step changes (statistics of batch norm), or a call that would cost
    one more gather of a parameter, because the backward pass of its unit does not read
    the parameter's bucket anyway. `optimizer`, `group` and `reduceType` say which
    parameters of a unit will share a bucket. It errs on the side of keeping values.

    Before:

    ```mlir
    fcdp.parameter @w : tensor<4x4xf32> unit "block" trainable names ["w"]
    fcdp.parameter @h : tensor<4x4xf32> unit "head" names ["h"]
    %w = fcdp.read_parameter @w : tensor<4x4xf32>
    %h = fcdp.read_parameter @h : tensor<4x4xf32>
    %p = aten.call "aten.mm.default"(self = %x, mat2 = %w) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %s = aten.call "aten.mul.Tensor"(self = %p, other = %p) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %y = aten.call "aten.mm.default"(self = %s, mat2 = %h) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %l = aten.call "aten.sum.default"(self = %y) : (tensor<4x4xf32>) -> tensor<f32>
    %g = aten.call "aten.mm.default"(self = %p, mat2 = %w) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    fcdp.loss %l : tensor<f32>
    fcdp.gradient %g of @w : tensor<4x4xf32>
    ```

    After `--fcdp-decide-remat=remat=unit`:

    ```mlir
    %p = aten.call "aten.mm.default"(self = %x, mat2 = %w) {fcdp.recompute = true} : ...
    ```
  }];
  let options = [Remat, Optimizer, Group, ReduceType, ClusterFile, ProfileFile];
}

def RematPass : FcdpPass<"fcdp-remat"> {
  let summary = "recompute forward values in the backward pass";
  let description = [{
    Requires phase `imported`. The pass copies each call of the forward pass that has
    `fcdp.recompute = true` to the first operation of the backward pass that needs it,
    after the copies that the call itself needs, and together with the views of its
    results. Results are the same bit for bit, because the same calls read the same
    values. If `--fcdp-decide-remat` chose the call, the unit's backward pass gathers
    the parameters that it reads anyway; a choice by hand may cost a gather. The
    attribute stays on the first of the two calls, so that CSE does not merge them. The
    second call gets `fcdp.repeated`, unless only the backward pass needs the results
    and the first call is erased.

    Before:

    ```mlir
    fcdp.parameter @w : tensor<4x4xf32> unit "block" trainable names ["w"]
    fcdp.parameter @h : tensor<4x4xf32> unit "head" names ["h"]
    %w = fcdp.read_parameter @w : tensor<4x4xf32>
    %h = fcdp.read_parameter @h : tensor<4x4xf32>
    %p = aten.call "aten.mm.default"(self = %x, mat2 = %w) {fcdp.recompute = true} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %s = aten.call "aten.mul.Tensor"(self = %p, other = %p) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %y = aten.call "aten.mm.default"(self = %s, mat2 = %h) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %l = aten.call "aten.sum.default"(self = %y) : (tensor<4x4xf32>) -> tensor<f32>
    %g = aten.call "aten.mm.default"(self = %p, mat2 = %w) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    fcdp.loss %l : tensor<f32>
    fcdp.gradient %g of @w : tensor<4x4xf32>
    ```

    After `--fcdp-remat`:

    ```mlir
    %p = aten.call "aten.mm.default"(self = %x, mat2 = %w) {fcdp.recompute = true} : ...
    %s = aten.call "aten.mul.Tensor"(self = %p, other = %p) ...
    ...
    %again = aten.call "aten.mm.default"(self = %x, mat2 = %w) {fcdp.repeated} : ...
    %g = aten.call "aten.mm.default"(self = %again, mat2 = %w) : ...
    ```
  }];
}

#endif // FCDP_TRANSFORMS_RECOMPUTEPASSES
