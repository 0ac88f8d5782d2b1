// SPDX-License-Identifier: Apache-2.0
#ifndef FCDP_TRANSFORMS_PASSES
#define FCDP_TRANSFORMS_PASSES

include "fcdp/Transforms/PipelineOptions.td"

class FcdpPass<string name> : Pass<name, "::mlir::ModuleOp"> {
  let dependentDialects = ["::fcdp::FcdpDialect", "::fcdp::aten::AtenDialect",
                           "::mlir::func::FuncDialect"];
}

def RetargetPass : FcdpPass<"fcdp-retarget"> {
  let summary = "make a step that was exported on a CPU one for CUDA";
  let description = [{
    Requires phase `imported`. With target `cuda`, calls that make tensors make
    them on CUDA, and attention, the one operator of common models that PyTorch
    has apart for the CPU, becomes the flash kernel (f16 or bf16, no mask, heads
    up to 256 deep) or the memory-efficient one (all else). What PyTorch's own
    `scaled_dot_product_attention` does for these kernels is done here: heads are
    padded to multiples of 8, rows of a mask stand at multiples of 8 elements, and
    the memory-efficient kernel gets as many heads of keys as of queries. Results
    have the shapes that the CPU's have and, as views may rely on it, their order
    in memory, which the import noted on the call as `fcdp.dim_order`; they are
    copied where the kernel's order is another one. Numbers differ as the kernels'
    sums do.

    Writes `fcdp.target` on the module. A step that was exported on CUDA has it
    from the import and only loses the numbers of its devices: each rank has one,
    `cuda`. Without a target the step stays what it is. Operators that PyTorch has
    for the CPU only are refused, and so is attention in f64. Running it again
    changes nothing.
  }];
  let options = [Target];
}

