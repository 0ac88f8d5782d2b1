// Buckets whose states are sharded by the ranks of a node, or not at all, on two
// nodes of two ranks.
// RUN: split-file %s %t
// RUN: fcdp-opt %t/step.mlir --fcdp-shard="nodes=2 ranks-per-node=2" --fcdp-narrow-gathers --fcdp-bucket="sharding=node" -o %t/node.mlir
// RUN: FileCheck %s --check-prefix=NODE --input-file=%t/node.mlir
// RUN: fcdp-opt %t/step.mlir --fcdp-shard="nodes=2 ranks-per-node=2" --fcdp-narrow-gathers --fcdp-bucket="sharding=none" -o %t/none.mlir
// RUN: FileCheck %s --check-prefix=NONE --input-file=%t/none.mlir
// RUN: fcdp-opt %t/none.mlir --fcdp-two-level | FileCheck %s --check-prefix=SPLIT

// A copy is gathered within the node; the reduced shard, in f32, between nodes.
// NODE: fcdp.bucket @bucket.root.bf16 unit "" elements 128 storage f32 wire bf16 trainable sharding node members [@w at 0]
// NODE: fcdp.state @bucket.root.bf16.shard {{.*}} : tensor<64xf32>
// NODE: fcdp.state @bucket.root.bf16.grad {{.*}} : tensor<64xf32>
// NODE: fcdp.state @bucket.root.bf16.exp_avg {{.*}} : tensor<64xf32>
// NODE-LABEL: func.func @only_microbatch
// NODE: %[[S:.*]] = fcdp.read_shard @bucket.root.bf16 : tensor<64xf32>
// NODE-NEXT: %[[C:.*]] = fcdp.cast_shard %[[S]] : tensor<64xf32> to tensor<64xbf16>
// NODE-NEXT: fcdp.all_gather %[[C]] of @bucket.root.bf16 over @world[local] range 0 : tensor<64xbf16> to tensor<128xbf16>
// NODE: %[[R:.*]] = fcdp.reduce_scatter %{{.*}} over @world[node, local] : tensor<128xf32> to tensor<32xf32>
// NODE-NEXT: %[[G:.*]] = fcdp.all_gather %[[R]] of @bucket.root.bf16 over @world[node] : tensor<32xf32> to tensor<64xf32>
// NODE: fcdp.accumulate %[[G]] into @bucket.root.bf16

// Nothing but the cast makes a copy of what each rank owns.
// NONE: fcdp.bucket @bucket.root.bf16 {{.*}} trainable sharding none members
// NONE: fcdp.state @bucket.root.bf16.shard {{.*}} : tensor<128xf32>
// NONE-LABEL: func.func @only_microbatch
// NONE-NOT: fcdp.all_gather
// NONE: %[[S:.*]] = fcdp.read_shard @bucket.root.bf16 : tensor<128xf32>
// NONE-NEXT: %[[C:.*]] = fcdp.cast_shard %[[S]] : tensor<128xf32> to tensor<128xbf16>
// NONE-NEXT: fcdp.view_member %[[C]] @w
// NONE-NOT: fcdp.all_gather
// NONE: %[[R:.*]] = fcdp.reduce_scatter
// NONE-NEXT: %[[G:.*]] = fcdp.all_gather %[[R]] of @bucket.root.bf16 over @world[node, local] : tensor<32xf32> to tensor<128xf32>
// SPLIT: %[[R:.*]] = fcdp.reduce_scatter %{{.*}} over @world[node] {{.*}} to tensor<32xf32>
// SPLIT-NEXT: %[[N:.*]] = fcdp.all_gather %[[R]] of @bucket.root.bf16 over @world[node] : tensor<32xf32> to tensor<64xf32>
// SPLIT-NEXT: fcdp.all_gather %[[N]] of @bucket.root.bf16 over @world[local] : tensor<64xf32> to tensor<128xf32>

// Dont: where a rank owns a shard anyway, there is nothing to gather.
// RUN: fcdp-opt %t/step.mlir --fcdp-shard="ranks-per-node=4" --fcdp-bucket="sharding=node" | FileCheck %s --check-prefix=DONT
// RUN: fcdp-opt %t/step.mlir --fcdp-shard --fcdp-bucket="sharding=none" | FileCheck %s --check-prefix=DONT

