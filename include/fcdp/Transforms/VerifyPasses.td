// SPDX-License-Identifier: Apache-2.0
#ifndef FCDP_TRANSFORMS_VERIFYPASSES
#define FCDP_TRANSFORMS_VERIFYPASSES

include "fcdp/Transforms/PassBase.td"

class VerifyPass<string phase> : FcdpPass<"fcdp-verify-" # phase> {
  let summary = "check that a module is in phase " # phase;
  let description = "Refuses operations of other phases, and modules that lack what phase `" # phase #
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
    The module has a mesh and a family of functions. Every bucket has a shard, and every
    trained bucket has an accumulator. Every trainable parameter is reduced once per
    micro-batch and updated once; the first micro-batch starts the accumulators.
    Gradients are clipped at most once, in `@update`, before they are used. If a
    function uses a prefetched copy, each function that may run before it has fetched
    the copy, after its own last use of the previous copy.

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
    Every buffer and state has a place of its type's size. Every record has a separate
    event. If its token crosses a function boundary, the argument names the event, which
    is waited for before it is recorded again. `--fcdp-verify-plan` proves that places
    and events suffice.

    Refused by `--fcdp-verify-planned`:

    ```mlir
    %slice = fcdp.cache_load @bucket.a.cache on h2d : tensor<32xf32>
    fcdp.release %slice : tensor<32xf32>
    // error: expected a buffer of 128 bytes
    ```
  }];
}

def VerifyPlanPass : FcdpPass<"fcdp-verify-plan"> {
  let summary = "prove that a plan runs as intended";
  let description = [{
    Requires phase `planned`, and changes nothing. Refuses a plan unless each of these
    holds for every legal run,
    `@init (first next* last update | only update | first_evaluation next_evaluation*)*`,
    over the boundaries of functions and steps. The micro-batches of a step are of one
    variant, and the next step may be of any variant. The error names the bucket by its
    first parameter, and both operations:

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
    - Each operand of a call is a view of the parameter that the call's attribute
      `fcdp.parameters` names, and each gradient is packed for a parameter that
      `fcdp.gradients` names. `--fcdp-bucket` writes both, so that parameters of equal
      types cannot change places.
    - @update clips gradients to `fcdp.clip_norm` of the module, if and only if it has
      one; scales are 1 / (ranks x micro-batches) unless they have `fcdp.own_scale`; each
      bucket has the states of its optimizer; a batch has one loss.
    - The bytes that each function sends and copies for a bucket equal the closed form
      of the bucket's `residency`, `carry`, `accumulation` and `collectives` and of its
      live ranges.

    The proof runs functions one after another on one rank's memory, as all ranks run
    one program. Each stream has a vector clock; a record stores its stream's clock, and
    a wait merges it. Each interval of bytes has its last write, the last read after it
    by each stream (FastTrack, Flanagan and Freund, PLDI 2009), and an abstract content:
    the parameters, the axes that they were gathered over and the update that they
    precede; or the gradients, their micro-batches and the axes that they were reduced
    over. The input of a gather that is placed inside the result has separate bytes, at
    a different place on each rank. States that no later function can distinguish are
    merged, so that runs of any length come to an end. Time is about linear in the
    number of operations. The proof errs on the side of refusing: the result of an
    unknown operator counts as a read of its operands. Bytes that no value or state
    reserves are free for the results of operators: compute writes to them from the
    first operator that finds them free to the last.

    Refused by `--fcdp-verify-plan`:

    ```mlir
    %shard = fcdp.read_shard @bucket.a : tensor<32xf32>
    %ready = fcdp.record on compute event 0
    fcdp.wait %ready on intra
    %whole = fcdp.all_gather %shard of @bucket.a over @world[local] range 0 on intra {buffer = #fcdp.buffer<arena = device, offset = 256, bytes = 256>} : tensor<32xf32> to tensor<64xf32>
    %gathered = fcdp.record on intra event 1
    // Here, `fcdp.wait %gathered on compute` is missing.
    %a = fcdp.view_member %whole @a of @bucket.a : tensor<64xf32> to tensor<64xf32>
    %l = aten.call "aten.sum.default"(self = %a) {fcdp.parameters = [@a]} : (tensor<64xf32>) -> tensor<f32>
    fcdp.release %whole : tensor<64xf32>
    // error: for 'a' of @bucket.a in @only_microbatch: reads bytes [256, 512) of the device arena on compute, not ordered with another access to them; expected 'compute' to wait for 'intra'
    ```
  }];
  let options = [DeviceMemory, HostMemory];
}

#endif // FCDP_TRANSFORMS_VERIFYPASSES