def DecideRematPass : FcdpPass<"fcdp-decide-remat"> {
  let summary = "choose what the backward pass computes again instead of keeping it";
  let description = [{
    Requires phase `imported`. The forward pass is what stands up to the operation
    that gives the loss; what it computes and later operations read is kept in
    device memory until then, or computed again from what is kept. Writes
    `fcdp.recompute = true` on calls that run again, and on the module that it was
    done. A call that has the attribute stays as it is, `true` or `false`.

    - `none`: nothing runs again.
    - `unit`: in each unit (a block of a transformer, say) as much as frees memory,
      so that little but what one unit hands to the next is kept.
    - a number of bytes: as little as brings what is kept down to that many, by
      the time that calls take on `cluster`. Without a cluster, by the bytes that
      they move and their floating-point operations at the rates of an A100. What
      the backward pass allocates itself is not counted.

    A call's unit is the one that its module path lies in; without a path, that of
    the parameters it reads; without these, that of the calls before it, unless it
    is behind all units, as a loss is. A value that another unit reads is kept.
    Nothing runs again that draws random numbers or may (dropout, and operators
    that the compiler does not know), reads a buffer that the step changes
    (batch norm's statistics), or would gather a parameter once more. Errs on the
    side of keeping.
  }];
  let options = [Remat, ClusterFile, ProfileFile];
}

def RematPass : FcdpPass<"fcdp-remat"> {
  let summary = "compute forward values again in the backward pass";
  let description = [{
    Requires phase `imported`. A call of the forward pass with
    `fcdp.recompute = true` runs again in front of the first operation of the
    backward pass that needs it, after what it needs itself; views of its results
    go with it. Results are the same bit for bit: the same calls on the same
    values. There, the parameters that it reads are gathered for the unit's
    backward pass anyway, if `--fcdp-decide-remat` chose it; a choice
    that was given may cost a gather. The attribute stays on the first of the two
    calls, so that CSE does not merge them; the second is `fcdp.repeated`, unless
    only the backward pass needs the results and the first is gone.
  }];
}

def ShardPass : FcdpPass<"fcdp-shard"> {
  let summary = "cut parameters over a mesh and make the step a family of functions";
  let description = [{
    Requires a module in phase `imported`. Every parameter is cut over all ranks
    of a mesh of `nodes` x `ranks-per-node`. A parameter is gathered once per
    live range of its unit: a live range is a longest run of uses, in program
    order, that no use of another unit interrupts. So a block is gathered once
    in the forward and once in the backward pass, an output layer, whose two
    uses touch, once, and an embedding that only the forward pass reads once.
    Views of parameters are cloned to each use first, for a view that lives
    from forward to backward would keep the gathered copy alive. So are the
    casts of a parameter that is only read through casts to one narrower type:
    `--fcdp-narrow-gathers` moves them in front of the gather.

    Gradients are reduced where they are made and summed into accumulators.
    `@step` becomes `@only_microbatch`, or, for more than one micro-batch,
    `@first_microbatch`, `@next_microbatch` and `@last_microbatch`, with `@init`
    before and `@update` after them.

    The layout of shards is left open; `--fcdp-bucket` fixes it. An operator
    that the compiler does not know may alias its operands; its results are not
    cloned. Errs on the side of gathering again.
  }];
  let options = [Nodes, RanksPerNode, MicroBatches, Optimizer, ClipNorm];
}

def NarrowGathersPass : FcdpPass<"fcdp-narrow-gathers"> {
  let summary = "gather in the narrow type that is used";
  let description = [{
    Requires gathers of single parameters (after `--fcdp-shard`). Where every use
    of a parameter, in every function, reads it through a cast to one narrower
    floating-point type, the shard is cast before the gather: the wire carries
    half the bytes, and the result is the same bit for bit. Views between gather
    and cast stay, where they show every element once. Errs on the side of
    leaving a parameter alone: one that is also read in its own type, in two
    types, through a slice, or by a copy to another memory format.
  }];
}

def BucketPass : FcdpPass<"fcdp-bucket"> {
  let summary = "fix the storage layout: one flat bucket per unit, type and trainability";
  let description = [{
    Requires gathers of single parameters. Parameters of one unit, storage type,
    wire type, gradient type and trainability form a bucket, in PyTorch's
    parameter order; parameters that no function reads form buckets that are
    never gathered. All parameters must have one optimizer. Members start at multiples of 64 bytes; a bucket is padded to
    equal shards of a multiple of 64 bytes. `sharding` says over which ranks their
    states are cut. The layout is final: later passes
    only move whole buckets, but where `--fcdp-decide` may merge them.

    `layout` says what no shard begins inside (see `#fcdp.layout`): members are
    placed, in their order, so that shards are as small as that allows, after
    veScale-FSDP (arXiv 2602.22437).

    A collective of few bytes is all latency, so buckets that differ in nothing
    but their unit are merged, neighbours in the order of the parameters, up to
    `bucket-bytes`. (PyTorch FSDP's gathers lose efficiency below 33 million elements,
    arXiv 2304.11277.) A merged bucket's copy is in memory from the first use of its
    units to the last, in the forward and in the backward pass, and is gathered no more
    often than the unit that is used most often.

    Gathers of one live range become one gather, at the first of them, and
    parameters become views of its result. Gradients are packed into a bucket
    and reduced together, when the last of them is there; the reduced sum is
    accumulated when the next bucket is packed, so that a reduction overlaps
    with the backward pass of the unit before. Where a rank owns more than a shard
    of the G ranks, a copy is gathered over the axes that are left, none if it owns
    the whole, and the reduced gradient, in f32, over the others: sums and their
    order are those of `world`.
  }];
  let options = [
    Layout, BucketBytes,
    Option<"sharding", "sharding", "std::string", "\"world\"",
           "selects the ranks over which parameters, gradients and optimizer state are "
           "sharded: 'world'; 'node', which gathers within nodes only; 'none', which "
           "gathers nothing; 'auto' leaves it to --fcdp-decide (default: world)">,
    Option<"openMerging", "open-merging", "bool", "false",
           "lets --fcdp-decide merge what is left, where states are sharded over all "
           "ranks or left open, too">
  ];
}

def DecidePass : FcdpPass<"fcdp-decide"> {
  let summary = "write each bucket's residency and accumulation where none is given";
  let description = [{
    Requires phase `sharded`. Strategies are presets of the same decisions; what a
    bucket already has wins.

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

    The sharding is part of the layout, and `--fcdp-bucket` fixes it, unless it leaves
    it open; some bucket to decide for must have it. A bucket of another gets the residency that it can
    have: `drop` for `node` and `host` with `sharding node`, where the shard is the
    slice, and `full` with `sharding none`, where it is the whole.

    The module gets what `--fcdp-prefetch` and `--fcdp-delay-sums` are to do.

    A bucket whose collectives are `flat` has one step over all ranks in place of
    one between nodes and one within them, wherever no slice of a node is kept or
    summed: one latency in place of two, but over Gloo as many times more bytes between
    nodes as a node has ranks, and over rings of NCCL (G-1)/G of the whole in place of
    (N-1)/N. On the CPU it gives the same bits.

    `auto` chooses for each bucket what makes a step on `cluster` take the least time
    within the memory of its devices and hosts, and how far ahead to gather and how many
    reductions to let run: a step is simulated under each plan that is looked at, and
    the schedules of the best and of those that treat all buckets alike once more, in
    full. Where the sharding is open, all of that is done for each, and all buckets get
    the one of the fastest plan. Where `--fcdp-bucket` leaves it open to merge buckets,
    they are merged up to the number of bytes with which the step is fastest, if it is
    then faster than with one per unit; the module gets that number as
    `fcdp.bucket_bytes`. Compared are numbers that merge about 2, 4, 8, ... buckets, as
    far as the latencies that they save may be a thousandth of the step. A bucket about
    which something is given is not merged. Of plans that take the same time it
    chooses the smallest.
  }];
  let options = [
    Strategy, Accumulate, Collectives, Prefetch, Reductions, ClusterFile, ProfileFile,
    DeviceMemory, HostMemory
  ];
}

def TwoLevelPass : FcdpPass<"fcdp-two-level"> {
  let summary = "split collectives into a step between nodes and a step within nodes";
  let description = [{
    Requires buckets. A gather over both axes becomes a gather between nodes,
    which yields this rank's slice, and one within the node; a reduction runs
    the same way back. Each byte crosses the network once per node. Steps over an
    axis of one rank vanish; of a reduction the last step stays, since it
    converts to f32. Collectives of a bucket that has chosen `collectives flat` stay
    whole, but for gathers where the slice is kept (`residency` or `carry` is `node` or
    `host`) and reductions where it is summed (`accumulation` is `node`).
  }];
}

def AccumulatePass : FcdpPass<"fcdp-accumulate"> {
  let summary = "sum gradients over micro-batches where the buckets say";
  let description = [{
    Requires two-level collectives. Without it, and at `sharded`, every micro-batch
    reduces its gradients over all ranks and adds this rank's shard of them.

    - `node`: a micro-batch reduces within the node and adds the node slice; the
      last one reduces the sum between nodes.
    - `node_host`: the same with the sum in host memory. A micro-batch loads it while
      it reduces, adds on the device, and stores it; the first one only stores, the
      last one only loads.
    - `full`: a micro-batch adds the gradients as they are; the last one reduces
      the sum.

    Sums are f32; they are rounded to the gradient's type before they are reduced
    further, so that the wire carries as many bytes as at `sharded`. With one
    micro-batch there is nothing to sum; within one node, `node` and `node_host` are
    `sharded`.
  }];
}

def CachePass : FcdpPass<"fcdp-cache"> {
  let summary = "serve later gathers of a bucket from its residency";
  let description = [{
    Requires two-level gathers and buckets with a `residency`.

    - `drop`: every live range gathers over the network again.
    - `host`: the first gather between nodes stores this rank's slice in the
      node's host memory, later uses load it.
    - `node`: the slice stays on the device.
    - `full`: the gathered copy stays on the device.

    A bucket's `residency` holds between the live ranges of a micro-batch, its
    `carry` (by default the same) from one micro-batch to the next; a copy that is
    carried on the device serves the live ranges, too. Trained buckets are
    gathered in the first micro-batch of a step, frozen ones in `@init`, once per
    job. With a single node there is no slice, and `host` and `node` act like
    `drop`.
  }];
}

def DecideOverlapPass : FcdpPass<"fcdp-decide-overlap"> {
  let summary = "decide when each fetch is issued and each sum is noted";
  let description = [{
    Requires phase `sharded`, --fcdp-two-level, and nothing issued ahead.
    Where the module gives no `fcdp.prefetch`, each fetch gets one of its own: as
    late as it may be issued without compute waiting longer for it than if it were
    issued as early as can be. Where the module gives no `fcdp.reductions`, each
    sum gets one of its own: as early as it may be noted. All under the memory of
    the device: what does not fit is shortened where most memory is used. A given
    attribute wins. Without a cluster nothing is decided.

    `fcdp.prefetch` on the gather or load that brings a copy is how many units
    ahead its fetch is issued; `fcdp.reductions` on a sum is over how many units
    its reduction may run. --fcdp-prefetch and --fcdp-delay-sums apply them.
  }];
  let options = [ClusterFile, ProfileFile, DeviceMemory];
}

def PrefetchPass : FcdpPass<"fcdp-prefetch"> {
  let summary = "issue gathers and loads ahead of their use";
  let description = [{
    Requires phase `sharded`. A fetch is what brings one gathered copy to its use:
    the gather between nodes or the load from the host cache, with what is cast
    before and stored behind it, and the gather within the node. The fetches of a
    unit's live range are moved in front of the use that is so many ranges before it
    as the attribute `fcdp.prefetch` says (1 if it is absent; `--fcdp-decide` writes it
    on the module, `--fcdp-decide-overlap` on gathers and loads, which wins), so that
    they run while the units between them compute. With a distance of D, the copies of
    at most D + 1 units exist that are not used yet; each costs device memory. Nothing
    moves in front of what it needs, a load not in front of the store, nor into
    another function. Of several fetches the order stays. The module says that it
    was done, so that it is done once.
  }];
}

def PrefetchAcrossPass : FcdpPass<"fcdp-prefetch-across"> {
  let summary = "make the first gathers and loads of a micro-batch in the one before";
  let description = [{
    Requires phase `sharded` and buckets. The fetches of the first live ranges of
    @next_microbatch and @last_microbatch, as many as `--fcdp-prefetch` has noted to
    issue ahead, are made in the functions that come before, in front of the use
    that is so many ranges before theirs, as if its uses went on with them: weights
    do not change within a step. So the bytes of a step stay what they are; those of
    the first micro-batch grow by what those of the last lose.

    The copy is a state of role `prefetched`, since it is there when functions
    change. A fetch stays where it is if it is stored on its way, if its slice is
    used again, or if it is a second one of its bucket, and then all behind it do.
    Nothing crosses an update. Does nothing where some copy crosses already, so that
    twice is once.
  }];
}

def DelaySumsPass : FcdpPass<"fcdp-delay-sums"> {
  let summary = "let several reductions run while the backward pass goes on";
  let description = [{
    Requires phase `sharded`. The sum of a reduction is accumulated where the reduction
    of the unit begins that comes so many units later as the attribute
    `fcdp.reductions` says (2 if it is absent; `--fcdp-decide` writes it on the module,
    `--fcdp-decide-overlap` on sums, which wins), or at the end of the function, so
    that the reductions of so many units run while others compute. Each holds its
    packed gradients and as much scratch memory. Sums of values that are not reduced
    stay where they are.

    Sums that would be noted at the end of a function are `late` if all functions that
    come before the same ones have them: they run on the stream of their reduction,
    and nothing waits for them but who needs the sum or their memory. That is the
    update of that bucket, which comes last, or the next micro-batch when it packs its
    first gradients. Only where fetches are issued ahead (`--fcdp-prefetch` with a
    distance comes before), for else nothing runs meanwhile.
  }];
}

def SchedulePass : FcdpPass<"fcdp-schedule"> {
  let summary = "put operations on streams and order the streams";
  let description = [{
    Requires phase `sharded`; gives phase `scheduled`. Operations are issued in
    program order. Gathers run on `inter` (over all ranks,
    too) and `intra`, reductions on `inter_reduce` and `intra_reduce`, so that a gather does not
    queue behind a reduction, which waits for its gradients; host copies run on
    `d2h` and `h2d`, the rest on `compute`. A wait is
    placed before each use of a value from another stream; work on another stream
    first waits for the compute stream as of its issue, so that it may use any
    memory released before, be it by the function before: at the end of a
    function all streams are joined into compute, but for what brings in copies
    that the next function finds prefetched, and for late sums. These give tokens,
    results of one function and arguments of the next, which waits for each where it
    uses the copy or the sum, and for sums before it packs gradients; what they use
    on their way is released on their own stream. What an operator that the
    compiler does not know makes of a value keeps the value alive. Errs on the
    side of waiting.
  }];
}

def MakeGradientsInPlacePass : FcdpPass<"fcdp-make-gradients-in-place"> {
  let summary = "have operators write gradients straight into their bucket";
  let description = [{
    Requires phase `scheduled`. A gradient that an operator with an out-variant makes
    (`aten.mm.out`), and that nothing but its bucket's pack sees, need not be copied:
    the operator writes it to its place in the bucket. The kernel is the same, so are
    the bits. Memory for the whole bucket is then in use from the first such gradient
    on, not from the pack on, and no other memory for those that are written there.
    So of each bucket those gradients are written in place that are made when there is
    room for it: by lifetimes, and with some to spare, as packing does not fill all.
    The planned memory of a device does not grow: places are given as
    `--fcdp-plan-memory` would, and where that takes more than with copies, only part
    of the packs keep theirs, the later ones first, as few plans show. What is decided
    is written on the pack as `in_place`; a given one is kept, and an empty one copies
    all.

    Errs on the side of copying: gradients that are read twice, transposed or cast,
    packs that start a sum in the accumulator, and those whose reduction runs on into
    the next function.
  }];
}

def PlanMemoryPass : FcdpPass<"fcdp-plan-memory"> {
  let summary = "give every buffer its place in an arena";
  let description = [{
    Requires phase `scheduled`; gives phase `planned`. States get places that hold
    for the whole job; values of a function share the memory after them by
    lifetime, also that of prefetched copies before they are on their way and after
    their last use. What late sums use stays theirs in the next function until compute
    has waited for them. The input of a gather is placed inside its result when nothing else
    needs it, and a reduction writes straight into the gradient accumulator that
    it starts. Records get event numbers, which are the module's; tokens that arrive
    as the same argument share theirs. Results of ATen operators live where no value
    is, and behind the last one: values are placed so that both together need little.
  }];
}

class VerifyPass<string phase> : FcdpPass<"fcdp-verify-" # phase> {
  let summary = "check that a module is in phase " # phase;
  let description = "Refuses operations of other phases, and what phase `" # phase #
                    "` requires beyond the operations' own constraints.";
}
def VerifyImportedPass : VerifyPass<"imported"> {
  let description = [{
    There is one function, `@step`; it gives one loss, and one gradient for each
    trainable parameter.
  }];
}
def VerifyShardedPass : VerifyPass<"sharded"> {
  let description = [{
    There is a mesh and a family of functions; every bucket has a shard, and a
    trained one an accumulator; every trainable parameter is reduced once per
    micro-batch and updated once; the first micro-batch starts the sums. Gradients
    are clipped once at most, in @update, before they are used. What a function
    finds prefetched, each that may come before it has brought in, behind the last
    use there of the copy before.
  }];
}
def VerifyScheduledPass : VerifyPass<"scheduled"> {
  let description = [{
    Collectives run over one axis of flat tensors, or over both where their bucket
    says so; they and host copies name their stream; every buffer is released once, and
    on another stream than compute only in front of a token of it that the function
    gives. Functions give tokens that they recorded, as many as those after them take.
    All gathers over the same axes are on one stream, and so are all reductions over
    them: each has a communicator, which one stream may use.
  }];
}
def VerifyPlannedPass : VerifyPass<"planned"> {
  let description = [{
    Every buffer and state has a place of its type's size, and every record an
    event of its own or, if its token crosses into another function, one that the
    argument names and that is waited for before it is recorded again. `--fcdp-verify-plan` proves that they serve.
  }];
}

