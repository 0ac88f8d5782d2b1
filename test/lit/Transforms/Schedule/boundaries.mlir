// Values in flight over the function boundary between two micro-batches: the first
// copies of the next one, the last accumulates of this one, and their tokens.
// RUN: fcdp-opt %s --fcdp-pipeline="nodes=2 ranks-per-node=2 strategy=fcdp micro-batches=3" -o %t.mlir
// RUN: FileCheck %s --input-file=%t.mlir
// RUN: fcdp-opt %t.mlir --fcdp-verify-planned --fcdp-verify-plan -o /dev/null

// The copy has the same place in every function, and the slice that it is
// gathered from is inside it. The place follows those of all permanent states.
// CHECK: fcdp.state @bucket.a.prefetched {{.*}} at <arena = device, offset = [[$COPY:2048]], bytes = 256>
// CHECK: fcdp.state @bucket.b.exp_avg_sq {{.*}} at <arena = device, offset = 1792, bytes = 64>

// Each function but the last fetches a copy before it computes with its last
// one, after its store to the host cache, and returns a token. Until then other
// values use the memory.
// CHECK-LABEL: func.func @first_microbatch
// CHECK-SAME: () -> (!fcdp.token, !fcdp.token, !fcdp.token)
// CHECK: fcdp.cache_store %{{.*}} to @bucket.a.cache
// CHECK: %[[EARLIER:.*]] = fcdp.all_gather {{.*}} offset = [[$COPY]],
// CHECK: fcdp.release %[[EARLIER]] :
// CHECK: %[[SUM_B:.*]] = fcdp.record on inter_reduce event [[$EVENT_B:[0-9]+]]
// CHECK: %[[SLICE:.*]] = fcdp.cache_load @bucket.a.cache on h2d {buffer = #fcdp.buffer<arena = device, offset = [[$COPY]], bytes = 128, local_stride = 128>}
// CHECK: %[[WHOLE:.*]] = fcdp.all_gather %[[SLICE]] of @bucket.a over @world[local] range 0 into @bucket.a.prefetched on intra {buffer = #fcdp.buffer<arena = device, offset = [[$COPY]], bytes = 256>}
// CHECK-DAG: fcdp.release %[[WHOLE]] on intra
// CHECK-DAG: fcdp.release %[[SLICE]] on intra
// CHECK: %[[TOKEN:.*]] = fcdp.record on intra event [[$EVENT:[0-9]+]]
// CHECK: aten.call
// CHECK-NOT: fcdp.wait %[[TOKEN]]
// CHECK-NOT: offset = [[$COPY]],
// The last reductions write or add to their accumulators on their own stream, from
// memory that stays reserved in the next function; nothing waits for them.
// CHECK: %[[PACKED:.*]] = fcdp.pack @bucket.a({{.*}}) {buffer = #fcdp.buffer<arena = device, offset = [[$PACKED:[0-9]+]], bytes = 256>}
// CHECK: %[[PART:.*]] = fcdp.reduce_scatter %[[PACKED]] of @bucket.a over @world[local] on intra_reduce
// CHECK: %[[SHARD:.*]] = fcdp.reduce_scatter %[[PART]] of @bucket.a over @world[node] on inter_reduce {buffer = #fcdp.buffer<arena = device, offset = 256, bytes = 64>
// CHECK-NEXT: fcdp.accumulate %[[SHARD]] into @bucket.a overwrite late on inter_reduce
// CHECK-DAG: fcdp.release %[[SHARD]] on inter_reduce
// CHECK-DAG: fcdp.release %[[PART]] on inter_reduce
// CHECK-DAG: fcdp.release %[[PACKED]] on inter_reduce
// CHECK: %[[SUM_A:.*]] = fcdp.record on inter_reduce event [[$EVENT_A:[0-9]+]]
// CHECK-NOT: fcdp.wait
// CHECK: return %[[TOKEN]], %[[SUM_A]], %[[SUM_B]] :

