// SPDX-License-Identifier: Apache-2.0
#ifndef FCDP_TRANSFORMS_PASSES
#define FCDP_TRANSFORMS_PASSES

include "fcdp/Transforms/PipelineOptions.td"

// Each description shows what the pass does to a fragment of a module, or what it
// refuses; test/lit/Docs/passes.test runs these examples.
class FcdpPass<string name> : Pass<name, "::mlir::ModuleOp"> {
  let dependentDialects = ["::fcdp::FcdpDialect", "::fcdp::aten::AtenDialect",
                           "::mlir::func::FuncDialect"];
}

def RetargetPass : FcdpPass<"fcdp-retarget"> {
  let summary = "make a step that was exported on a CPU one for CUDA";
  let description = [{
    Requires phase `imported`. With target `cuda`, calls that create tensors create
    them on CUDA. Attention is the one operator of common models for which PyTorch
    has a CPU operator of its own. It becomes the flash kernel (f16 or bf16, no mask,
    head dimensions up to 256) or the memory-efficient kernel (all other cases). The
    pass does what PyTorch's `scaled_dot_product_attention` does for these kernels:
    it pads head dimensions to multiples of 8, aligns the rows of a mask to multiples
    of 8 elements, and repeats key heads until there are as many as query heads.
    Results keep the shapes of the CPU operator, and also its order of dimensions in
    memory, since views may rely on it. The import recorded that order on the call as
    `fcdp.dim_order`; a result is copied if the kernel's order differs. Numbers differ
    as far as the kernels sum in another order.

    The pass writes `fcdp.target` on the module. A step that was exported on CUDA has
    this attribute from the import, and only loses its device numbers, because each
    rank has one device, `cuda`. Without a target the step stays as it is. The pass
    refuses operators that PyTorch has for the CPU only, and attention in f64. Running
    it again changes nothing.

    Before:

    ```mlir
    %z = aten.call "aten.zeros.default"(size = [4], device = #aten.device<"cpu">) : () -> tensor<4xf32>
    %a:2 = aten.call "aten._scaled_dot_product_flash_attention_for_cpu.default"(query = %q, key = %q, value = %q, is_causal = true) : (tensor<2x4x16x8xbf16>, tensor<2x4x16x8xbf16>, tensor<2x4x16x8xbf16>) -> (tensor<2x4x16x8xbf16>, tensor<2x4x16xf32>)
    ```

    After `--fcdp-retarget=target=cuda`:

    ```mlir
    %z = aten.call "aten.zeros.default"(size = [4], device = #aten.device<"cuda">) : () -> tensor<4xf32>
    %a:5 = aten.call "aten._scaled_dot_product_flash_attention.default"(query = %q, key = %q, value = %q, ...is_causal = true) ...
    ```
  }];
  let options = [Target];
}

