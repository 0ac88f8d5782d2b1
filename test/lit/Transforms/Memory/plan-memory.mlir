// RUN: split-file %s %t
// RUN: fcdp-opt %t/chain.mlir --fcdp-pipeline="nodes=2 ranks-per-node=4 strategy=fcdp" | FileCheck %s --check-prefix=CHAIN
// RUN: fcdp-opt %t/chain.mlir --fcdp-pipeline="nodes=2 ranks-per-node=1 strategy=zero3" | FileCheck %s --check-prefix=NODES
// RUN: fcdp-opt %t/chain.mlir --fcdp-pipeline="nodes=2 ranks-per-node=4 micro-batches=2" | FileCheck %s --check-prefix=SUM
// RUN: fcdp-opt %t/kept.mlir --fcdp-plan-memory --fcdp-verify-planned | FileCheck %s --check-prefix=KEPT

// The cast shard is inside the slice, the slice inside the whole: each rank puts
// its own where the gather would copy it. Storing the slice does not matter.
// Buffers start at multiples of 256 bytes.
// CHAIN-LABEL: func.func @only_microbatch
// CHAIN: fcdp.cast_shard %{{.*}} {buffer = #fcdp.buffer<arena = device, offset = [[WHOLE:[0-9]+]], bytes = 64, node_stride = 64, local_stride = 128>}
// CHAIN: fcdp.all_gather {{.*}}over @world[node]{{.*}} {buffer = #fcdp.buffer<arena = device, offset = [[WHOLE]], bytes = 128, local_stride = 128>}
// CHAIN: fcdp.cache_store
// CHAIN: fcdp.all_gather {{.*}}over @world[local]{{.*}} {buffer = #fcdp.buffer<arena = device, offset = [[WHOLE]], bytes = 512>}
// CHAIN: fcdp.cache_load {{.*}} {buffer = #fcdp.buffer<arena = device, offset = [[AGAIN:[0-9]+]], bytes = 128, local_stride = 128>}
// CHAIN: fcdp.all_gather {{.*}}over @world[local]{{.*}} {buffer = #fcdp.buffer<arena = device, offset = [[AGAIN]], bytes = 512>}

// A reduction that starts the sum writes into the accumulator.
// CHAIN: fcdp.reduce_scatter {{.*}}over @world[local]
// CHAIN: fcdp.reduce_scatter {{.*}}over @world[node]{{.*}} {buffer = #fcdp.buffer<arena = device, offset = 256, bytes = 128>, scratch = #fcdp.buffer<arena = device, offset = {{[0-9]+}}, bytes = 128>}

// NODES-LABEL: func.func @only_microbatch
// NODES: fcdp.cast_shard %{{.*}} {buffer = #fcdp.buffer<arena = device, offset = [[WHOLE:[0-9]+]], bytes = 256, node_stride = 256>}
// NODES: fcdp.all_gather {{.*}} {buffer = #fcdp.buffer<arena = device, offset = [[WHOLE]], bytes = 512>}

// In one step over all ranks the cast shard is at its place in the whole.
// RUN: fcdp-opt %t/chain.mlir --fcdp-pipeline="nodes=2 ranks-per-node=4 strategy=zero3 collectives=flat" | FileCheck %s --check-prefix=FLAT
// FLAT-LABEL: func.func @only_microbatch
// FLAT: fcdp.cast_shard %{{.*}} {buffer = #fcdp.buffer<arena = device, offset = [[WHOLE:[0-9]+]], bytes = 64, node_stride = 64, local_stride = 128>}
// FLAT: fcdp.all_gather {{.*}}over @world[node, local]{{.*}} {buffer = #fcdp.buffer<arena = device, offset = [[WHOLE]], bytes = 512>}
// FLAT: fcdp.reduce_scatter {{.*}}over @world[node, local]{{.*}} {buffer = #fcdp.buffer<arena = device, offset = 256, bytes = 128>, scratch = #fcdp.buffer<arena = device, offset = {{[0-9]+}}, bytes = 512>}