// The wait for the copy is before its use and after the load of the next copy; the
// waits for accumulates are before the first gradients.
// CHECK-LABEL: func.func @next_microbatch
// CHECK-SAME: (%[[BEFORE:.*]]: !fcdp.token {fcdp.event = [[$EVENT]] : i64}, %[[BEFORE_A:.*]]: !fcdp.token {fcdp.event = [[$EVENT_A]] : i64}, %[[BEFORE_B:.*]]: !fcdp.token {fcdp.event = [[$EVENT_B]] : i64}) -> (!fcdp.token, !fcdp.token, !fcdp.token)
// Dont: memory of earlier reductions is not written before they are done.
// CHECK-NOT: offset = [[$PACKED]],
// CHECK: fcdp.cache_load @bucket.b.cache
// CHECK: %[[COPY:.*]] = fcdp.read_state @bucket.a.prefetched
// CHECK-NEXT: fcdp.wait %[[BEFORE]] on compute
// CHECK-NEXT: fcdp.view_member %[[COPY]]
// CHECK-NOT: offset = [[$PACKED]],
// CHECK: fcdp.wait %[[BEFORE_A]] on compute
// CHECK-NEXT: fcdp.wait %[[BEFORE_B]] on compute
// CHECK-NEXT: fcdp.pack @bucket.b
// CHECK: into @bucket.a.prefetched
// CHECK: %[[TOKEN:.*]] = fcdp.record on intra event [[$EVENT]]{{$}}
// CHECK: fcdp.accumulate %{{.*}} into @bucket.a add late on inter_reduce
// CHECK: %[[SUM_A:.*]] = fcdp.record on inter_reduce event [[$EVENT_A]]{{$}}
// CHECK: return %[[TOKEN]], %[[SUM_A]], %{{.*}} :

// CHECK-LABEL: func.func @last_microbatch
// CHECK-SAME: -> (!fcdp.token, !fcdp.token) attributes
// Dont: nothing is gathered for after the update, which makes copies stale.
// CHECK-NOT: into @bucket.a.prefetched
// CHECK-LABEL: func.func @update
// Updates come in the order of the sums that they need, and nothing is in
// flight when they end.
// CHECK-SAME: (%[[SUM_A:.*]]: !fcdp.token {{{.*}}}, %[[SUM_B:.*]]: !fcdp.token {{{.*}}}) attributes
// CHECK-NEXT: fcdp.wait %[[SUM_B]] on compute
// CHECK-NEXT: fcdp.shard_update @bucket.b
// CHECK-NEXT: fcdp.wait %[[SUM_A]] on compute
// CHECK-NEXT: fcdp.shard_update @bucket.a
// CHECK-NEXT: return{{$}}

// Sums cross to the update with one micro-batch, too; clipping waits for them.
// RUN: fcdp-opt %s --fcdp-pipeline="nodes=2 ranks-per-node=2 strategy=fcdp" | FileCheck %s --check-prefix=ONE
// ONE-LABEL: func.func @only_microbatch
// ONE-SAME: () -> (!fcdp.token, !fcdp.token)
// RUN: fcdp-opt %s --fcdp-pipeline="nodes=2 ranks-per-node=2 strategy=fcdp clip-norm=1" | FileCheck %s --check-prefix=CLIP
// CLIP-LABEL: func.func @update
// CLIP-NEXT: fcdp.wait %arg0 on compute
// CLIP-NEXT: fcdp.wait %arg1 on compute
// CLIP-NEXT: fcdp.clip_gradients

// One reduction at a time: only the last sum crosses.
// RUN: fcdp-opt %s --fcdp-pipeline="nodes=2 ranks-per-node=2 strategy=fcdp reductions=1" | FileCheck %s --check-prefix=LAST
// LAST-LABEL: func.func @only_microbatch
// LAST-SAME: () -> !fcdp.token
// LAST: fcdp.accumulate %{{.*}} into @bucket.b overwrite :
// LAST: fcdp.accumulate %{{.*}} into @bucket.a overwrite late on
// LAST-LABEL: func.func @update
// LAST-NEXT: fcdp.shard_update @bucket.b
// LAST-NEXT: fcdp.wait
// LAST-NEXT: fcdp.shard_update @bucket.a

