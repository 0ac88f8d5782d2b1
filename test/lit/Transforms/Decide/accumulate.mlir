// The modes of accumulating gradients over micro-batches, on two nodes of two ranks.
// RUN: fcdp-opt %s --fcdp-shard="nodes=2 ranks-per-node=2 micro-batches=3" --fcdp-bucket --fcdp-two-level -o %t.mlir
// RUN: fcdp-opt %t.mlir --fcdp-decide="accumulate=node" --fcdp-accumulate -o %t.node.mlir --fcdp-verify-sharded
// RUN: FileCheck %s --check-prefix=NODE --input-file=%t.node.mlir
// RUN: fcdp-opt %t.mlir --fcdp-decide="accumulate=full" --fcdp-accumulate --fcdp-verify-sharded | FileCheck %s --check-prefix=FULL

// Twice is once.
// RUN: fcdp-opt %t.node.mlir --fcdp-accumulate -o %t.twice
// RUN: diff %t.node.mlir %t.twice

// A micro-batch reduces within the node; the last one reduces the sum, in the
// gradients' own type, between nodes.
// NODE: fcdp.state @bucket.root.node_grad node_grad of @bucket.root in device : tensor<64xf32>
// NODE-LABEL: func.func @first_microbatch
// NODE: %[[P:.*]] = fcdp.reduce_scatter %{{.*}} over @world[local] : tensor<128xbf16> to tensor<64xf32>
// NODE: fcdp.accumulate %[[P]] into @bucket.root.node_grad overwrite
// NODE-NOT: over @world[node] : tensor
// NODE-LABEL: func.func @next_microbatch
// NODE: fcdp.accumulate %{{.*}} into @bucket.root.node_grad add
// NODE-NOT: over @world[node] : tensor
// NODE-LABEL: func.func @last_microbatch
// NODE: fcdp.accumulate %{{.*}} into @bucket.root.node_grad add
// NODE-NEXT: %[[S:.*]] = fcdp.read_state @bucket.root.node_grad : tensor<64xf32>
// NODE-NEXT: %[[B:.*]] = fcdp.cast_shard %[[S]] : tensor<64xf32> to tensor<64xbf16>
// NODE-NEXT: %[[R:.*]] = fcdp.reduce_scatter %[[B]] of @bucket.root over @world[node] : tensor<64xbf16> to tensor<32xf32>
// NODE-NEXT: fcdp.accumulate %[[R]] into @bucket.root overwrite

// RUN: fcdp-opt %t.mlir --fcdp-decide="accumulate=node_host" --fcdp-accumulate -o %t.host.mlir --fcdp-verify-sharded
// RUN: FileCheck %s --check-prefix=HOST --input-file=%t.host.mlir
// RUN: fcdp-opt %t.host.mlir --fcdp-accumulate | diff %t.host.mlir -

// The same with the sum in host memory: it is loaded while gradients are
// reduced, and stored but in the last.
// HOST: fcdp.state @bucket.root.host_grad host_grad of @bucket.root in host : tensor<64xf32>
// HOST-LABEL: func.func @first_microbatch
// HOST-NOT: fcdp.cache_load
// HOST: %[[P:.*]] = fcdp.reduce_scatter %{{.*}} over @world[local] : tensor<128xbf16> to tensor<64xf32>
// HOST: fcdp.cache_store %[[P]] to @bucket.root.host_grad
// HOST-NOT: fcdp.accumulate
// HOST-LABEL: func.func @next_microbatch
// HOST: %[[L:.*]] = fcdp.cache_load @bucket.root.host_grad : tensor<64xf32>
// HOST-NEXT: %[[B:.*]] = fcdp.pack
// HOST-NEXT: %[[P:.*]] = fcdp.reduce_scatter %[[B]] of @bucket.root over @world[local]
// HOST: %[[S:.*]] = fcdp.add %[[L]], %[[P]] : tensor<64xf32>
// HOST-NEXT: fcdp.cache_store %[[S]] to @bucket.root.host_grad
// HOST-NOT: over @world[node] : tensor
// HOST-LABEL: func.func @last_microbatch
// HOST: %[[L:.*]] = fcdp.cache_load @bucket.root.host_grad : tensor<64xf32>
// HOST: %[[S:.*]] = fcdp.add %[[L]], %{{.*}} : tensor<64xf32>
// HOST-NEXT: %[[B:.*]] = fcdp.cast_shard %[[S]] : tensor<64xf32> to tensor<64xbf16>
// HOST-NEXT: %[[R:.*]] = fcdp.reduce_scatter %[[B]] of @bucket.root over @world[node] : tensor<64xbf16> to tensor<32xf32>
// HOST-NOT: fcdp.cache_store
// HOST: fcdp.accumulate %[[R]] into @bucket.root overwrite