def DecideRematPass : FcdpPass<"fcdp-decide-remat"> {
  let summary = "choose what the backward pass recomputes";
  let description = [{
    Requires phase `imported`. The forward pass consists of the operations up to the
    one that computes the loss. A value of the forward pass that later operations read
    is either kept in device memory until then or recomputed from kept values. The
    pass writes `fcdp.recompute = true` on calls to recompute, and records on the
    module that it ran. A call that already has the attribute keeps it, be it `true`
    or `false`.

    Calls in a region of `torch.utils.checkpoint` (`fcdp.checkpoint_region`) are
    recomputed with every value of the option, but for those that may run only once
    and those whose results the forward pass reads outside of the region. That may cost
    one more gather of a parameter where a region spans several units.

    - `none`: nothing else is recomputed.
    - `unit`: in each unit (for example a transformer block), all that frees memory is
      recomputed. Little more is kept than the values that one unit passes to the next.
    - a number of bytes: as little as possible is recomputed, measured by the time that
      calls take on `cluster`, so that the kept values fit that many bytes. Without a
      cluster, time is estimated from bytes moved and floating-point operations at the
      rates of an A100. Memory that the backward pass allocates is not counted.

    The unit of a call is the unit of its module path; without a path, the unit of the
    parameters that it reads; without parameters, the unit of the preceding calls. A
    call after all units, such as the loss, has none. A value that another unit reads
    is kept. By itself, the pass never recomputes a call that draws or may draw random
    numbers (dropout, and operators that the compiler does not know), a call that reads
    a buffer that the step changes (statistics of batch norm), or a call that would
    cost one more gather of a parameter. It errs on the side of keeping values.

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
  let options = [Remat, ClusterFile, ProfileFile];
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

def ShardPass : FcdpPass<"fcdp-shard"> {
  let summary = "shard parameters over a mesh and make the step a family of functions";
  let description = [{
    Requires phase `imported`. Every parameter is sharded over all ranks of a mesh of
    `nodes` x `ranks-per-node`. A parameter is gathered once per live range of its
    unit. A live range is a longest run of uses in program order without a use of
    another unit between them. So a block is gathered once in the forward and once in
    the backward pass, and an embedding that only the forward pass reads is gathered
    once, as is an output layer whose two uses are adjacent. Views of parameters are
    cloned to each use first, because a view that lives from the forward to the
    backward pass would keep the gathered copy alive. The same holds for the casts of a
    parameter that is read only through casts to one narrower type, which
    `--fcdp-narrow-gathers` moves before the gather.

    Gradients are reduced as soon as they are computed, and are added to accumulators.
    `@step` becomes `@only_microbatch`, or, with more than one micro-batch,
    `@first_microbatch`, `@next_microbatch` and `@last_microbatch`; `@init` and
    `@update` are added.

    The layout of shards is left open; `--fcdp-bucket` fixes it. An operator that the
    compiler does not know may alias its operands; its results are not cloned. The pass
    errs on the side of gathering again.

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
  let options = [Nodes, RanksPerNode, MicroBatches, Optimizer, ClipNorm];
}

def NarrowGathersPass : FcdpPass<"fcdp-narrow-gathers"> {
  let summary = "gather in the narrow type that is used";
  let description = [{
    Requires phase `sharded` and gathers of single parameters (after `--fcdp-shard`). If
    every use of a parameter, in every function, reads it through a cast to one narrower
    floating-point type, the shard is cast before the gather. The collective then
    carries half the bytes, and the result is the same bit for bit. Views between gather
    and cast stay if they show every element once. The pass errs on the side of leaving
    a parameter alone: it skips a parameter that is also read in its own type, in two
    types, through a slice, or by a copy to another memory format.

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
    gathered. All parameters must have one optimizer. Members start at multiples of 64
    bytes, and a bucket is padded to equal shards of a multiple of 64 bytes. `sharding`
    selects the ranks that states are sharded over. The layout is final: later passes
    only move whole buckets, except that `--fcdp-decide` may merge them.

    `layout` selects the blocks that no shard boundary may split (see `#fcdp.layout`).
    Members keep their order and are placed so that shards are as small as that allows,
    after veScale-FSDP (arXiv 2602.22437).

    The duration of a small collective is nearly all latency. So buckets that differ
    only in their unit, and are neighbours in the order of parameters, are merged up to
    `bucket-bytes`. (PyTorch FSDP's gathers lose efficiency below 33 million elements,
    arXiv 2304.11277.) The copy of a merged bucket is in memory from the first to the
    last use of its units, in the forward and in the backward pass. It is gathered no
    more often than the unit that is used most often.

    The gathers of one live range become one gather at the place of the first, and
    parameters become views of its result. Gradients are packed into a bucket and
    reduced together as soon as the last of them is computed. The reduced gradient is
    accumulated when the next bucket is packed, so that the reduction overlaps with the
    backward pass of the next unit. If a rank owns more than one of the G shards, the
    copy is gathered over the remaining axes only (none, if the rank owns the whole),
    and the reduced gradient, in f32, over the others. Sums and their order are those
    of `world`.

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
    Layout, BucketBytes,
    Option<"sharding", "sharding", "std::string", "\"world\"",
           "selects the ranks over which parameters, gradients and optimizer state are "
           "sharded: 'world'; 'node', which gathers within nodes only; 'none', which "
           "gathers nothing; 'auto' leaves it to --fcdp-decide (default: world)">,
    Option<"openMerging", "open-merging", "bool", "false",
           "lets --fcdp-decide merge the remaining buckets; states must be sharded over "
           "all ranks, or their sharding left open">
  ];
}

def DecidePass : FcdpPass<"fcdp-decide"> {
  let summary = "write each bucket's residency and accumulation where none is given";
  let description = [{
    Requires phase `sharded`. Strategies are presets of the same decisions. A decision
    that a bucket already has is kept.

    | strategy | residency | gradients of several micro-batches | sharding |
    |---|---|---|---|
    | `zero1` | `full` | `full` | `world` |
    | `zero2` | `full` | `sharded` | `world` |
    | `zero3` | `drop` | `sharded` | `world` |
    | `hpz` | `node` | `sharded` | `world` |
    | `fcdp` | `host` | `sharded` | `world` |
    | `ddp` | `full` | `sharded` | `none` |
    | `hsdp` | `drop` | `sharded` | `node` |
    | `mics` | `drop` | `node` | `node` |

    The sharding is part of the layout. `--fcdp-bucket` fixes it or leaves it open, and
    at least one bucket to decide for must have the strategy's sharding. A bucket with
    another sharding gets the nearest residency that it can have: `drop` instead of
    `node` and `host` with `sharding node`, where the shard is the node slice, and
    `full` with `sharding none`, where the shard is the whole bucket.

    The pass also writes on the module how far `--fcdp-prefetch` and
    `--fcdp-delay-sums` go.

    The collectives of a bucket with `collectives flat` run in one step over all ranks
    instead of one between nodes and one within nodes, except where a node slice is
    kept or accumulated. That costs one latency instead of two. Over Gloo it sends g
    times as many bytes between nodes; over rings of NCCL, (G-1)/G of the bucket
    instead of (N-1)/N. On the CPU it gives the same bits.

    `auto` chooses for each bucket what minimizes the time of a step on `cluster`,
    within the memory of its devices and hosts. It also chooses how far ahead to
    prefetch and how many reductions may be in flight. The pass simulates a step under
    each plan that it considers; the best plans, and those that treat all buckets alike,
    are scheduled and simulated once more in full. If the sharding is open, the search
    is done for each sharding, and all buckets get that of the fastest plan. If
    `--fcdp-bucket` leaves merging open, the pass merges buckets up to the number of
    bytes with which the step is fastest, provided that it is faster than with one
    bucket per unit, and writes that number on the module as `fcdp.bucket_bytes`. It
    tries numbers that merge about 2, 4, 8, ... buckets, as long as the saved latencies
    can be a thousandth of the step. A bucket with a given decision is not merged. Among
    plans of equal time it chooses the smallest.

    Before:

    ```mlir
    fcdp.bucket @bucket.a unit "a" elements 64 storage f32 wire f32 members [@a at 0]
    fcdp.bucket @bucket.b unit "b" elements 64 storage f32 wire f32 residency full members [@b at 0]
    ```

    After `--fcdp-decide=strategy=fcdp`:

    ```mlir
    fcdp.bucket @bucket.a unit "a" elements 64 storage f32 wire f32 residency host members [@a at 0]
    ...
    fcdp.bucket @bucket.b unit "b" elements 64 storage f32 wire f32 residency full members [@b at 0]
    ```
  }];
  let options = [
    Strategy, Accumulate, Collectives, Prefetch, Reductions, ClusterFile, ProfileFile,
    DeviceMemory, HostMemory
  ];
}

def TwoLevelPass : FcdpPass<"fcdp-two-level"> {
  let summary = "split collectives into a step between nodes and a step within nodes";
  let description = [{
    Requires phase `sharded` and buckets. A gather over both axes becomes a gather
    between nodes, which yields this rank's node slice, and one within the node. A
    reduction becomes the same two steps in reverse. Each byte crosses the network once
    per node. A step over an axis of one rank is dropped, except for the last step of a
    reduction, which converts to f32. Collectives of a bucket with `collectives flat`
    stay whole, except for gathers whose node slice is kept (`residency` or `carry` is
    `node` or `host`) and reductions whose node slice is accumulated (`accumulation` is
    `node`).

    Before:

    ```mlir
    %s = fcdp.read_shard @bucket.a : tensor<16xf32>
    %whole = fcdp.all_gather %s of @bucket.a over @world[node, local] range 0 : tensor<16xf32> to tensor<64xf32>
    ```

    After `--fcdp-two-level`:

    ```mlir
    %s = fcdp.read_shard @bucket.a : tensor<16xf32>
    %slice = fcdp.all_gather %s of @bucket.a over @world[node] range 0 : tensor<16xf32> to tensor<32xf32>
    %whole = fcdp.all_gather %slice of @bucket.a over @world[local] range 0 : tensor<32xf32> to tensor<64xf32>
    ```
  }];
}

def AccumulatePass : FcdpPass<"fcdp-accumulate"> {
  let summary = "accumulate gradients over micro-batches as the buckets say";
  let description = [{
    Requires phase `sharded` and two-level collectives. Before this pass, and with
    `sharded`, every micro-batch reduces its gradients over all ranks and adds this
    rank's shard of them.

    - `node`: a micro-batch reduces within the node and adds the node slice; the last
      micro-batch reduces the accumulator between nodes.
    - `node_host`: the same, with the accumulator in host memory. A micro-batch loads it
      during the reduction, adds on the device, and stores it; the first one only
      stores, the last one only loads.
    - `full`: a micro-batch adds the unreduced gradients; the last one reduces the
      accumulator.

    Accumulators are f32. They are rounded to the gradient's type before they are
    reduced further, so that the collective carries as many bytes as with `sharded`.
    With one micro-batch there is nothing to accumulate. With one node, `node` and
    `node_host` are the same as `sharded`.

    Before:

    ```mlir
    fcdp.bucket @bucket.a unit "a" elements 64 storage f32 wire f32 trainable accumulation node members [@a at 0]
    func.func @last_microbatch() attributes {fcdp.role = #fcdp.role<last_microbatch>} {
      %g = fcdp.read_input @g : tensor<64xf32>
      %p = fcdp.pack @bucket.a(%g as @a) : (tensor<64xf32>) -> tensor<64xf32>
      %n = fcdp.reduce_scatter %p of @bucket.a over @world[local] : tensor<64xf32> to tensor<32xf32>
      %r = fcdp.reduce_scatter %n of @bucket.a over @world[node] : tensor<32xf32> to tensor<16xf32>
      fcdp.accumulate %r into @bucket.a add : tensor<16xf32>
      return
    }
    ```

    After `--fcdp-accumulate`:

    ```mlir
    fcdp.state @bucket.a.node_grad node_grad of @bucket.a in device : tensor<32xf32>
    ...
    func.func @last_microbatch() attributes {fcdp.role = #fcdp.role<last_microbatch>} {
      %g = fcdp.read_input @g : tensor<64xf32>
      %p = fcdp.pack @bucket.a(%g as @a) : (tensor<64xf32>) -> tensor<64xf32>
      %n = fcdp.reduce_scatter %p of @bucket.a over @world[local] : tensor<64xf32> to tensor<32xf32>
      fcdp.accumulate %n into @bucket.a.node_grad add : tensor<32xf32>
      %sum = fcdp.read_state @bucket.a.node_grad : tensor<32xf32>
      %r = fcdp.reduce_scatter %sum of @bucket.a over @world[node] : tensor<32xf32> to tensor<16xf32>
      fcdp.accumulate %r into @bucket.a overwrite : tensor<16xf32>
    ```
  }];
}

def CachePass : FcdpPass<"fcdp-cache"> {
  let summary = "serve later gathers of a bucket from its residency";
  let description = [{
    Requires phase `sharded`, two-level gathers, and buckets with a `residency`.

    - `drop`: every live range gathers over the network again.
    - `host`: the first gather between nodes stores this rank's node slice in the
      node's host memory; later live ranges load it.
    - `node`: the node slice stays on the device.
    - `full`: the gathered copy stays on the device.

    A bucket's `residency` applies between the live ranges of one micro-batch. Its
    `carry`, which defaults to the residency, applies from one micro-batch to the next.
    A copy that is carried on the device also serves the live ranges of a micro-batch.
    Trained buckets are gathered in the first micro-batch of a step, and frozen ones in
    `@init`, once per job. With a single node there is no node slice, and `host` and
    `node` act like `drop`.

    Before:

    ```mlir
    fcdp.bucket @bucket.a unit "a" elements 64 storage f32 wire f32 trainable residency host members [@a at 0]
    %s0 = fcdp.read_shard @bucket.a : tensor<16xf32>
    %n0 = fcdp.all_gather %s0 of @bucket.a over @world[node] range 0 : tensor<16xf32> to tensor<32xf32>
    %w0 = fcdp.all_gather %n0 of @bucket.a over @world[local] range 0 : tensor<32xf32> to tensor<64xf32>
    %s1 = fcdp.read_shard @bucket.a : tensor<16xf32>
    %n1 = fcdp.all_gather %s1 of @bucket.a over @world[node] range 1 : tensor<16xf32> to tensor<32xf32>
    %w1 = fcdp.all_gather %n1 of @bucket.a over @world[local] range 1 : tensor<32xf32> to tensor<64xf32>
    ```

    After `--fcdp-cache`:

    ```mlir
    fcdp.state @bucket.a.cache cache of @bucket.a in host : tensor<32xf32>
    ...
    %n0 = fcdp.all_gather %s0 of @bucket.a over @world[node] range 0 : tensor<16xf32> to tensor<32xf32>
    fcdp.cache_store %n0 to @bucket.a.cache : tensor<32xf32>
    %w0 = fcdp.all_gather %n0 of @bucket.a over @world[local] range 0 : tensor<32xf32> to tensor<64xf32>
    %n1 = fcdp.cache_load @bucket.a.cache : tensor<32xf32>
    %w1 = fcdp.all_gather %n1 of @bucket.a over @world[local] range 1 : tensor<32xf32> to tensor<64xf32>
    ```
  }];
}

def DecideOverlapPass : FcdpPass<"fcdp-decide-overlap"> {
  let summary = "decide when each fetch is issued and each gradient is accumulated";
  let description = [{
    Requires phase `sharded` after `--fcdp-two-level`, and nothing issued ahead yet. If
    the module has no `fcdp.prefetch`, each fetch gets its own distance: it is issued as
    late as possible without compute waiting longer for it than if it were issued as
    early as possible. If the module has no `fcdp.reductions`, each accumulate gets its
    own distance, as short as possible by the same rule. Distances that do not fit the
    device's memory are shortened where most memory is in use. A given attribute wins.
    Without a cluster the pass decides nothing.

    `fcdp.prefetch` on the gather or load of a copy is the number of units that its
    fetch is issued ahead. `fcdp.reductions` on an accumulate is the number of units
    that its reduction may overlap with. `--fcdp-prefetch` and `--fcdp-delay-sums` apply
    them.

    Before:

    ```mlir
    %a0 = fcdp.cache_load @bucket.a.cache : tensor<32xf32>
    %a = fcdp.all_gather %a0 of @bucket.a over @world[local] range 0 : tensor<32xf32> to tensor<64xf32>
    %y = aten.call "aten.mul.Tensor"(self = %x, other = %a) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    %b0 = fcdp.cache_load @bucket.b.cache : tensor<32xf32>
    %b = fcdp.all_gather %b0 of @bucket.b over @world[local] range 0 : tensor<32xf32> to tensor<64xf32>
    %z = aten.call "aten.mul.Tensor"(self = %y, other = %b) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    ```

    After `--fcdp-decide-overlap=cluster=cpu`:

    ```mlir
    %a = fcdp.all_gather %a0 of @bucket.a over @world[local] range 0 {fcdp.prefetch = 0 : i64} : ...
    ...
    %b = fcdp.all_gather %b0 of @bucket.b over @world[local] range 0 {fcdp.prefetch = 1 : i64} : ...
    ```
  }];
  let options = [ClusterFile, ProfileFile, DeviceMemory];
}

def PrefetchPass : FcdpPass<"fcdp-prefetch"> {
  let summary = "issue gathers and loads ahead of their use";
  let description = [{
    Requires phase `sharded`. A fetch is the chain of operations that brings one
    gathered copy to its use: the gather between nodes or the load from the host cache,
    the cast before it, the store after it, and the gather within the node. The pass
    moves the fetches of a unit's live range before the use that is `fcdp.prefetch` live
    ranges earlier, so that they run while the units in between compute. The distance
    is 1 by default. `--fcdp-decide` writes it on the module; `--fcdp-decide-overlap`
    writes it on gathers and loads, which wins. With a distance of D, at most D + 1
    copies exist that are not used yet; each costs device memory. An operation never
    moves before its operands, a load never before the store, and nothing moves into
    another function. Fetches keep their order. The module records that the pass ran,
    so that it is applied once.

    Before:

    ```mlir
    %a0 = fcdp.cache_load @bucket.a.cache : tensor<32xf32>
    %a1 = fcdp.all_gather %a0 of @bucket.a over @world[local] range 0 : tensor<32xf32> to tensor<64xf32>
    %a = fcdp.view_member %a1 @a of @bucket.a : tensor<64xf32> to tensor<64xf32>
    %y = aten.call "aten.mul.Tensor"(self = %x, other = %a) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    %b0 = fcdp.cache_load @bucket.b.cache : tensor<32xf32>
    %b1 = fcdp.all_gather %b0 of @bucket.b over @world[local] range 0 : tensor<32xf32> to tensor<64xf32>
    %b = fcdp.view_member %b1 @b of @bucket.b : tensor<64xf32> to tensor<64xf32>
    %z = aten.call "aten.mul.Tensor"(self = %y, other = %b) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    ```

    After `--fcdp-prefetch`:

    ```mlir
    %a0 = fcdp.cache_load @bucket.a.cache : tensor<32xf32>
    %a1 = fcdp.all_gather %a0 of @bucket.a over @world[local] range 0 : tensor<32xf32> to tensor<64xf32>
    %b0 = fcdp.cache_load @bucket.b.cache : tensor<32xf32>
    %b1 = fcdp.all_gather %b0 of @bucket.b over @world[local] range 0 : tensor<32xf32> to tensor<64xf32>
    %a = fcdp.view_member %a1 @a of @bucket.a : tensor<64xf32> to tensor<64xf32>
    %y = aten.call "aten.mul.Tensor"(self = %x, other = %a) ...
    %b = fcdp.view_member %b1 @b of @bucket.b : tensor<64xf32> to tensor<64xf32>
    %z = aten.call "aten.mul.Tensor"(self = %y, other = %b) ...
    ```
  }];
}

def PrefetchAcrossPass : FcdpPass<"fcdp-prefetch-across"> {
  let summary = "issue the first fetches of a micro-batch in the micro-batch before";
  let description = [{
    Requires phase `sharded` and buckets. The first fetches of `@next_microbatch` and
    `@last_microbatch`, as many as the prefetch distance allows, are issued in the
    functions that run before: before the use that is that many live ranges earlier, as
    if the two functions were one. Weights do not change within a step, so the bytes of
    a step stay the same. The first micro-batch sends more, and the last one sends as
    much less.

    The copy is a state of role `prefetched`, because it exists at a function boundary.
    A fetch is left alone if its slice is stored or used again, or if it is a second
    fetch of its bucket; all fetches after it are then left alone, too. Nothing crosses
    an update. The pass does nothing if some copy crosses already, so that running it
    twice is the same as running it once.

    Before:

    ```mlir
    func.func @next_microbatch() attributes {fcdp.role = #fcdp.role<next_microbatch>} {
      %0 = fcdp.cache_load @bucket.a.cache : tensor<32xf32>
      %1 = fcdp.all_gather %0 of @bucket.a over @world[local] range 0 : tensor<32xf32> to tensor<64xf32>
      %a = fcdp.view_member %1 @a of @bucket.a : tensor<64xf32> to tensor<64xf32>
      %y = aten.call "aten.neg.default"(self = %a) : (tensor<64xf32>) -> tensor<64xf32>
      %2 = fcdp.cache_load @bucket.b.cache : tensor<32xf32>
      %3 = fcdp.all_gather %2 of @bucket.b over @world[local] range 0 : tensor<32xf32> to tensor<64xf32>
      %b = fcdp.view_member %3 @b of @bucket.b : tensor<64xf32> to tensor<64xf32>
      %z = aten.call "aten.neg.default"(self = %b) : (tensor<64xf32>) -> tensor<64xf32>
      return
    }
    ```

    After `--fcdp-prefetch-across`:

    ```mlir
    fcdp.state @bucket.a.prefetched prefetched of @bucket.a in device : tensor<64xf32>
    ...
    func.func @next_microbatch() attributes {fcdp.role = #fcdp.role<next_microbatch>} {
      %0 = fcdp.read_state @bucket.a.prefetched : tensor<64xf32>
      %a = fcdp.view_member %0 @a of @bucket.a : tensor<64xf32> to tensor<64xf32>
      %y = aten.call "aten.neg.default"(self = %a) ...
      ...
      %1 = fcdp.cache_load @bucket.a.cache : tensor<32xf32>
      %2 = fcdp.all_gather %1 of @bucket.a over @world[local] range 0 into @bucket.a.prefetched : tensor<32xf32> to tensor<64xf32>
      %b = fcdp.view_member %4 @b of @bucket.b : tensor<64xf32> to tensor<64xf32>
      ...
    ```
  }];
}

def DelaySumsPass : FcdpPass<"fcdp-delay-sums"> {
  let summary = "let several reductions run while the backward pass goes on";
  let description = [{
    Requires phase `sharded`. A reduced gradient is accumulated where the reduction of a
    later unit begins, so that the reductions of several units run while others
    compute. The number of units is the attribute `fcdp.reductions`, 2 by default.
    `--fcdp-decide` writes it on the module; `--fcdp-decide-overlap` writes it on
    accumulates, which wins. If there is no such unit, the accumulate moves to the end
    of the function. Each reduction in flight keeps its packed gradients and as much
    scratch memory. An accumulate of a value that is not reduced stays where it is.

    An accumulate at the end of a function becomes `late` if all functions that may run
    before the same successors have it there. It then runs on the stream of its
    reduction, and nothing waits for it except the operations that need the accumulator
    or the memory: the update of that bucket, which is ordered last, or the next
    micro-batch when it packs its first gradients. Accumulates become late only if
    fetches are issued ahead (`--fcdp-prefetch` with a distance runs before this pass),
    because otherwise nothing runs at that time.

    Before:

    ```mlir
    %b0 = fcdp.pack @bucket.b(%x as @b) : (tensor<64xf32>) -> tensor<64xf32>
    %b1 = fcdp.reduce_scatter %b0 of @bucket.b over @world[local] : tensor<64xf32> to tensor<32xf32>
    %b2 = fcdp.reduce_scatter %b1 of @bucket.b over @world[node] : tensor<32xf32> to tensor<16xf32>
    fcdp.accumulate %b2 into @bucket.b overwrite : tensor<16xf32>
    %y = aten.call "aten.neg.default"(self = %x) : (tensor<64xf32>) -> tensor<64xf32>
    %a0 = fcdp.pack @bucket.a(%y as @a) : (tensor<64xf32>) -> tensor<64xf32>
    %a1 = fcdp.reduce_scatter %a0 of @bucket.a over @world[local] : tensor<64xf32> to tensor<32xf32>
    %a2 = fcdp.reduce_scatter %a1 of @bucket.a over @world[node] : tensor<32xf32> to tensor<16xf32>
    fcdp.accumulate %a2 into @bucket.a overwrite : tensor<16xf32>
    ```

    After `--fcdp-delay-sums`:

    ```mlir
    %b2 = fcdp.reduce_scatter %b1 of @bucket.b over @world[node] : tensor<32xf32> to tensor<16xf32>
    %y = aten.call "aten.neg.default"(self = %x) : (tensor<64xf32>) -> tensor<64xf32>
    %a0 = fcdp.pack @bucket.a(%y as @a) : (tensor<64xf32>) -> tensor<64xf32>
    %a1 = fcdp.reduce_scatter %a0 of @bucket.a over @world[local] : tensor<64xf32> to tensor<32xf32>
    %a2 = fcdp.reduce_scatter %a1 of @bucket.a over @world[node] : tensor<32xf32> to tensor<16xf32>
    fcdp.accumulate %b2 into @bucket.b overwrite : tensor<16xf32>
    fcdp.accumulate %a2 into @bucket.a overwrite : tensor<16xf32>
    ```
  }];
}

def SchedulePass : FcdpPass<"fcdp-schedule"> {
  let summary = "put operations on streams and order the streams";
  let description = [{
    Requires phase `sharded`; gives phase `scheduled`. Operations are issued in program
    order. Gathers run on `inter` (also those over all ranks) and `intra`, reductions on
    `inter_reduce` and `intra_reduce`. So a gather does not queue behind a reduction,
    which waits for its gradients. Host copies run on `d2h` and `h2d`, all other
    operations on `compute`. A wait is placed before each use of a value from another
    stream. An operation on another stream first waits for the compute stream as of its
    issue, so that it may use any memory that was released before, also in the function
    before.

    At the end of a function all streams are joined into compute, with two exceptions:
    fetches of copies that the next function finds prefetched, and late accumulates.
    These yield tokens that are live-out of one function and live-in of the next. The
    next function waits for each token where it uses the copy or the accumulator, and
    for accumulates also before it packs gradients. The values that they use in flight
    are released on their own stream. An operator that the compiler does not know keeps
    its operands alive as long as its results. The pass errs on the side of waiting.

    Before:

    ```mlir
    %0 = fcdp.cache_load @bucket.a.cache : tensor<32xf32>
    %1 = fcdp.all_gather %0 of @bucket.a over @world[local] range 0 : tensor<32xf32> to tensor<64xf32>
    %a = fcdp.view_member %1 @a of @bucket.a : tensor<64xf32> to tensor<64xf32>
    %y = aten.call "aten.mul.Tensor"(self = %x, other = %a) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    ```

    After `--fcdp-schedule`:

    ```mlir
    %r = fcdp.record on compute
    fcdp.wait %r on h2d
    %0 = fcdp.cache_load @bucket.a.cache on h2d : tensor<32xf32>
    %loaded = fcdp.record on h2d
    fcdp.wait %loaded on intra
    %1 = fcdp.all_gather %0 of @bucket.a over @world[local] range 0 on intra : tensor<32xf32> to tensor<64xf32>
    %gathered = fcdp.record on intra
    fcdp.wait %gathered on compute
    %a = fcdp.view_member %1 @a of @bucket.a : tensor<64xf32> to tensor<64xf32>
    fcdp.release %0 : tensor<32xf32>
    %y = aten.call "aten.mul.Tensor"(self = %x, other = %a) ...
    fcdp.release %1 : tensor<64xf32>
    ```
  }];
}

def MakeGradientsInPlacePass : FcdpPass<"fcdp-make-gradients-in-place"> {
  let summary = "have operators write gradients straight into their bucket";
  let description = [{
    Requires phase `scheduled`. A gradient need not be copied if an operator with an
    out-variant (`aten.mm.out`) computes it and only the pack of its bucket reads it.
    The operator then writes the gradient to its place in the bucket. The kernel is the
    same, and so are the bits. The memory of the whole bucket is then in use from the
    first such gradient instead of from the pack, and these gradients take no other
    memory. So the pass chooses, for each bucket, the gradients that are computed while
    there is room for the bucket, by lifetimes and with a margin, because packing
    leaves gaps.

    The planned memory of a device does not grow. The pass places buffers as
    `--fcdp-plan-memory` would. If that takes more memory than with copies, only some
    packs keep their choice, the later ones first, found by a search that makes few
    plans. The decision is the attribute `in_place` of the pack. A given one is kept,
    and an empty one copies all gradients.

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
    also share the memory of prefetched copies that are not in flight yet or were used
    for the last time. Memory of late accumulates stays reserved in the next function
    until compute has waited for them. The input of a gather is placed inside its
    result if nothing else needs it, and a reduction writes straight into the gradient
    accumulator that it starts. Records get event numbers, which are unique in the
    module; tokens that are passed as the same argument share one. Results of ATen
    operators use the free memory between values and after the last one: values are
    placed so that both together need little memory.

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

class VerifyPass<string phase> : FcdpPass<"fcdp-verify-" # phase> {
  let summary = "check that a module is in phase " # phase;
  let description = "Refuses operations of other phases, and what phase `" # phase #
                    "` requires beyond the operations' own constraints.";
}
def VerifyImportedPass : VerifyPass<"imported"> {
  let description = [{
    The module has one function, `@step`, which yields one loss and one gradient for
    each trainable parameter.

    Refused by `--fcdp-verify-imported`:

    ```mlir
    fcdp.parameter @w : tensor<4x4xf32> unit "fc" trainable names ["w"]
    %w = fcdp.read_parameter @w : tensor<4x4xf32>
    %l = aten.call "aten.sum.default"(self = %w) : (tensor<4x4xf32>) -> tensor<f32>
    fcdp.loss %l : tensor<f32>
    // error: expected one gradient, got 0
    ```
  }];
}
def VerifyShardedPass : VerifyPass<"sharded"> {
  let description = [{
    The module has a mesh and a family of functions. Every bucket has a shard, and a
    trained one an accumulator. Every trainable parameter is reduced once per
    micro-batch and updated once; the first micro-batch starts the accumulators.
    Gradients are clipped at most once, in `@update`, before they are used. If a
    function finds a copy prefetched, each function that may run before it has fetched
    the copy, after its own last use of the copy before.

    Refused by `--fcdp-verify-sharded`:

    ```mlir
    func.func @only_microbatch() attributes {fcdp.role = #fcdp.role<only_microbatch>} {
      %g = fcdp.read_input @x : tensor<64xf32>
      %p = fcdp.pack @bucket.a(%g as @a) : (tensor<64xf32>) -> tensor<64xf32>
      %n = fcdp.reduce_scatter %p of @bucket.a over @world[local] : tensor<64xf32> to tensor<32xf32>
      %r = fcdp.reduce_scatter %n of @bucket.a over @world[node] : tensor<32xf32> to tensor<16xf32>
      fcdp.accumulate %r into @bucket.a overwrite : tensor<16xf32>
      return
    }
    func.func @update() attributes {fcdp.role = #fcdp.role<update>} {
      return
    }
    // error: expected one update of @bucket.a, got 0
    ```
  }];
}
def VerifyScheduledPass : VerifyPass<"scheduled"> {
  let description = [{
    Collectives run over one axis of flat tensors, or over both axes if their bucket
    says so. They and host copies name their stream. Every buffer is released once. If
    it is released on another stream than compute, a token of that stream that the
    function returns is recorded after the release. Functions return tokens that they
    recorded, as many as their successors take. All gathers over the same axes are on
    one stream, and so are all reductions over them, because each has a communicator,
    which one stream may use.

    Refused by `--fcdp-verify-scheduled`:

    ```mlir
    %slice = fcdp.cache_load @bucket.a.cache : tensor<32xf32>
    fcdp.release %slice : tensor<32xf32>
    // error: expected a stream
    ```
  }];
}
def VerifyPlannedPass : VerifyPass<"planned"> {
  let description = [{
    Every buffer and state has a place of its type's size. Every record has an event of
    its own. If its token crosses a function boundary, the argument names the event,
    which is waited for before it is recorded again. `--fcdp-verify-plan` proves that
    places and events suffice.

    Refused by `--fcdp-verify-planned`:

    ```mlir
    %slice = fcdp.cache_load @bucket.a.cache on h2d : tensor<32xf32>
    fcdp.release %slice : tensor<32xf32>
    // error: expected a buffer of 128 bytes
    ```
  }];
}

def VerifyPlanPass : FcdpPass<"fcdp-verify-plan"> {
  let summary = "prove that a plan runs as it is meant to";
  let description = [{
    Requires phase `planned`, and changes nothing. Refuses a plan unless each of
    these holds for every legal run, `@init (first next* last update | only
    update)*`, over the boundaries of functions and steps. The error names the bucket
    by its first parameter, and both operations:

    - Accesses to the same bytes of an arena, one of them a write, are ordered by
      streams and events.
    - Each read finds the intended content: the value that was written for it, a copy
      that is as new as the parameters, a cache that was stored before, gradients of
      its own bucket.
    - Each trained parameter is in one bucket. A step reduces the gradients of each of
      its micro-batches over both axes, accumulates each once, and updates once.
    - A wait is for an event that was recorded. A value is released once, when compute
      has waited for all accesses to it. So waits and collectives follow the order of
      issue, and cannot wait for each other in a cycle.
    - The bytes that each function sends and copies for a bucket equal the closed form
      of the bucket's `residency`, `carry`, `accumulation` and `collectives` and of its
      live ranges.

    The proof runs functions one after another on one rank's memory, as all ranks run
    one program. Each stream has a vector clock; a record stores its stream's clock,
    and a wait merges it. Each interval of bytes has its last write, the last read
    after it by each stream (FastTrack, Flanagan and Freund, PLDI 2009), and an
    abstract content: the parameters, the axes that they were gathered over and the
    update that they precede; or the gradients, their micro-batches and the axes that
    they were reduced over. The input of a gather that is placed inside the result has
    bytes of its own, at a different place on each rank. States that no later function
    can distinguish are merged, so that runs of any length come to an end. Time is
    about linear in the number of operations. The proof errs on the side of refusing:
    the result of an unknown operator counts as a read of its operands. Bytes that no
    value or state reserves are free for the results of operators: compute writes to
    them from the first operator that finds them free to the last.

    Refused by `--fcdp-verify-plan`:

    ```mlir
    %shard = fcdp.read_shard @bucket.a : tensor<32xf32>
    %ready = fcdp.record on compute event 0
    fcdp.wait %ready on intra
    %whole = fcdp.all_gather %shard of @bucket.a over @world[local] range 0 on intra {buffer = #fcdp.buffer<arena = device, offset = 256, bytes = 256>} : tensor<32xf32> to tensor<64xf32>
    %gathered = fcdp.record on intra event 1
    // Here, `fcdp.wait %gathered on compute` is missing.
    %a = fcdp.view_member %whole @a of @bucket.a : tensor<64xf32> to tensor<64xf32>
    %l = aten.call "aten.sum.default"(self = %a) : (tensor<64xf32>) -> tensor<f32>
    fcdp.release %whole : tensor<64xf32>
    // error: for 'a' of @bucket.a in @only_microbatch: reads bytes [256, 512) of the device arena on compute, not ordered with another access to them; expected 'compute' to wait for 'intra'
    ```
  }];
  let options = [DeviceMemory, HostMemory];
}

#endif // FCDP_TRANSFORMS_PASSES