// Accumulates within the node are also in flight from one micro-batch to the next,
// and so are gathers after a reduction.
// RUN: fcdp-opt %s --fcdp-pipeline="nodes=2 ranks-per-node=2 strategy=fcdp micro-batches=2 accumulate=node" | FileCheck %s --check-prefix=NODE
// NODE-LABEL: func.func @first_microbatch
// NODE: fcdp.accumulate %{{.*}} into @bucket.a.node_grad overwrite late on intra_reduce
// NODE-LABEL: func.func @last_microbatch
// Dont: not a sum that the function reads.
// NODE: fcdp.accumulate %{{.*}} into @bucket.a.node_grad add :
// NODE: fcdp.accumulate %{{.*}} into @bucket.a overwrite late on inter_reduce
// RUN: fcdp-opt %s --fcdp-pipeline="nodes=2 ranks-per-node=2 strategy=hsdp micro-batches=2" | FileCheck %s --check-prefix=GATHERED
// GATHERED-LABEL: func.func @first_microbatch
// GATHERED: %[[WHOLE:.*]] = fcdp.all_gather %{{.*}} of @bucket.a over @world[node] on inter
// GATHERED-NEXT: fcdp.accumulate %[[WHOLE]] into @bucket.a overwrite late on inter

// Dont: a sum that no reduction makes does not cross, nor any where nothing is
// issued ahead.
// RUN: fcdp-opt %s --fcdp-pipeline="nodes=2 ranks-per-node=2 strategy=zero1 micro-batches=2" | FileCheck %s --check-prefix=FULL
// FULL-LABEL: func.func @first_microbatch
// FULL-SAME: () attributes
// FULL: fcdp.accumulate %{{.*}} into @bucket.a.full_grad overwrite :
// FULL-LABEL: func.func @last_microbatch
// FULL-SAME: () -> (!fcdp.token, !fcdp.token)
// RUN: fcdp-opt %s --fcdp-pipeline="nodes=2 ranks-per-node=2 strategy=fcdp micro-batches=3 prefetch=0" | FileCheck %s --check-prefix=NOTOKEN
// NOTOKEN-NOT: {{ late |!fcdp.token}}

// A slice on the device is gathered from in every function, and weights that
// stay in shards from node to node.
// RUN: fcdp-opt %s --fcdp-pipeline="nodes=2 ranks-per-node=2 strategy=hpz micro-batches=2" | FileCheck %s --check-prefix=DEVICE
// DEVICE-LABEL: func.func @first_microbatch
// DEVICE: fcdp.all_gather %{{.*}} of @bucket.a over @world[node] range 0 into @bucket.a.resident
// DEVICE: %[[SLICE:.*]] = fcdp.read_state @bucket.a.resident
// DEVICE: fcdp.all_gather %[[SLICE]] of @bucket.a over @world[local] range {{[01]}} into @bucket.a.prefetched
// DEVICE-LABEL: func.func @next_microbatch
// RUN: fcdp-opt %s --fcdp-pipeline="nodes=2 ranks-per-node=2 strategy=zero3 micro-batches=2 prefetch=2" | FileCheck %s --check-prefix=TWO
// RUN: fcdp-opt %s --fcdp-pipeline="nodes=2 ranks-per-node=2 strategy=zero3 micro-batches=2 prefetch=9" | FileCheck %s --check-prefix=TWO
// Two copies, and no more than there are buckets.
// TWO-LABEL: func.func @first_microbatch
// TWO-SAME: () -> (!fcdp.token, !fcdp.token, !fcdp.token, !fcdp.token)
// TWO: over @world[node] range 0
// TWO: into @bucket.a.prefetched
// TWO: into @bucket.b.prefetched
// TWO-LABEL: func.func @next_microbatch

