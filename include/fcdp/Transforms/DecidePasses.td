// SPDX-License-Identifier: Apache-2.0
#ifndef FCDP_TRANSFORMS_DECIDEPASSES
#define FCDP_TRANSFORMS_DECIDEPASSES

include "fcdp/Transforms/PassBase.td"

def DecidePass : FcdpPass<"fcdp-decide"> {
  let summary = "write each bucket's residency and accumulation if none is given";
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
    at least one bucket without a decision must have the strategy's sharding. A bucket
    with another sharding gets the nearest residency that it can have: `drop` instead of
    `node` and `host` with `sharding node`, where the shard is the node slice, and
    `full` with `sharding none`, where the shard is the whole bucket.

    The pass also writes on the module how far `--fcdp-prefetch` and
    `--fcdp-delay-sums` go.

    The collectives of a bucket with `collectives flat` run in one step over all ranks
    instead of one step between nodes and one within nodes, unless a node slice is kept
    or accumulated. That costs one latency instead of two. Over Gloo it sends g times as
    many bytes between nodes; over rings of NCCL, (G-1)/G of the bucket instead of
    (N-1)/N. On the CPU it gives the same bits.

    `auto` makes the decisions for each bucket that minimize the time of a step on
    `cluster`, within the memory of its devices and hosts. It also chooses how far ahead
    to prefetch and how many reductions may be in flight. The pass simulates a step
    under each plan that it considers; the best plans, and the plans that treat all
    buckets alike, are scheduled and simulated once more in full. If the sharding is
    open, the search is done for each sharding, and all buckets get the sharding of the
    best plan. If `--fcdp-bucket` leaves merging open, the pass merges buckets up to
    the number of bytes with which the step is best, provided that it is better than
    with one bucket per unit, and writes that number on the module as
    `fcdp.bucket_bytes`. It tries numbers that merge about 2, 4, 8, ... buckets, as long
    as the saved latencies can be a thousandth of the step. A bucket with a given
    decision is not merged. The best plan has the least time, weighted by the use of the
    network between nodes: one that sends half as much may take up to 0.7 % longer. Among
    plans that are equally good it chooses the one that uses the least memory. Times are
    computed for the forms in which `wire` and `reduce-wire` let
    buckets send values between nodes: differences are cheaper to send, but only buckets
    with a slice in host memory can send them. `--fcdp-decide-wires` with the same
    options writes the forms.

    With `outer`, states are sharded within nodes, and no step sums gradients between
    nodes.

    If no plan fits the device, and `states` or `activations` is `auto`, plans are
    searched that count on states, on values of the forward pass, or on both being in
    host memory. Each keeps as few there as it needs, and the pass takes the fastest
    plan that fits. `--fcdp-decide-states` and `--fcdp-decide-activations` then move them.

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
    DeviceMemory, HostMemory, Wire, ReduceWire, Outer, States, Activations
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
    `sharded`, every micro-batch reduces its gradients over all ranks and accumulates
    this rank's shard of them.

    - `node`: a micro-batch reduces within the node and adds the node slice; the last
      micro-batch reduces the accumulator between nodes.
    - `node_host`: the same, with the accumulator in host memory. A micro-batch loads it
      during the reduction, adds on the device, and stores it; the first micro-batch
      only stores, and the last one only loads.
    - `full`: a micro-batch adds the unreduced gradients; the last micro-batch reduces
      the accumulator.

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

    The first batch of an evaluation gathers trained buckets. Later batches use the
    copies that a step carries to its next micro-batch, or copies in host memory if a
    micro-batch keeps them there. Evaluations add no states on the device.

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

def OuterStepsPass : FcdpPass<"fcdp-outer-steps"> {
  let summary = "synchronize nodes in outer steps only";
  let description = [{
    Requires phase `sharded` and buckets of `sharding node`. With `outer=H`, gradients
    are reduced within the node, and each node updates its own parameters. The module
    gets `fcdp.outer` and a function `@outer_update`, or one for each fragment, which
    the runtime calls after every H steps. The function subtracts each node's parameters
    from the outer parameters, sums the differences over all nodes, and updates both the
    outer parameters and the nodes' parameters. The trained buckets, in order, are
    divided into fragments of about equal size. Updates and clipping are scaled by
    1 / (ranks of a node x micro-batches). A module that has `fcdp.outer` does not
    change.

    The pass refuses a step with one node, with gradient accumulators in host memory, or
    with buffers that the step writes, such as running statistics, because these would
    differ between nodes.

    Before:

    ```mlir
    fcdp.bucket @bucket.a unit "a" elements 64 storage f32 wire f32 trainable sharding node residency drop members [@a at 0]
    ```

    After `--fcdp-outer-steps="outer=32,dtype=f32"`:

    ```mlir
    fcdp.bucket @bucket.a unit "a" elements 64 storage f32 wire f32 trainable sharding node residency drop outer 0 members [@a at 0]
    fcdp.state @bucket.a.outer outer of @bucket.a in host : tensor<32xf32>
    fcdp.state @bucket.a.outer_momentum outer_momentum of @bucket.a in host : tensor<32xf32>
    ...
    func.func @outer_update() attributes {fcdp.role = #fcdp.role<outer_update>} {
      %d = fcdp.outer_difference @bucket.a : tensor<32xf32>
      %r = fcdp.reduce_scatter %d of @bucket.a over @world[node] : tensor<32xf32> to tensor<16xf32>
      %s = fcdp.all_gather %r of @bucket.a over @world[node] : tensor<16xf32> to tensor<32xf32>
      fcdp.outer_update @bucket.a with %s scale 5.000000e-01 : tensor<32xf32>
      return
    }
    ```
  }];
  let options = [Outer];
}

def DecideWiresPass : FcdpPass<"fcdp-decide-wires"> {
  let summary = "write the form in which each bucket's collectives send values between nodes, if none is given";
  let description = [{
    Requires phase `sharded` and buckets with a residency. With `wire=delta`, gathers of
    a bucket send the changes since the previous gather if the bucket is trained, is
    gathered in bf16 or f16, and has a slice in host memory, from which every node knows
    the previous values. With `wire=auto` they do so if the prediction for `cluster` is
    faster: coding takes time, and sending fewer bytes saves time. With
    `reduce-wire=coded`, reductions of trained buckets code the exponents of gradients,
    unless their collectives are flat; with `reduce-wire=auto` they do so where that is
    predicted to be faster. Neither form changes a value. For the target `cuda`, `auto`
    sends values. With `reduce-wire=int8` or `int4`, reductions round gradients to codes
    instead, which changes values. With one node, nothing is sent and nothing is written.

    Before:

    ```mlir
    fcdp.bucket @bucket.a unit "a" elements 64 storage bf16 wire bf16 trainable residency host members [@a at 0]
    ```

    After `--fcdp-decide-wires="wire=delta reduce-wire=coded"`:

    ```mlir
    fcdp.bucket @bucket.a unit "a" elements 64 storage bf16 wire bf16 trainable residency host gather_wire delta reduce_wire coded members [@a at 0]
    ```
  }];
  let options = [Wire, ReduceWire, ClusterFile, ProfileFile];
}

def DecideStatesPass : FcdpPass<"fcdp-decide-states"> {
  let summary = "write the memory of each bucket's states, if none is given";
  let description = [{
    Requires phase `sharded` and buckets. With `states=host`, the states that the update
    of a trained bucket changes, its moments and its master, are in host memory, and with
    `states=file` in files, which targets other than `cpu` refuse. `piece` is the number of elements of a shard whose states have at most the bytes that the
    option names (67108864). Shards of optimizers that update whole parameters, such as
    Muon, are not cut.

    With `states=auto`, as few bytes move to host memory as the device's memory demands,
    which `device-memory` or the cluster states, those with the shortest copies first.
    The pass plans the memory of the step with the states that it would move. If it fits
    without any, nothing moves. If it does not fit with all of them, all move. With
    `activations=auto`, values of the forward pass may move instead or as well: the
    fastest of these plans that fits is taken.

    With `update=host`, the buckets that the pass moves are updated on the node's
    processors, and with `update=auto` those for which the cluster predicts that this is
    faster than to stream their states.

    Before:

    ```mlir
    fcdp.bucket @bucket.a unit "a" elements 64 storage f32 wire f32 trainable members [@a at 0]
    fcdp.state @bucket.a.exp_avg exp_avg of @bucket.a in device : tensor<16xf32>
    ```

    After `--fcdp-decide-states="states=host"`:

    ```mlir
    fcdp.bucket @bucket.a unit "a" elements 64 storage f32 wire f32 trainable states host piece 8388608 members [@a at 0]
    ...
    fcdp.state @bucket.a.exp_avg exp_avg of @bucket.a in host : tensor<16xf32>
    ```
  }];
  let options = [States, Update, Activations, ClusterFile, ProfileFile, DeviceMemory];
}

def StreamStatesPass : FcdpPass<"fcdp-stream-states"> {
  let summary = "update buckets whose states are in host memory or files in pieces";
  let description = [{
    Requires phase `sharded`. Cuts the update of each bucket with `states host` or
    `file` into pieces of about `piece` elements. Each piece of the states is loaded from
    there, updated on the device, and stored again. The loads of a piece precede the
    update of the piece before it, also of another bucket, so that they run at the same
    time. The result has the bits of an update on the device. The first load is at the
    beginning of `@update`.

    With `update host`, the pieces of the gradients are stored in host memory instead,
    updated there with the states, and the pieces of the shard are loaded. At most three
    pieces are in host memory at a time, one for each of these steps.

    Before:

    ```mlir
    fcdp.bucket @bucket.a unit "a" elements 2048 storage f32 wire f32 trainable states host piece 256 members [@a at 0]
    fcdp.state @bucket.a.momentum_buffer momentum_buffer of @bucket.a in host : tensor<512xf32>
    func.func @update() attributes {fcdp.role = #fcdp.role<update>} {
      fcdp.shard_update @bucket.a scale 2.500000e-01 with #fcdp.sgd<lr = 1.000000e-01 : f64, momentum = 9.000000e-01 : f64, dampening = 0.000000e+00 : f64, weight_decay = 0.000000e+00 : f64, nesterov = false>
      return
    }
    ```

    After `--fcdp-stream-states`:

    ```mlir
    func.func @update() attributes {fcdp.role = #fcdp.role<update>} {
      %0 = fcdp.state_load @bucket.a.momentum_buffer at 0 : tensor<256xf32>
      %1 = fcdp.state_load @bucket.a.momentum_buffer at 256 : tensor<256xf32>
      fcdp.shard_update @bucket.a piece 0 to 256 states(%0 : tensor<256xf32>) scale 2.500000e-01 with #fcdp.sgd<lr = 1.000000e-01 : f64, momentum = 9.000000e-01 : f64, dampening = 0.000000e+00 : f64, weight_decay = 0.000000e+00 : f64, nesterov = false>
      fcdp.state_store %0 to @bucket.a.momentum_buffer at 0 : tensor<256xf32>
      fcdp.shard_update @bucket.a piece 256 to 512 states(%1 : tensor<256xf32>) scale 2.500000e-01 with #fcdp.sgd<lr = 1.000000e-01 : f64, momentum = 9.000000e-01 : f64, dampening = 0.000000e+00 : f64, weight_decay = 0.000000e+00 : f64, nesterov = false>
      fcdp.state_store %1 to @bucket.a.momentum_buffer at 256 : tensor<256xf32>
      return
    }
    ```
  }];
}

def CodeWiresPass : FcdpPass<"fcdp-code-wires"> {
  let summary = "make collectives between nodes send values in the form of their bucket";
  let description = [{
    Requires phase `sharded` and two-level collectives. A gather whose result is stored
    in host memory refers to the slice there with `delta` if the bucket's `gather_wire`
    says so. A reduction between nodes gets the bucket's `reduce_wire` as `code` and, for
    `int8` and `int4`, a state `residual` in host memory.

    Before:

    ```mlir
    fcdp.bucket @bucket.a unit "a" elements 64 storage bf16 wire bf16 trainable residency host gather_wire delta members [@a at 0]
    fcdp.state @bucket.a.cache cache of @bucket.a in host : tensor<32xbf16>
    %s = fcdp.read_shard @bucket.a : tensor<16xbf16>
    %n = fcdp.all_gather %s of @bucket.a over @world[node] range 0 : tensor<16xbf16> to tensor<32xbf16>
    fcdp.cache_store %n to @bucket.a.cache : tensor<32xbf16>
    ```

    After `--fcdp-code-wires`:

    ```mlir
    %n = fcdp.all_gather %s of @bucket.a over @world[node] range 0 delta @bucket.a.cache : tensor<16xbf16> to tensor<32xbf16>
    fcdp.cache_store %n to @bucket.a.cache : tensor<32xbf16>
    ```
  }];
}

#endif // FCDP_TRANSFORMS_DECIDEPASSES
