// SPDX-License-Identifier: Apache-2.0
#ifndef FCDP_TRANSFORMS_SCHEDULEPASSES
#define FCDP_TRANSFORMS_SCHEDULEPASSES

include "fcdp/Transforms/PassBase.td"

def DecideOverlapPass : FcdpPass<"fcdp-decide-overlap"> {
  let summary = "decide when each fetch is issued and each gradient is accumulated";
  let description = [{
    Requires phase `sharded` after `--fcdp-two-level`, and nothing issued ahead yet. If
    the module has no `fcdp.prefetch`, each fetch gets its own distance: it is issued as
    late as possible without compute waiting longer for it than if it were issued as
    early as possible. If the module has no `fcdp.reductions`, each accumulate gets its
    own distance, as short as possible by the same rule. Distances that do not fit the
    device's memory are shortened where most memory is in use. An attribute that is
    given takes precedence. Without a cluster the pass decides nothing. If nothing fits
    and `activations` is `auto`, values of the forward pass that may be in host memory
    count as being there.

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
  let options = [ClusterFile, ProfileFile, DeviceMemory, Activations];
}

def PrefetchPass : FcdpPass<"fcdp-prefetch"> {
  let summary = "issue gathers and loads ahead of their use";
  let description = [{
    Requires phase `sharded`. A fetch is the chain of operations that brings one
    gathered copy to its use: the gather between nodes or the load from the host cache,
    the cast before it, the store after it, and the gather within the node. The pass
    moves the fetches of a unit's live range before the use that is `fcdp.prefetch` live
    ranges earlier, so that they run while the units in between compute. The distance is
    1 by default. `--fcdp-decide` writes it on the module; `--fcdp-decide-overlap`
    writes it on gathers and loads, which takes precedence. With a distance of D, at
    most D + 1 copies exist that are not used yet; each costs device memory. An
    operation never moves before its operands, a load never before the store, and
    nothing moves into another function. Fetches keep their order. The module records
    that the pass ran, so that it is applied once.

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
  let summary = "issue the first fetches of a micro-batch in the previous micro-batch";
  let description = [{
    Requires phase `sharded` and buckets. The first fetches of `@next_microbatch` and
    `@last_microbatch`, as many as the prefetch distance allows, are issued in the
    functions that run before: before the use that is that many live ranges earlier, as
    if the two functions were one. Weights do not change within a step, so the bytes of
    a step stay the same. The first micro-batch sends more bytes, and the last one sends
    fewer by the same amount.

    The copy is a state of role `prefetched`, because it exists at a function boundary.
    The pass does not move a fetch whose slice is stored or used again, or which is a
    second fetch of its bucket; it then moves no later fetch either. No copy is in
    flight over an update. If the step has several variants, each prefetches the same
    copies: the ones that every variant can prefetch. The pass does nothing if a copy is
    already in flight over a function boundary, so running it twice is the same as
    running it once.

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
    later unit begins, so that the reductions of several units run while others compute.
    The number of units is the attribute `fcdp.reductions`, 2 by default.
    `--fcdp-decide` writes it on the module; `--fcdp-decide-overlap` writes it on
    accumulates, which takes precedence. If there is no such unit, the accumulate moves
    to the end of the function. Each reduction in flight keeps its packed gradients and
    as much scratch memory. An accumulate of a value that is not reduced does not move.

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

def UpdateEarlyPass : FcdpPass<"fcdp-update-early"> {
  let summary = "update buckets in the backward pass";
  let description = [{
    Requires phase `sharded`. The update of a bucket whose states are not on the device
    moves from `@update` into each micro-batch that may be the last one, after the
    accumulate that completes the gradient. So its copies run under the backward pass.
    With one micro-batch a step, gradients are in use only from their reduction to their
    update, and all these accumulators have the same memory.

    An update follows the last use of the bucket's parameters in the micro-batch, and the
    loss. Its pieces are spread over the operations up to the next bucket's update. The accumulate moves with it. Each piece of states is loaded before the piece in
    front of it is updated, also if that is of another bucket. Nothing moves if `@update`
    clips or unscales gradients, because that needs all of them.

    Before:

    ```mlir
    fcdp.accumulate %b into @bucket.b overwrite : tensor<16xf32>
    %y = aten.call "aten.neg.default"(self = %x) : (tensor<16xf32>) -> tensor<16xf32>
    func.func @update() attributes {fcdp.role = #fcdp.role<update>} {
      %m = fcdp.state_load @bucket.b.momentum_buffer at 0 : tensor<16xf32>
      fcdp.shard_update @bucket.b piece 0 to 16 states(%m : tensor<16xf32>) scale 1.0e+00
          with #fcdp.sgd<lr = 1.0e-01, momentum = 9.0e-01, dampening = 0.0, weight_decay = 0.0, nesterov = false>
      fcdp.state_store %m to @bucket.b.momentum_buffer at 0 : tensor<16xf32>
      return
    }
    ```

    After `--fcdp-update-early`:

    ```mlir
    %m = fcdp.state_load @bucket.b.momentum_buffer at 0 : tensor<16xf32>
    %b = fcdp.pack @bucket.b(%x as @b) ...
    fcdp.accumulate %b into @bucket.b overwrite : tensor<16xf32>
    fcdp.shard_update @bucket.b piece 0 to 16 states(%m : tensor<16xf32>) ...
    fcdp.state_store %m to @bucket.b.momentum_buffer at 0 : tensor<16xf32>
    %y = aten.call "aten.neg.default"(self = %x) ...
    ...
    func.func @update() ...
    return
    ```
  }];
}

def SchedulePass : FcdpPass<"fcdp-schedule"> {
  let summary = "put operations on streams and order the streams";
  let description = [{
    Requires phase `sharded`; gives phase `scheduled`. Operations are issued in program
    order. Gathers run on `inter` (also those over all ranks) and `intra`, reductions on
    `inter_reduce` and `intra_reduce`. So a gather does not wait in one queue for an
    earlier reduction, which waits for its gradients. Host copies run on `d2h` and
    `h2d`, all other operations on `compute`. A wait is placed before each use of a
    value from another stream. An operation on another stream first waits for the
    compute stream as of its issue, so that it may use any memory that was released
    earlier, also in the previous function.

    At the end of a function all streams are joined into compute, with two exceptions:
    fetches of copies for the next function, and late accumulates. These yield tokens
    that are live-out of one function and live-in of the next. The next function waits
    for each token where it uses the copy or the accumulator, and for accumulates also
    before it packs gradients. The values that they use are released on their own
    stream. An operator that the compiler does not know keeps its operands alive as long
    as its results. The pass errs on the side of waiting.

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

#endif // FCDP_TRANSFORMS_SCHEDULEPASSES