// On nodes of one rank the load itself brings the copy.
// RUN: fcdp-opt %s --fcdp-pipeline="nodes=2 strategy=fcdp micro-batches=2" | FileCheck %s --check-prefix=LOAD
// LOAD-LABEL: func.func @first_microbatch
// LOAD: %[[COPY:.*]] = fcdp.cache_load @bucket.a.cache into @bucket.a.prefetched on h2d
// LOAD-NEXT: fcdp.release %[[COPY]] on h2d
// LOAD-NEXT: %[[TOKEN:.*]] = fcdp.record on h2d
// LOAD: return %[[TOKEN]],

// Twice is once, and it is for modules in phase 'sharded'.
// RUN: fcdp-opt %s --fcdp-shard="nodes=2 micro-batches=2" --fcdp-bucket --fcdp-two-level --fcdp-prefetch --fcdp-prefetch-across --fcdp-delay-sums -o %t.once
// RUN: fcdp-opt %t.once --fcdp-prefetch-across --fcdp-delay-sums -o %t.twice
// RUN: diff %t.once %t.twice
// RUN: FileCheck %s --check-prefix=ONCE --input-file=%t.once
// ONCE: fcdp.state @bucket.a.prefetched
// ONCE: fcdp.accumulate {{.*}} late :
// RUN: not fcdp-opt %t.mlir --fcdp-prefetch-across 2>&1 | FileCheck %s --check-prefix=PHASE
// PHASE: error: expected a module in phase 'sharded'

// Dont: at distance 0 nothing crosses, nor where nothing was issued ahead, with
// one micro-batch, where a copy stays on the device, or without buckets.
// RUN: fcdp-opt %s --fcdp-pipeline="nodes=2 ranks-per-node=2 strategy=fcdp micro-batches=3 prefetch=0" | FileCheck %s --check-prefix=NONE
// RUN: fcdp-opt %s --fcdp-pipeline="nodes=2 ranks-per-node=2 strategy=fcdp" | FileCheck %s --check-prefix=NONE
// RUN: fcdp-opt %s --fcdp-pipeline="nodes=2 ranks-per-node=2 strategy=zero2 micro-batches=3" | FileCheck %s --check-prefix=NONE
// RUN: fcdp-opt %s --fcdp-shard="nodes=2 micro-batches=2" --fcdp-prefetch --fcdp-prefetch-across | FileCheck %s --check-prefix=NONE
// RUN: fcdp-opt %s --fcdp-shard="nodes=2 micro-batches=2" --fcdp-bucket --fcdp-two-level --fcdp-prefetch-across | FileCheck %s --check-prefix=NONE
// NONE-NOT: {{\.prefetched .*prefetched of}}

// Dont: a copy whose slice is stored or used again stays in its micro-batch.
// RUN: fcdp-opt %s --fcdp-shard="nodes=2 ranks-per-node=2 micro-batches=3" --fcdp-bucket --fcdp-two-level -o %t.two-level.mlir
// RUN: %edit %t.two-level.mlir --replace "trainable members" "trainable residency host carry drop members" | fcdp-opt --fcdp-cache --fcdp-prefetch --fcdp-prefetch-across | FileCheck %s --check-prefix=NONE
// RUN: %edit %t.two-level.mlir --replace "trainable members" "trainable residency node carry drop members" | fcdp-opt --fcdp-cache --fcdp-prefetch --fcdp-prefetch-across | FileCheck %s --check-prefix=NONE

