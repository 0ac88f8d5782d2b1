// SPDX-License-Identifier: Apache-2.0
#ifndef FCDP_TRANSFORMS_SHARDPASSES
#define FCDP_TRANSFORMS_SHARDPASSES

include "fcdp/Transforms/PassBase.td"

def ScaleLossPass : FcdpPass<"fcdp-scale-loss"> {
  let summary = "begin the backward pass with the loss scale and the loss's weight";
  let description = [{
    Requires phase `imported`. With `loss-scale=on`, the backward pass begins with the
    loss scale instead of 1. The program that runs the step sets the scale before each
    step. The scale is a number in f32 and is converted to the type of the loss. All
    gradients are then multiplied by it. `--fcdp-shard` adds the operation that divides
    them by it before they are used.

    With `loss-weight=INPUT`, the backward pass begins with the factor of the
    micro-batch's weight, times the loss scale if there is one, and the module gets the
    attribute `fcdp.loss_weight`. INPUT must be an input of integers, bools or floats of
    the step, and of the evaluation if there is one. A module that has the attribute
    keeps it.

    The backward pass of an exported step begins with the one `ones_like` of the loss. A
    step that already reads the loss scale, or the factor, does not change. The pass
    refuses a step without a backward pass, and a step in which it cannot find the
    beginning of the backward pass.

    Before:

    ```mlir
    fcdp.parameter @w : tensor<4x4xf16> unit "fc" trainable names ["w"]
    %w = fcdp.read_parameter @w : tensor<4x4xf16>
    %l = aten.call "aten.sum.default"(self = %w) : (tensor<4x4xf16>) -> tensor<f16>
    %one = aten.call "aten.ones_like.default"(self = %l) : (tensor<f16>) -> tensor<f16>
    %g = aten.call "aten.expand.default"(self = %one, size = [4, 4]) : (tensor<f16>) -> tensor<4x4xf16>
    fcdp.loss %l : tensor<f16>
    fcdp.gradient %g of @w : tensor<4x4xf16>
    ```

    After `--fcdp-scale-loss=loss-scale=on`:

    ```mlir
    %s = fcdp.read_loss_scale : tensor<f32>
    %one = aten.call "aten._to_copy.default"(self = %s, dtype = f16) : (tensor<f32>) -> tensor<f16>
    %g = aten.call "aten.expand.default"(self = %one, size = [4, 4]) ...
    ```

    After `--fcdp-scale-loss="loss-scale=on loss-weight=mask"`:

    ```mlir
    %f = fcdp.read_loss_weight : tensor<f32>
    %s = fcdp.read_loss_scale : tensor<f32>
    %fs = aten.call "aten.mul.Tensor"(self = %f, other = %s) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %one = aten.call "aten._to_copy.default"(self = %fs, dtype = f16) : (tensor<f32>) -> tensor<f16>
    ```
  }];
  let options = [LossScale, LossWeight];
}