// Dont: what has no elements is gathered as what has, so that it can be proved.
// RUN: split-file %S/../Inputs/steps.mlir %t.steps
// RUN: fcdp-opt %t.steps/corners.mlir --fcdp-pipeline="strategy=ddp nodes=2 ranks-per-node=2" | FileCheck %s --check-prefix=EMPTY
// RUN: fcdp-opt %t.steps/corners.mlir --fcdp-pipeline="strategy=mics nodes=2 ranks-per-node=2 micro-batches=2" | FileCheck %s --check-prefix=EMPTY
// EMPTY: fcdp.all_gather %{{.*}} of @bucket.empty over @world[node]
// DONT: %[[R:.*]] = fcdp.reduce_scatter
// DONT-NOT: fcdp.all_gather
// DONT: fcdp.accumulate %[[R]] into

// Summed within nodes, gradients are reduced and gathered in the last only.
// RUN: fcdp-opt %t/step.mlir --fcdp-shard="nodes=2 ranks-per-node=2 micro-batches=2" --fcdp-bucket="sharding=none" --fcdp-decide="strategy=ddp accumulate=node" --fcdp-two-level --fcdp-accumulate | FileCheck %s --check-prefix=LAST
// LAST-LABEL: func.func @first_microbatch
// LAST-NOT: fcdp.all_gather
// LAST-LABEL: func.func @last_microbatch
// LAST: fcdp.read_state @bucket.root.node_grad
// LAST: %[[R:.*]] = fcdp.reduce_scatter %{{.*}} over @world[node] {{.*}} to tensor<16xf32>
// LAST-NEXT: %[[N:.*]] = fcdp.all_gather %[[R]] of @bucket.root over @world[node] : tensor<16xf32> to tensor<32xf32>
// LAST-NEXT: %[[G:.*]] = fcdp.all_gather %[[N]] of @bucket.root over @world[local] : tensor<32xf32> to tensor<64xf32>
// LAST: fcdp.accumulate %[[G]] into @bucket.root overwrite

// The pipeline takes the layout from the strategy. The gathers that start a sum
// write into it, each input at its own place.
// RUN: fcdp-opt %t/step.mlir --fcdp-pipeline="nodes=2 ranks-per-node=2 strategy=ddp" -o %t/planned.mlir
// RUN: FileCheck %s --check-prefix=PLANNED --input-file=%t/planned.mlir
// PLANNED: fcdp.state @bucket.root.bf16.grad {{.*}} at <arena = device, offset = [[$GRAD:[0-9]+]], bytes = 512>
// PLANNED: fcdp.all_gather {{.*}} over @world[node] {{.*}} {buffer = #fcdp.buffer<arena = device, offset = [[$GRAD]], bytes = 256, local_stride = 256>}
// PLANNED: fcdp.all_gather {{.*}} over @world[local] {{.*}} {buffer = #fcdp.buffer<arena = device, offset = [[$GRAD]], bytes = 512>}
// RUN: fcdp-opt %t/planned.mlir --fcdp-verify-planned -o /dev/null
// RUN: %edit %t/planned.mlir --replace "local_stride = 256" "local_stride = 0" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=INSIDE
// INSIDE: error: 'fcdp.all_gather' op {{.*}}its input overlaps its result, but is not at its own place inside it

// With `sharding node`, a copy is kept whole or not at all.
// RUN: fcdp-opt %t/step.mlir --fcdp-pipeline="nodes=2 ranks-per-node=2 strategy=hsdp" | FileCheck %s --check-prefix=HSDP
// HSDP: fcdp.bucket @bucket.root.bf16 {{.*}} sharding node residency drop members
// RUN: fcdp-opt %t/step.mlir --fcdp-pipeline="nodes=2 ranks-per-node=2 micro-batches=2 strategy=mics" | FileCheck %s --check-prefix=MICS
// MICS: fcdp.bucket @bucket.root.bf16 {{.*}} sharding node residency drop accumulation node members
// RUN: %edit %t/node.mlir --replace "sharding node" "sharding node residency full" | fcdp-opt --fcdp-decide="strategy=hsdp" --fcdp-two-level --fcdp-cache | FileCheck %s --check-prefix=FULL
// FULL-LABEL: func.func @only_microbatch
// FULL: fcdp.all_gather {{.*}} over @world[local] range 0
// FULL-NOT: over @world[local] range
// FULL: fcdp.accumulate

// A module of several shardings; each bucket gets what it can have.
// RUN: fcdp-opt %t/mixed.mlir --fcdp-bucket --fcdp-decide="strategy=fcdp" --fcdp-two-level --fcdp-cache --fcdp-prefetch --fcdp-schedule --fcdp-plan-memory --fcdp-verify-planned | FileCheck %s --check-prefix=MIXED
// MIXED: fcdp.bucket @world {{.*}} residency host members
// MIXED: fcdp.bucket @slice {{.*}} sharding node residency drop members
// MIXED: fcdp.bucket @whole {{.*}} sharding none residency full members