// A micro-batch reduces nothing.
// FULL: fcdp.state @bucket.root.full_grad full_grad of @bucket.root in device : tensor<128xf32>
// FULL-LABEL: func.func @first_microbatch
// FULL-NOT: fcdp.reduce_scatter
// FULL: %[[P:.*]] = fcdp.pack
// FULL-NEXT: %[[C:.*]] = fcdp.cast_shard %[[P]] : tensor<128xbf16> to tensor<128xf32>
// FULL-NEXT: fcdp.accumulate %[[C]] into @bucket.root.full_grad overwrite
// FULL-NOT: fcdp.reduce_scatter
// FULL-LABEL: func.func @next_microbatch
// FULL-NOT: fcdp.reduce_scatter
// FULL-LABEL: func.func @last_microbatch
// FULL: fcdp.accumulate %{{.*}} into @bucket.root.full_grad add
// FULL-NEXT: %[[S:.*]] = fcdp.read_state @bucket.root.full_grad
// FULL-NEXT: %[[B:.*]] = fcdp.cast_shard %[[S]] : tensor<128xf32> to tensor<128xbf16>
// FULL-NEXT: %[[N:.*]] = fcdp.reduce_scatter %[[B]] of @bucket.root over @world[local] : tensor<128xbf16> to tensor<64xbf16>
// FULL-NEXT: %[[R:.*]] = fcdp.reduce_scatter %[[N]] of @bucket.root over @world[node] : tensor<64xbf16> to tensor<32xf32>
// FULL: fcdp.accumulate %[[R]] into @bucket.root overwrite

// Dont: `sharded`, one micro-batch, and `node` or `node_host` within one node.
// RUN: fcdp-opt %t.mlir --fcdp-decide -o %t.sharded.mlir
// RUN: fcdp-opt %t.sharded.mlir --fcdp-accumulate -o %t.same.mlir
// RUN: diff %t.sharded.mlir %t.same.mlir
// RUN: fcdp-opt %s --fcdp-shard="nodes=2 ranks-per-node=2" --fcdp-bucket --fcdp-two-level --fcdp-decide="accumulate=full" --fcdp-accumulate | FileCheck %s --check-prefix=DONT
// RUN: fcdp-opt %s --fcdp-shard="ranks-per-node=4 micro-batches=2" --fcdp-bucket --fcdp-two-level --fcdp-decide="accumulate=node" --fcdp-accumulate | FileCheck %s --check-prefix=DONT
// RUN: fcdp-opt %s --fcdp-shard="ranks-per-node=4 micro-batches=2" --fcdp-bucket --fcdp-two-level --fcdp-decide="accumulate=node_host" --fcdp-accumulate | FileCheck %s --check-prefix=DONT
// DONT-NOT: fcdp.state {{.*}}_grad of
// DONT: func.func @update
// DONT-NOT: fcdp.state {{.*}}_grad of

// RUN: not fcdp-opt %s --fcdp-shard="nodes=2 ranks-per-node=2 micro-batches=2" --fcdp-accumulate 2>&1 | FileCheck %s --check-prefix=EARLY
// EARLY: error: {{.*}}expected one axis and flat tensors; run --fcdp-bucket and --fcdp-two-level first

// Phase sharded requires that each partial sum is made once, and reduced once, in
// the last micro-batch.
// RUN: %edit %t.node.mlir --in first_microbatch --delete "accumulate" | not fcdp-opt --fcdp-verify-sharded 2>&1 | FileCheck %s --check-prefix=MISSING
// MISSING: error: expected one gradient of @bucket.root.node_grad, got 0
// RUN: %edit %t.node.mlir --in last_microbatch --delete "into @bucket.root overwrite" | not fcdp-opt --fcdp-verify-sharded 2>&1 | FileCheck %s --check-prefix=UNREDUCED
// UNREDUCED: error: expected one gradient of @bucket.root, got 0
// RUN: %edit %t.node.mlir --replace "into @bucket.root.node_grad add" "into @bucket.root.node_grad overwrite" | not fcdp-opt --fcdp-verify-sharded 2>&1 | FileCheck %s --check-prefix=ADD
// ADD: error: {{.*}}expected 'add' in @next_microbatch
// RUN: %edit %t.host.mlir --in first_microbatch --delete "cache_store" | not fcdp-opt --fcdp-verify-sharded 2>&1 | FileCheck %s --check-prefix=STORE
// STORE: error: expected one store of @bucket.root.host_grad, got 0
// RUN: %edit %t.host.mlir --in first_microbatch --insert-before fcdp.pack "%%u = fcdp.cache_load @bucket.root.host_grad : tensor<64xf32>" | not fcdp-opt --fcdp-verify-sharded 2>&1 | FileCheck %s --check-prefix=LOAD
// LOAD: error: expected no load of @bucket.root.host_grad, got 1
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @w : tensor<4xbf16> unit "" trainable names ["w"]
  func.func @step() {
    %w = fcdp.read_parameter @w : tensor<4xbf16>
    %l = aten.call "aten.sum.default"(self = %w) : (tensor<4xbf16>) -> tensor<bf16>
    %g = aten.call "aten.ones_like.default"(self = %w) : (tensor<4xbf16>) -> tensor<4xbf16>
    fcdp.loss %l : tensor<bf16>
    fcdp.gradient %g of @w : tensor<4xbf16>
    return
  }
}
