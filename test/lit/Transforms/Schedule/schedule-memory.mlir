// Releases and the host cache, where the shape of the program is unusual.
// RUN: fcdp-opt %s --split-input-file --fcdp-schedule | FileCheck %s

// An unused value is released as well, after it is written.
// CHECK-LABEL: func.func @only_microbatch
// CHECK-SAME: only_microbatch
// CHECK: %[[W:.*]] = fcdp.all_gather
// CHECK: %[[DONE:.*]] = fcdp.record on inter
// CHECK: fcdp.loss
// CHECK: fcdp.wait %[[DONE]] on compute
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

// Compute waits for a store that nothing follows when the next one is issued.
// CHECK-LABEL: func.func @init
// CHECK: fcdp.cache_store %[[A:.*]] to @a.cache
// CHECK-NEXT: %[[STORED:.*]] = fcdp.record on d2h
// Dont: the store is not the end of a gather.
// CHECK-NOT: fcdp.release %[[A]]
// CHECK: fcdp.cache_store %[[B:.*]] to @b.cache
// CHECK: fcdp.wait %[[STORED]] on compute
// CHECK: fcdp.release %[[A]]
// CHECK-NOT: fcdp.cache_store
// CHECK: fcdp.release %[[B]]
// CHECK-NEXT: return
module attributes {fcdp.phase = #fcdp.phase<sharded>} {
  fcdp.mesh @world(node = 2, local = 2)
  fcdp.parameter @v : tensor<64xf32> unit "" names ["v"]
  fcdp.parameter @w : tensor<64xf32> unit "" names ["w"]
  fcdp.bucket @a unit "" elements 64 storage f32 wire f32 members [@v at 0]
  fcdp.state @a.shard shard of @a in device : tensor<16xf32>
  fcdp.state @a.cache cache of @a in host : tensor<32xf32>
  fcdp.bucket @b unit "" elements 64 storage f32 wire f32 members [@w at 0]
  fcdp.state @b.shard shard of @b in device : tensor<16xf32>
  fcdp.state @b.cache cache of @b in host : tensor<32xf32>
  func.func @init() attributes {fcdp.role = #fcdp.role<init>} {
    %a = fcdp.read_shard @a : tensor<16xf32>
    %v = fcdp.all_gather %a of @a over @world[node] range 0 : tensor<16xf32> to tensor<32xf32>
    fcdp.cache_store %v to @a.cache : tensor<32xf32>
    %b = fcdp.read_shard @b : tensor<16xf32>
    %w = fcdp.all_gather %b of @b over @world[node] range 0 : tensor<16xf32> to tensor<32xf32>
    fcdp.cache_store %w to @b.cache : tensor<32xf32>
    return
  }
  func.func @only_microbatch() attributes {fcdp.role = #fcdp.role<only_microbatch>} { return }
  func.func @update() attributes {fcdp.role = #fcdp.role<update>} { return }
}

// -----

// A gradient accumulator is stored when compute is done with the gradients, so
// that their memory is free then.
// CHECK-LABEL: func.func @first_microbatch
// CHECK: fcdp.reduce_scatter
// CHECK-NEXT: %[[PART:.*]] = fcdp.record on intra_reduce
// CHECK: fcdp.wait %[[PART]] on compute
// CHECK-NEXT: %[[FREE:.*]] = fcdp.record on compute
// CHECK-NEXT: fcdp.wait %[[FREE]] on d2h
// CHECK-NEXT: fcdp.cache_store
module attributes {fcdp.micro_batches = 2 : i64, fcdp.phase = #fcdp.phase<sharded>} {
  fcdp.mesh @world(node = 2, local = 2)
  fcdp.parameter @w : tensor<64xf32> unit "" trainable names ["w"]
  fcdp.bucket @a unit "" elements 64 storage f32 wire f32 trainable accumulation node_host members [@w at 0]
  fcdp.state @a.shard shard of @a in device : tensor<16xf32>
  fcdp.state @a.grad grad of @a in device : tensor<16xf32>
  fcdp.state @a.sum host_grad of @a in host : tensor<32xf32>
  func.func @init() attributes {fcdp.role = #fcdp.role<init>} { return }
  func.func @first_microbatch() attributes {fcdp.role = #fcdp.role<first_microbatch>} {
    %packed = fcdp.pack @a() : () -> tensor<64xf32>
    %part = fcdp.reduce_scatter %packed of @a over @world[local] : tensor<64xf32> to tensor<32xf32>
    fcdp.cache_store %part to @a.sum : tensor<32xf32>
    return
  }
  func.func @next_microbatch() attributes {fcdp.role = #fcdp.role<next_microbatch>} { return }
  func.func @last_microbatch() attributes {fcdp.role = #fcdp.role<last_microbatch>} { return }
  func.func @update() attributes {fcdp.role = #fcdp.role<update>} { return }
}

// -----

// A store waits for the load before it from the same cache, and a load for the
// store.
// CHECK-LABEL: func.func @only_microbatch
// CHECK-SAME: only_microbatch
// CHECK: fcdp.cache_load
// CHECK: %[[LOADED:.*]] = fcdp.record on h2d
// CHECK: fcdp.wait %[[LOADED]] on d2h
// CHECK: fcdp.cache_store
// CHECK-NEXT: %[[STORED:.*]] = fcdp.record on d2h
// CHECK: fcdp.wait %[[STORED]] on h2d
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

// The first operation of a function waits for the functions before it, which were
// joined into the compute stream.
// CHECK-LABEL: func.func @only_microbatch
// CHECK-SAME: only_microbatch
// CHECK-NEXT: %[[BEFORE:.*]] = fcdp.record on compute
// CHECK-NEXT: fcdp.wait %[[BEFORE]] on h2d
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