def VerifyPlanPass : FcdpPass<"fcdp-verify-plan"> {
  let summary = "prove that a plan runs as it is meant to";
  let description = [{
    Requires phase `planned`, and changes nothing. Refuses a plan unless each of
    these holds for every legal run, `@init (first next* last update | only
    update)*`, over the ends of functions and steps; the error names the bucket by
    its first parameter, and both operations:

    - Accesses to the same bytes of an arena, one of them a write, are ordered by
      streams and events.
    - Each read finds what it is meant to: the value that was written for it, a
      copy that is not older than the parameters, a cache that was stored before,
      gradients of its own bucket.
    - Each trained parameter is in one bucket, and a step reduces the gradients of
      each of its micro-batches over both axes, sums each once, and updates once.
    - A wait is for an event that was recorded, and a value is released once, when
      compute has waited for all accesses to it. Waits and collectives so follow
      the order of issue, and cannot wait for each other in a circle.
    - What each function sends and copies for a bucket equals the closed form of
      the bucket's `residency`, `carry`, `accumulation` and `collectives` and of its
      live ranges.

    Functions run one behind the other on one rank's memory, as all ranks run one
    program. Each stream has a vector clock; a record keeps its stream's, a wait
    merges it. Of each interval of bytes only the last write, and by stream the last
    read after it, are kept (FastTrack, Flanagan and Freund, PLDI 2009), and an
    abstract content: whose parameters, gathered over which axes, from before which
    update; or whose gradients, of which micro-batches, reduced over which axes. The
    input of a gather that stands inside the result has bytes of its own, on each
    rank elsewhere. States that no later function can tell apart are one, so that
    runs of any length come to an end. Time is about linear in operations. Errs on
    the side of refusing: what an unknown operator makes of a value reads it all.
    Bytes that no value or state holds are lent to results of operators: compute
    writes to them from the first operator that finds them free to the last.
  }];
  let options = [DeviceMemory, HostMemory];
}

#endif // FCDP_TRANSFORMS_PASSES
