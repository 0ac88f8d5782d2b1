// Releases and the host cache, where the shape of the program is unusual.
// RUN: fcdp-opt %s --split-input-file --fcdp-schedule | FileCheck %s

// What nobody reads is released as well, once it is there.
// CHECK-LABEL: func.func @only_microbatch
// CHECK-SAME: only_microbatch
// CHECK: %[[W:.*]] = fcdp.all_gather
// CHECK: %[[DONE:.*]] = fcdp.record on{{ +}}inter
// CHECK: fcdp.loss
// CHECK: fcdp.wait %[[DONE]] on{{ +}}compute
// CHECK-NEXT: fcdp.release %[[W]]
// CHECK-NEXT: return
module attributes {fcdp.phase = #fcdp.phase<sharded>} {
  fcdp.mesh @world(node = 2, local = 1)
  fcdp.parameter @w : tensor<32xf32> unit "" names ["w"]
  fcdp.input @x : tensor<f32> name "x"
  fcdp.bucket @b unit "" elements 32 storage f32 wire f32 members [@w at 0]
  fcdp.state @b.shard shard of @b in device : tensor<16xf32>
  func.func @init() attributes {fcdp.role = #fcdp.role<init>} { return }
  func.func @only_microbatch() attributes {fcdp.role = #fcdp.role<only_microbatch>} {
    %x = fcdp.read_input @x : tensor<f32>
    %s = fcdp.read_shard @b : tensor<16xf32>
    %w = fcdp.all_gather %s of @b over @world[node] range 0 : tensor<16xf32> to tensor<32xf32>
    fcdp.loss %x : tensor<f32>
    return
  }
  func.func @update() attributes {fcdp.role = #fcdp.role<update>} { return }
}

// -----

// A store waits for the load before it from the same cache, and a load for the
// store.
// CHECK-LABEL: func.func @only_microbatch
// CHECK-SAME: only_microbatch
// CHECK: fcdp.cache_load
// CHECK: %[[LOADED:.*]] = fcdp.record on{{ +}}h2d
// CHECK: fcdp.wait %[[LOADED]] on{{ +}}d2h
// CHECK: fcdp.cache_store
// CHECK-NEXT: %[[STORED:.*]] = fcdp.record on{{ +}}d2h
// CHECK: fcdp.wait %[[STORED]] on{{ +}}h2d
// CHECK: fcdp.cache_load
module attributes {fcdp.phase = #fcdp.phase<sharded>} {
  fcdp.mesh @world(node = 2, local = 1)
  fcdp.parameter @w : tensor<32xf32> unit "" names ["w"]
  fcdp.bucket @b unit "" elements 32 storage f32 wire f32 members [@w at 0]
  fcdp.state @b.shard shard of @b in device : tensor<16xf32>
  fcdp.state @b.cache cache of @b in host : tensor<32xf32>
  func.func @init() attributes {fcdp.role = #fcdp.role<init>} { return }
  func.func @only_microbatch() attributes {fcdp.role = #fcdp.role<only_microbatch>} {
    %s = fcdp.read_shard @b : tensor<16xf32>
    %new = fcdp.all_gather %s of @b over @world[node] range 0 : tensor<16xf32> to tensor<32xf32>
    %old = fcdp.cache_load @b.cache : tensor<32xf32>
    fcdp.cache_store %new to @b.cache : tensor<32xf32>
    %w = fcdp.cache_load @b.cache : tensor<32xf32>
    %v = fcdp.view_member %w @w of @b : tensor<32xf32> to tensor<32xf32>
    %u = fcdp.view_member %old @w of @b : tensor<32xf32> to tensor<32xf32>
    %d = aten.call "aten.sub.Tensor"(self = %v, other = %u) : (tensor<32xf32>, tensor<32xf32>) -> tensor<32xf32>
    %l = aten.call "aten.sum.default"(self = %d) : (tensor<32xf32>) -> tensor<f32>
    fcdp.loss %l : tensor<f32>
    return
  }
  func.func @update() attributes {fcdp.role = #fcdp.role<update>} { return }
}

// -----

// What starts a function waits for the functions before it, which were joined
// into the compute stream.
// CHECK-LABEL: func.func @only_microbatch
// CHECK-SAME: only_microbatch
// CHECK-NEXT: %[[BEFORE:.*]] = fcdp.record on{{ +}}compute
// CHECK-NEXT: fcdp.wait %[[BEFORE]] on{{ +}}h2d
// CHECK-NEXT: fcdp.cache_load
module attributes {fcdp.phase = #fcdp.phase<sharded>} {
  fcdp.mesh @world(node = 2, local = 1)
  fcdp.parameter @w : tensor<32xf32> unit "" names ["w"]
  fcdp.bucket @b unit "" elements 32 storage f32 wire f32 members [@w at 0]
  fcdp.state @b.shard shard of @b in device : tensor<16xf32>
  fcdp.state @b.cache cache of @b in host : tensor<32xf32>
  func.func @init() attributes {fcdp.role = #fcdp.role<init>} { return }
  func.func @only_microbatch() attributes {fcdp.role = #fcdp.role<only_microbatch>} {
    %w = fcdp.cache_load @b.cache : tensor<32xf32>
    %v = fcdp.view_member %w @w of @b : tensor<32xf32> to tensor<32xf32>
    %l = aten.call "aten.sum.default"(self = %v) : (tensor<32xf32>) -> tensor<f32>
    fcdp.loss %l : tensor<f32>
    return
  }
  func.func @update() attributes {fcdp.role = #fcdp.role<update>} { return }
}
