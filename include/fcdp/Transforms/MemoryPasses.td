// SPDX-License-Identifier: Apache-2.0
#ifndef FCDP_TRANSFORMS_MEMORYPASSES
#define FCDP_TRANSFORMS_MEMORYPASSES

include "fcdp/Transforms/PassBase.td"

def MakeGradientsInPlacePass : FcdpPass<"fcdp-make-gradients-in-place"> {
  let summary = "make operators write gradients straight into their bucket";
  let description = [{
    Requires phase `scheduled`. A gradient need not be copied if an operator with an
    out-variant (`aten.mm.out`) computes it and only the pack of its bucket reads it.
    The operator then writes the gradient to its place in the bucket. The kernel is the
    same, and so are the bits. The memory of the whole bucket is then in use from the
    first such gradient instead of from the pack, and these gradients need no other
    memory. So the pass chooses, for each bucket, the gradients that are computed while
    there is room for the bucket, by lifetimes and with a margin, because packing leaves
    gaps.

    The planned memory of a device does not grow. The pass places buffers as
    `--fcdp-plan-memory` would. If that takes more memory than with copies, only some
    packs keep their choice, the later ones first, found by a search that makes few
    plans. The decision is the attribute `in_place` of the pack. An attribute that is
    given is kept, and an empty one means that all gradients are copied.

    The pass errs on the side of copying: gradients that are read twice, transposed or
    cast, packs that start an accumulator, and gradients whose reduction is in flight
    over the function boundary.

    Before:

    ```mlir
    %g = aten.call "aten.mm.default"(self = %x, mat2 = %y) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %p = fcdp.pack @bucket.a(%g as @a) : (tensor<8x8xf32>) -> tensor<64xf32>
    ```

    After `--fcdp-make-gradients-in-place`:

    ```mlir
    %g = aten.call "aten.mm.default"(self = %x, mat2 = %y) ...
    %p = fcdp.pack @bucket.a(%g as @a) {in_place = [@a]} : (tensor<8x8xf32>) -> tensor<64xf32>
    ```
  }];
}

def PlanMemoryPass : FcdpPass<"fcdp-plan-memory"> {
  let summary = "give every buffer its place in an arena";
  let description = [{
    Requires phase `scheduled`; gives phase `planned`. States get places for the whole
    job. The values of a function share the memory after the states by lifetime. They
    also share the memory of prefetched copies before these are in flight and after
    their last use. Memory of late accumulates stays reserved in the next function until
    compute has waited for them. The input of a gather is placed inside its result if
    nothing else needs it, and a reduction writes straight into the gradient accumulator
    that it starts. Records get event numbers, which are unique in the module; tokens
    that are passed as the same argument share one. Results of ATen operators use the
    free memory between values and after the last one: values are placed so that both
    together need little memory.

    Before:

    ```mlir
    %r = fcdp.record on compute
    fcdp.wait %r on h2d
    %slice = fcdp.cache_load @bucket.a.cache on h2d : tensor<32xf32>
    %loaded = fcdp.record on h2d
    fcdp.wait %loaded on intra
    %whole = fcdp.all_gather %slice of @bucket.a over @world[local] range 0 on intra : tensor<32xf32> to tensor<64xf32>
    %gathered = fcdp.record on intra
    fcdp.wait %gathered on compute
    fcdp.release %slice : tensor<32xf32>
    fcdp.release %whole : tensor<64xf32>
    ```

    After `--fcdp-plan-memory`:

    ```mlir
    %r = fcdp.record on compute event 0
    fcdp.wait %r on h2d
    %slice = fcdp.cache_load @bucket.a.cache on h2d {buffer = #fcdp.buffer<arena = device, offset = 512, bytes = 128, local_stride = 128>} : tensor<32xf32>
    %loaded = fcdp.record on h2d event 1
    fcdp.wait %loaded on intra
    %whole = fcdp.all_gather %slice of @bucket.a over @world[local] range 0 on intra {buffer = #fcdp.buffer<arena = device, offset = 512, bytes = 256>} : tensor<32xf32> to tensor<64xf32>
    ```
  }];
}

#endif // FCDP_TRANSFORMS_MEMORYPASSES