def ChunkLossPass : FcdpPass<"fcdp-chunk-loss"> {
  let summary = "compute the last projection and its cross entropy in chunks of rows";
  let description = [{
    Requires phase `imported`. A projection to a vocabulary, the cross entropy of its
    result, and the backward pass of both become one call of `fcdp.chunked_loss`, in
    steps and in the evaluation. Logits are then never in memory as a whole. The gradient
    of the loss does not depend on the loss, so it is computed before.

    The pass recognizes the calls of `F.cross_entropy` and of Transformers' models: a
    product of rows with a transposed matrix (`mm`, or `addmm` with a bias), views,
    factors, one tanh (soft caps), one cast to f32, `_log_softmax`, and
    `nll_loss_forward`, with a sum, a mean or a loss for each row, and label smoothing.
    A loss by hand may have a `gather` of labels instead. Logits may be sliced along any
    other dimension than that of classes: the rows that are left out are computed with
    the others, and have no gradient.
    A frozen or tied head, and a step without a backward pass, are as good.

    Logits may be compared with a teacher's, with or without labels beside it: by a
    divergence (`F.kl_div` of a softmax, or of a log-softmax with `log_target`), or a
    cross entropy of probabilities (`F.cross_entropy`, torchtune's losses), added up over
    all classes of all rows or of each row, each model's logits with factors of its own.
    Such a loss is a call of `fcdp.chunked_distillation`, in which the teacher's logits
    are computed by chunks, too, if they are the result of a product.

    The pass errs on the side of the whole loss: it changes nothing if logits have
    another user, if classes have weights, if the loss is of images, or if the gradient
    of the loss depends on its value. A remark says why. With one thread of a CPU, loss
    and the gradient of the product's input keep their bits. The gradients of weight and
    bias are sums over chunks, in f32.

    With `loss-chunk=ROWS`, chunks have at most ROWS rows, begin at multiples of 16 rows
    (so ROWS is at least 16), and are of almost equal length. With `auto`, a loss is
    computed in chunks if its logits decide the peak of the results of operators, or if
    the whole does not fit `device-memory` or the cluster's devices beside sharded
    states. Chunks are then as small as pays: the gradient of the weight is read and
    written once for each. Values that `remat` will recompute do not count: they are
    chosen in copies of the step, with the whole loss and with one in chunks.

    In a model in bf16 or f16 with log-probabilities in f32, that gradient may also be
    computed by blocks of classes after the chunks, each from all rows, with its logits
    computed again. That is one product more, and no sum in f32 of the weight's size.
    `,sum` and `,blocks` after the rows select it; otherwise cost and memory do. A
    module that has `fcdp.loss_chunk` does not change.

    Before:

    ```mlir
    fcdp.parameter @w : tensor<8x4xf32> unit "head" trainable names ["w"]
    fcdp.input @rows : tensor<32x4xf32> name "rows"
    fcdp.input @y : tensor<32xi64> name "y"
    %w = fcdp.read_parameter @w : tensor<8x4xf32>
    %h = fcdp.read_input @rows : tensor<32x4xf32>
    %y = fcdp.read_input @y : tensor<32xi64>
    %t = aten.call "aten.t.default"(self = %w) : (tensor<8x4xf32>) -> tensor<4x8xf32>
    %z = aten.call "aten.mm.default"(self = %h, mat2 = %t) : (tensor<32x4xf32>, tensor<4x8xf32>) -> tensor<32x8xf32>
    %p = aten.call "aten._log_softmax.default"(self = %z, dim = 1, half_to_float = false) : (tensor<32x8xf32>) -> tensor<32x8xf32>
    %l:2 = aten.call "aten.nll_loss_forward.default"(self = %p, target = %y, weight = none, reduction = 1, ignore_index = -100) : (tensor<32x8xf32>, tensor<32xi64>) -> (tensor<f32>, tensor<f32>)
    %one = aten.call "aten.ones_like.default"(self = %l#0) : (tensor<f32>) -> tensor<f32>
    %dp = aten.call "aten.nll_loss_backward.default"(grad_output = %one, self = %p, target = %y, weight = none, reduction = 1, ignore_index = -100, total_weight = %l#1) : (tensor<f32>, tensor<32x8xf32>, tensor<32xi64>, tensor<f32>) -> tensor<32x8xf32>
    %dz = aten.call "aten._log_softmax_backward_data.default"(grad_output = %dp, output = %p, dim = 1, input_dtype = f32) : (tensor<32x8xf32>, tensor<32x8xf32>) -> tensor<32x8xf32>
    %dt = aten.call "aten.t.default"(self = %dz) : (tensor<32x8xf32>) -> tensor<8x32xf32>
    %dw = aten.call "aten.mm.default"(self = %dt, mat2 = %h) : (tensor<8x32xf32>, tensor<32x4xf32>) -> tensor<8x4xf32>
    fcdp.loss %l#0 : tensor<f32>
    fcdp.gradient %dw of @w : tensor<8x4xf32>
    ```

    After `--fcdp-chunk-loss=loss-chunk=16`:

    ```mlir
    %one = aten.call "aten.new_ones.default"(self = %h, size = [], dtype = f32) ...
    %l:4 = aten.call "fcdp.chunked_loss.default"(hidden = %h, weight = %w, bias = none, labels = %y, gradient = %one, sum_gradient = none, rows = 16, steps = "", factors = [], reduction = 1, ignore_index = -100, sums = false, output_mask = [false, true, false], workspace = 1728) ...
    fcdp.loss %l#0 : tensor<f32>
    fcdp.gradient %l#2 of @w : tensor<8x4xf32>
    ```
  }];
  let options = [
    LossChunk, Nodes, RanksPerNode, Optimizer, Group, Master, ReduceType, Remat,
    ClusterFile, ProfileFile, DeviceMemory
  ];
}

def PackFrozenPass : FcdpPass<"fcdp-pack-frozen"> {
  let summary = "pack frozen matrices, and unpack them right before each product";
  let description = [{
    Requires phase `imported`. The type of a frozen matrix becomes that of its packed
    bytes, which are made when weights are loaded, with the attribute `packed`. Right
    before each product that reads the matrix, a call of `fcdp.unpack_nf4` or
    `fcdp.unpack_int8` computes it, and views and casts are repeated after the call. So
    no unpacked matrix is kept from the forward to the backward pass. A cast from f32 to
    bf16 or f16 is dropped, because the matrix is rounded once in either case.

    The pass errs on the side of the whole matrix: it packs matrices that only `mm`,
    `addmm`, `linear` and `matmul` read, through views and casts, in all functions.
    A tied parameter stays whole. So does an output head: a matrix from whose product the
    loss is computed without another product. A remark says why. With `pack=PATTERN` a
    head is packed, too, and with `keep=PATTERN` matrices stay whole. A pattern that
    matches no frozen matrix is an error, as is a step without a matrix to pack and the
    target `cuda`. A module that has `fcdp.frozen` does not change.

    Before:

    ```mlir
    fcdp.parameter @base : tensor<4x4xf32> unit "base" names ["base"]
    fcdp.parameter @head : tensor<4x4xf32> unit "head" trainable names ["head"]
    %w = fcdp.read_parameter @base : tensor<4x4xf32>
    %h = fcdp.read_parameter @head : tensor<4x4xf32>
    %t = aten.call "aten.t.default"(self = %w) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %y = aten.call "aten.mm.default"(self = %x, mat2 = %t) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %z = aten.call "aten.mm.default"(self = %y, mat2 = %h) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %l = aten.call "aten.sum.default"(self = %z) : (tensor<4x4xf32>) -> tensor<f32>
    fcdp.loss %l : tensor<f32>
    ```

    After `--fcdp-pack-frozen=frozen=nf4`:

    ```mlir
    %b = fcdp.read_parameter @base : tensor<12xui8>
    %u = aten.call "fcdp.unpack_nf4.default"(packed = %b, size = [4, 4], dtype = f32) : (tensor<12xui8>) -> tensor<4x4xf32>
    %t = aten.call "aten.t.default"(self = %u) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %y = aten.call "aten.mm.default"(self = %x, mat2 = %t) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    ```
  }];
  let options = [Frozen];
}

def ShardPass : FcdpPass<"fcdp-shard"> {
  let summary = "shard parameters over a mesh and make the step a family of functions";
  let description = [{
    Requires phase `imported`. Every parameter is sharded over all ranks of a mesh of
    `nodes` x `ranks-per-node`. A parameter is gathered once per live range of its unit.
    A live range is a longest run of uses in program order without a use of another unit
    between them. So a block is gathered once in the forward and once in the backward
    pass, and an embedding that only the forward pass reads is gathered once, as is an
    output layer whose two uses are adjacent. Views of parameters are cloned to each use
    first, because a view that lives from the forward to the backward pass would keep
    the gathered copy alive. The casts of a parameter are cloned, too, if it is read
    only through casts to one narrower type, which `--fcdp-narrow-gathers` moves before
    the gather.

    Gradients are reduced as soon as they are computed, and are added to accumulators.
    `@step` becomes `@only_microbatch`, or, with more than one micro-batch,
    `@first_microbatch`, `@next_microbatch` and `@last_microbatch`; `@init` and
    `@update` are added. If the step reads the loss scale, `@update` begins with
    `fcdp.unscale_gradients`. `@evaluate` becomes `@first_evaluation` and
    `@next_evaluation`. With `@step.1` and so on, the micro-batches of each variant of
    the step are separate functions, such as `@first_microbatch.1`, which have the
    attribute `fcdp.variant`. All variants share the other functions.

    Each trained parameter is updated by `optimizer`. `muon` updates only matrices of
    hidden layers: parameters of two dimensions that are not looked up by
    `aten.embedding`, and that are not the last such parameter before the loss. The
    optimizer after `+` updates the others. `adafactor` updates all parameters. A group
    may name another choice.

    With `wrap=module`, each module that has parameters itself, such as a linear layer,
    becomes a unit. `--fcdp-remat` ran earlier, on the units of the model. If the
    backward pass recomputes a block of several such units, each of them is gathered
    once more. With `wrap=checkpoint`, units do not change, and a live range ends where
    recomputation ends. So a unit is gathered for the forward pass, for recomputation
    and for the backward pass. PyTorch's FSDP does this if it wraps modules within
    activation checkpoints. The module gets the attribute `fcdp.wrap`.

    This pass does not decide the layout of shards; `--fcdp-bucket` does. An operator
    that the compiler does not know may alias its operands; its results are not cloned.
    The pass errs on the side of gathering again.

    Before:

    ```mlir
    fcdp.parameter @w : tensor<4x4xf32> unit "fc" trainable names ["w"]
    func.func @step() {
      %x = fcdp.read_input @x : tensor<4x4xf32>
      %w = fcdp.read_parameter @w : tensor<4x4xf32>
      %y = aten.call "aten.mm.default"(self = %x, mat2 = %w) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %l = aten.call "aten.sum.default"(self = %y) : (tensor<4x4xf32>) -> tensor<f32>
      %g = aten.call "aten.mm.default"(self = %x, mat2 = %y) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      fcdp.loss %l : tensor<f32>
      fcdp.gradient %g of @w : tensor<4x4xf32>
      return
    }
    ```

    After `--fcdp-shard="nodes=2 ranks-per-node=2"`:

    ```mlir
    fcdp.mesh @world(node = 2, local = 2)
    ...
    func.func @only_microbatch() attributes {fcdp.role = #fcdp.role<only_microbatch>} {
      %x = fcdp.read_input @x : tensor<4x4xf32>
      %s = fcdp.read_shard @w : !fcdp.shard<tensor<4x4xf32>>
      %w = fcdp.all_gather %s of @w over @world[node, local] range 0 : !fcdp.shard<tensor<4x4xf32>> to tensor<4x4xf32>
      %y = aten.call "aten.mm.default"(self = %x, mat2 = %w) ...
      ...
      %g = aten.call "aten.mm.default"(self = %x, mat2 = %y) ...
      %r = fcdp.reduce_scatter %g of @w over @world[node, local] : tensor<4x4xf32> to !fcdp.shard<tensor<4x4xf32>>
      fcdp.accumulate %r into @w overwrite : !fcdp.shard<tensor<4x4xf32>>
      ...
    func.func @update() attributes {fcdp.role = #fcdp.role<update>} {
      fcdp.shard_update @w scale 2.500000e-01 with #fcdp.adamw<...>
    ```
  }];
  let options = [Nodes, RanksPerNode, MicroBatches, Optimizer, Group, ClipNorm, Wrap];
}

def NarrowGathersPass : FcdpPass<"fcdp-narrow-gathers"> {
  let summary = "gather in the narrow type that is used";
  let description = [{
    Requires phase `sharded` and gathers of single parameters (after `--fcdp-shard`). If
    every use of a parameter, in every function, reads it through a cast to one narrower
    floating-point type, the shard is cast before the gather. The collective then
    carries half the bytes, and the result is the same bit for bit. Views between gather
    and cast are kept if they show every element once. The pass errs on the side of not
    changing a parameter: it skips a parameter that is also read in its own type, in two
    types, through a slice, or by a copy to another memory format. If it skips a
    parameter only because of evaluations or other variants of the step, it warns.

    Before:

    ```mlir
    fcdp.parameter @w : tensor<4x4xf32> unit "fc" names ["w"]
    %s = fcdp.read_shard @w : !fcdp.shard<tensor<4x4xf32>>
    %w = fcdp.all_gather %s of @w over @world[node, local] range 0 : !fcdp.shard<tensor<4x4xf32>> to tensor<4x4xf32>
    %c = aten.call "aten._to_copy.default"(self = %w, dtype = bf16) : (tensor<4x4xf32>) -> tensor<4x4xbf16>
    %0 = aten.call "aten.mm.default"(self = %y, mat2 = %c) : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xbf16>
    ```

    After `--fcdp-narrow-gathers`:

    ```mlir
    %s = fcdp.read_shard @w : !fcdp.shard<tensor<4x4xf32>>
    %c = fcdp.cast_shard %s : !fcdp.shard<tensor<4x4xf32>> to !fcdp.shard<tensor<4x4xbf16>>
    %w = fcdp.all_gather %c of @w over @world[node, local] range 0 : !fcdp.shard<tensor<4x4xbf16>> to tensor<4x4xbf16>
    %0 = aten.call "aten.mm.default"(self = %y, mat2 = %w) ...
    ```
  }];
}

def BucketPass : FcdpPass<"fcdp-bucket"> {
  let summary = "fix the storage layout: one flat bucket per unit, type and trainability";
  let description = [{
    Requires phase `sharded` and gathers of single parameters. Parameters of one unit,
    storage type, wire type, gradient type and trainability form a bucket, in PyTorch's
    parameter order. Parameters that no function reads form buckets that are never
    gathered. Parameters with different optimizers are in different buckets. If an
    optimizer needs a layout, its buckets have that layout: `owned` for whole matrices,
    `blocks<256>` for moments in 8 bits. Members start at multiples of 64 bytes, and a
    bucket is padded to equal shards of a multiple of 64 bytes. `sharding` selects the
    ranks that states are sharded over. The layout is final: later passes only move
    whole buckets, except that `--fcdp-decide` may merge them.

    `layout` selects the blocks that no shard boundary may split (see `#fcdp.layout`).
    Members keep their order and are placed so that shards are as small as that allows,
    after veScale-FSDP (arXiv 2602.22437).

    With `master` f32, a bucket of trained parameters in a narrower type gets a state
    `master`, a copy of the shard in f32 that the optimizer updates, and the optimizer's
    own states are in f32, too. Gathers and reductions do not change.

    With `reduce-dtype`, gradients of another type are converted to it when they are
    packed, and the bucket's `reduce` says so. If the model has just widened a gradient
    from that type, the gradient from before the widening is packed, which has the same
    value bit for bit.

    The duration of a small collective is nearly all latency. So buckets that differ
    only in their unit, and are neighbours in the order of parameters, are merged up to
    `bucket-bytes`. (PyTorch FSDP's gathers lose efficiency below 33 million elements,
    arXiv 2304.11277.) The copy of a merged bucket is in memory from the first to the
    last use of its units, in the forward and in the backward pass. It is gathered as
    often as the unit that is used most often.

    The gathers of one live range become one gather at the place of the first, and
    parameters become views of its result. Gradients are packed into a bucket and
    reduced together as soon as the last of them is computed. The reduced gradient is
    accumulated when the next bucket is packed, so that the reduction overlaps with the
    backward pass of the next unit. If a rank owns more than one of the G shards, the
    copy is gathered only over the remaining axes (none, if the rank owns the whole
    bucket), and the reduced gradient, in f32, is gathered over the others. Sums and
    their order are the same as with `world`.

    Before:

    ```mlir
    fcdp.parameter @w : tensor<4x4xf32> unit "fc" names ["w"]
    fcdp.parameter @b : tensor<4xf32> unit "fc" names ["b"]
    %0 = fcdp.read_shard @w : !fcdp.shard<tensor<4x4xf32>>
    %w = fcdp.all_gather %0 of @w over @world[node, local] range 0 : !fcdp.shard<tensor<4x4xf32>> to tensor<4x4xf32>
    %1 = fcdp.read_shard @b : !fcdp.shard<tensor<4xf32>>
    %b = fcdp.all_gather %1 of @b over @world[node, local] range 0 : !fcdp.shard<tensor<4xf32>> to tensor<4xf32>
    %y0 = aten.call "aten.addmm.default"(self = %b, mat1 = %x, mat2 = %w) : (tensor<4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    ```

    After `--fcdp-bucket`:

    ```mlir
    fcdp.bucket @bucket.fc.frozen unit "fc" elements 64 storage f32 wire f32 members [@w at 0, @b at 16]
    fcdp.state @bucket.fc.frozen.shard shard of @bucket.fc.frozen in device : tensor<16xf32>
    ...
    %0 = fcdp.read_shard @bucket.fc.frozen : tensor<16xf32>
    %1 = fcdp.all_gather %0 of @bucket.fc.frozen over @world[node, local] range 0 : tensor<16xf32> to tensor<64xf32>
    %w = fcdp.view_member %1 @w of @bucket.fc.frozen : tensor<64xf32> to tensor<4x4xf32>
    %b = fcdp.view_member %1 @b of @bucket.fc.frozen : tensor<64xf32> to tensor<4xf32>
    ```
  }];
  let options = [
    Layout, BucketBytes, Master, ReduceType,
    Option<"sharding", "sharding", "std::string", "\"world\"",
           "selects the ranks over which parameters, gradients and optimizer state are "
           "sharded: 'world'; 'node', which gathers within nodes only; 'none', which "
           "gathers nothing; 'auto' leaves it to --fcdp-decide (default: world)">,
    Option<"openMerging", "open-merging", "bool", "false",
           "lets --fcdp-decide merge the remaining buckets; states must be sharded over "
           "all ranks, or their sharding left open">
  ];
}

#endif // FCDP_TRANSFORMS_SHARDPASSES