// RUN: not fcdp-opt %t/node.mlir --fcdp-decide="strategy=zero3" 2>&1 | FileCheck %s --check-prefix=OTHER
// OTHER: error: 'fcdp.bucket' op strategy 'zero3' needs buckets of sharding 'world', got 'node'; run --fcdp-bucket=sharding=world
// RUN: not fcdp-opt %t/step.mlir --fcdp-shard --fcdp-bucket="sharding=rank" 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// UNKNOWN: error: sharding: expected 'world', 'node', 'none' or 'auto', got 'rank'
// RUN: not fcdp-opt %t/step.mlir --fcdp-pipeline="strategy=best" 2>&1 | FileCheck %s --check-prefix=STRATEGY
// STRATEGY: error: strategy: expected one of

//--- step.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @w : tensor<4xf32> unit "" trainable names ["w"]
  fcdp.parameter @v : tensor<4xf32> unit "other" names ["v"]
  func.func @step() {
    %w = fcdp.read_parameter @w : tensor<4xf32>
    %c = aten.call "aten._to_copy.default"(self = %w, dtype = bf16) : (tensor<4xf32>) -> tensor<4xbf16>
    %0 = aten.call "aten.neg.default"(self = %c) : (tensor<4xbf16>) -> tensor<4xbf16>
    %v = fcdp.read_parameter @v : tensor<4xf32>
    %1 = aten.call "aten.mul.Tensor"(self = %v, other = %0) : (tensor<4xf32>, tensor<4xbf16>) -> tensor<4xf32>
    %l = aten.call "aten.sum.default"(self = %1) : (tensor<4xf32>) -> tensor<f32>
    %c2 = aten.call "aten._to_copy.default"(self = %w, dtype = bf16) : (tensor<4xf32>) -> tensor<4xbf16>
    %2 = aten.call "aten.mul.Tensor"(self = %1, other = %c2) : (tensor<4xf32>, tensor<4xbf16>) -> tensor<4xf32>
    fcdp.loss %l : tensor<f32>
    fcdp.gradient %2 of @w : tensor<4xf32>
    return
  }
}

//--- mixed.mlir
module attributes {fcdp.phase = #fcdp.phase<sharded>, fcdp.micro_batches = 1 : i64} {
  fcdp.mesh @mesh(node = 2, local = 2)
  fcdp.parameter @a : tensor<64xf32> unit "a" names ["a"]
  fcdp.parameter @b : tensor<64xf32> unit "b" names ["b"]
  fcdp.parameter @c : tensor<64xf32> unit "c" names ["c"]
  fcdp.bucket @world unit "a" elements 64 storage f32 wire f32 members [@a at 0]
  fcdp.state @world.shard shard of @world in device : tensor<16xf32>
  fcdp.bucket @slice unit "b" elements 64 storage f32 wire f32 sharding node members [@b at 0]
  fcdp.state @slice.shard shard of @slice in device : tensor<32xf32>
  fcdp.bucket @whole unit "c" elements 64 storage f32 wire f32 sharding none members [@c at 0]
  fcdp.state @whole.shard shard of @whole in device : tensor<64xf32>
  func.func @init() attributes {fcdp.role = #fcdp.role<init>} { return }
  func.func @only_microbatch() attributes {fcdp.role = #fcdp.role<only_microbatch>} {
    %0 = fcdp.read_shard @world : tensor<16xf32>
    %1 = fcdp.all_gather %0 of @world over @mesh[node, local] range 0 : tensor<16xf32> to tensor<64xf32>
    %2 = fcdp.view_member %1 @a of @world : tensor<64xf32> to tensor<64xf32>
    %3 = fcdp.read_shard @slice : tensor<32xf32>
    %4 = fcdp.all_gather %3 of @slice over @mesh[local] range 0 : tensor<32xf32> to tensor<64xf32>
    %5 = fcdp.view_member %4 @b of @slice : tensor<64xf32> to tensor<64xf32>
    %6 = fcdp.read_shard @whole : tensor<64xf32>
    %7 = fcdp.view_member %6 @c of @whole : tensor<64xf32> to tensor<64xf32>
    %8 = aten.call "aten.mul.Tensor"(self = %2, other = %5) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    %9 = aten.call "aten.mul.Tensor"(self = %8, other = %7) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    %l = aten.call "aten.sum.default"(self = %9) : (tensor<64xf32>) -> tensor<f32>
    fcdp.loss %l : tensor<f32>
    return
  }
  func.func @update() attributes {fcdp.role = #fcdp.role<update>} { return }
}