// One that is added has memory of its own.
// SUM-LABEL: func.func @first_microbatch
// SUM: fcdp.reduce_scatter {{.*}}over @world[node]{{.*}} {buffer = #fcdp.buffer<arena = device, offset = 256, bytes = 128>
// SUM-LABEL: func.func @last_microbatch
// SUM-NOT: fcdp.reduce_scatter {{.*}}over @world[node]{{.*}} {buffer = #fcdp.buffer<arena = device, offset = 256,
// SUM: fcdp.reduce_scatter {{.*}}over @world[node]{{.*}} {buffer
// SUM-LABEL: func.func @update

// States hold for the whole job: first in the device arena; in the host arena
// each rank of a node has a part.
// CHAIN-LABEL: func.func @update

// A slice that two gathers read needs a place of its own.
// KEPT-LABEL: func.func @only_microbatch
// KEPT: fcdp.all_gather {{.*}}over @world[node]{{.*}} {buffer = #fcdp.buffer<arena = device, offset = [[SLICE:[0-9]+]], bytes = 128>}
// KEPT-NOT: offset = [[SLICE]],
// KEPT: return

//--- chain.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @w : tensor<256xf32> unit "a" trainable names ["w"]
  fcdp.parameter @v : tensor<4xf32> unit "b" names ["v"]
  func.func @step() {
    %w = fcdp.read_parameter @w : tensor<256xf32>
    %v = fcdp.read_parameter @v : tensor<4xf32>
    %c = aten.call "aten._to_copy.default"(self = %w, dtype = bf16) : (tensor<256xf32>) -> tensor<256xbf16>
    %0 = aten.call "aten.neg.default"(self = %c) : (tensor<256xbf16>) -> tensor<256xbf16>
    %l = aten.call "aten.sum.default"(self = %v) : (tensor<4xf32>) -> tensor<f32>
    %d = aten.call "aten._to_copy.default"(self = %w, dtype = bf16) : (tensor<256xf32>) -> tensor<256xbf16>
    %1 = aten.call "aten.mul.Tensor"(self = %0, other = %d) : (tensor<256xbf16>, tensor<256xbf16>) -> tensor<256xbf16>
    fcdp.loss %l : tensor<f32>
    fcdp.gradient %1 of @w : tensor<256xbf16>
    return
  }
}

//--- kept.mlir
module attributes {fcdp.phase = #fcdp.phase<scheduled>} {
  fcdp.mesh @world(node = 2, local = 2)
  fcdp.parameter @w : tensor<64xf32> unit "" names ["w"]
  fcdp.bucket @b unit "" elements 64 storage f32 wire f32 residency node members [@w at 0]
  fcdp.state @b.shard shard of @b in device : tensor<16xf32>
  func.func @init() attributes {fcdp.role = #fcdp.role<init>} { return }
  func.func @only_microbatch() attributes {fcdp.role = #fcdp.role<only_microbatch>} {
    %s = fcdp.read_shard @b : tensor<16xf32>
    %slice = fcdp.all_gather %s of @b over @world[node] range 0 on inter : tensor<16xf32> to tensor<32xf32>
    %t0 = fcdp.record on inter
    fcdp.wait %t0 on intra
    %w0 = fcdp.all_gather %slice of @b over @world[local] range 0 on intra : tensor<32xf32> to tensor<64xf32>
    %t1 = fcdp.record on intra
    fcdp.wait %t1 on compute
    fcdp.release %w0 : tensor<64xf32>
    %w1 = fcdp.all_gather %slice of @b over @world[local] range 1 on intra : tensor<32xf32> to tensor<64xf32>
    %t2 = fcdp.record on intra
    fcdp.wait %t2 on compute
    fcdp.release %slice : tensor<32xf32>
    fcdp.release %w1 : tensor<64xf32>
    return
  }
  func.func @update() attributes {fcdp.role = #fcdp.role<update>} { return }
}