// Broken by hand.
// RUN: %edit %t.mlir --replace "@bucket.a over @world[local] range 0 into @bucket.a.prefetched" "@bucket.a over @world[local] range 0" | not fcdp-opt --fcdp-verify-planned 2>&1 | FileCheck %s --check-prefix=MISSING
// MISSING: error: expected one gather or load into @bucket.a.prefetched, got 0
// MISSING: note: the state is here
// RUN: %edit %t.mlir --in first_microbatch --insert-after "fcdp.loss" "%%early = fcdp.read_state @bucket.a.prefetched : tensor<64xf32>" | not fcdp-opt --fcdp-verify-planned 2>&1 | FileCheck %s --check-prefix=STALE
// STALE: error: 'fcdp.read_state' op reads a copy that was prefetched, which only @next_microbatch and @last_microbatch may
// RUN: %edit %t.mlir --in next_microbatch --insert-after "{{.*}}= fcdp.read_state @bucket.a.prefetched" "%%again = fcdp.read_state @bucket.a.prefetched : tensor<64xf32>" --insert-after "fcdp.loss" "%%use = fcdp.view_member %%again @a of @bucket.a : tensor<64xf32> to tensor<64xf32>" | not fcdp-opt --fcdp-verify-planned 2>&1 | FileCheck %s --check-prefix=OVERTAKEN
// OVERTAKEN: error: 'fcdp.view_member' op uses the copy in @bucket.a.prefetched after the next one is in flight
// OVERTAKEN: note: by this operation
// RUN: %edit %t.mlir --in last_microbatch --replace "@last_microbatch({{[^)]*}})" "@last_microbatch()" --delete "fcdp.wait %%arg" | not fcdp-opt --fcdp-verify-planned 2>&1 | FileCheck %s --check-prefix=SIGNATURE
// SIGNATURE: error: expected 3 tokens as arguments, got 0
// SIGNATURE: note: this function may come before it
// RUN: %edit %t.mlir --line "func @init" --replace "()" "(%%early: !fcdp.token)" | not fcdp-opt --fcdp-verify-planned 2>&1 | FileCheck %s --check-prefix=INIT
// INIT: error: expected no arguments: nothing comes before it
// RUN: %edit %t.mlir --line "func @init" --replace "()" "(%%early: tensor<4xf32>)" | not fcdp-opt --fcdp-verify-planned 2>&1 | FileCheck %s --check-prefix=TENSOR
// TENSOR: error: expected tokens only as arguments and results
// RUN: %edit %t.two-level.mlir --line "func @init" --replace "()" "(%%early: !fcdp.token)" | not fcdp-opt --fcdp-verify-sharded 2>&1 | FileCheck %s --check-prefix=EARLY
// EARLY: error: expected no arguments and results
// RUN: %edit %t.mlir --in next_microbatch --replace "return %%{{.*}}" "return %%arg0, %%arg1, %%arg2 : !fcdp.token, !fcdp.token, !fcdp.token" | not fcdp-opt --fcdp-verify-planned 2>&1 | FileCheck %s --check-prefix=PASSED
// PASSED: error: 'func.return' op expected tokens that the function has recorded, each once
// RUN: %edit %t.mlir --in next_microbatch --line fcdp.release --replace " on intra" " on inter" | not fcdp-opt --fcdp-verify-planned 2>&1 | FileCheck %s --check-prefix=LATE
// LATE: error: 'fcdp.release' op expected the function to return a token that is recorded on 'inter' after it
// RUN: %edit %t.mlir --line "func @last" --replace "(%%arg0: !fcdp.token {fcdp.event = {{[0-9]*}}" "(%%arg0: !fcdp.token {fcdp.event = 0" | not fcdp-opt --fcdp-verify-planned 2>&1 | FileCheck %s --check-prefix=NUMBER
// NUMBER: error: expected 'fcdp.event' on argument 0 to be {{[0-9]+}}, as it was recorded
// RUN: %edit %t.mlir --in next_microbatch --replace "fcdp.record on intra event {{.*}}" "fcdp.record on intra event 999" | not fcdp-opt --fcdp-verify-planned 2>&1 | FileCheck %s --check-prefix=APART
// APART: error: 'fcdp.record' op expected an event of its own, got 999
// RUN: %edit %t.mlir --in next_microbatch --delete "fcdp.wait %%arg0" --insert-after "fcdp.loss" "fcdp.wait %%arg0 on compute" | not fcdp-opt --fcdp-verify-planned 2>&1 | FileCheck %s --check-prefix=AGAIN
// AGAIN: error: 'fcdp.wait' op waits for event {{[0-9]+}} of the function before, which was recorded again
// Without the wait, or in memory that another value uses meanwhile.
// RUN: %edit %t.mlir --in last_microbatch --delete "fcdp.wait %%arg0" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=RACE
// RACE: error: 'aten.call' op for 'a' of @bucket.a in @last_microbatch: reads bytes [2048, 2304) of the device arena on compute, not ordered with another access to them; expected 'compute' to wait for 'intra'
// RACE: note: the other access, on intra in @first_microbatch for 'a' of @bucket.a
// RUN: %edit %t.mlir --in first_microbatch --line "fcdp.pack @bucket.a" --replace "offset = {{[0-9]*}}" "offset = 2048" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=INUSE
// INUSE: error: 'fcdp.pack' op for 'a' of @bucket.a in @first_microbatch: writes bytes [2048, 2304) of the device arena on compute, not ordered with another access to them
// INUSE: note: the other access, on intra in @first_microbatch for 'a' of @bucket.a
// RUN: %edit %t.mlir --in next_microbatch --replace "add late on inter_reduce" "add" | not fcdp-opt --fcdp-verify-planned 2>&1 | FileCheck %s --check-prefix=UNEQUAL
// UNEQUAL: error: expected the same states to be in flight at its end as at that of @first_microbatch
// UNEQUAL: note: the same functions come after it
// RUN: %edit %t.mlir --replace "add late on inter_reduce" "add late" | not fcdp-opt --fcdp-verify-planned 2>&1 | FileCheck %s --check-prefix=NOSTREAM
// NOSTREAM: error: 'fcdp.accumulate' op expected a stream
// RUN: %edit %t.mlir --in next_microbatch --delete "fcdp.wait %%arg{{[12]}}" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=MEMORY
// MEMORY: error: 'fcdp.pack' op for 'b' of @bucket.b in @next_microbatch: writes bytes {{.*}} of the device arena on compute, not ordered with another access to them; expected 'compute' to wait for 'intra_reduce'
// MEMORY: note: the other access, on intra_reduce in @first_microbatch for 'b' of @bucket.b
// RUN: %edit %t.mlir --in update --delete "fcdp.wait %%arg0" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=UPDATE
// UPDATE: error: 'fcdp.shard_update' op for 'a' of @bucket.a in @update: reads bytes [256, 320) of the device arena on compute, not ordered with another access to them; expected 'compute' to wait for 'inter_reduce'
// UPDATE: note: the other access, on inter_reduce in @last_microbatch for 'a' of @bucket.a

module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @a : tensor<64xf32> unit "a" trainable names ["a"]
  fcdp.parameter @b : tensor<64xf32> unit "b" trainable names ["b"]
  fcdp.input @x : tensor<64xf32> name "x"
  func.func @step() {
    %a = fcdp.read_parameter @a : tensor<64xf32>
    %b = fcdp.read_parameter @b : tensor<64xf32>
    %x = fcdp.read_input @x : tensor<64xf32>
    %0 = aten.call "aten.mul.Tensor"(self = %x, other = %a) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    %1 = aten.call "aten.mul.Tensor"(self = %0, other = %b) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    %l = aten.call "aten.sum.default"(self = %1) : (tensor<64xf32>) -> tensor<f32>
    %2 = aten.call "aten.mul.Tensor"(self = %1, other = %a) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    fcdp.loss %l : tensor<f32>
    fcdp.gradient %1 of @b : tensor<64xf32>
    fcdp.gradient %2 of @a : tensor<64xf32>
    return
  }
}
