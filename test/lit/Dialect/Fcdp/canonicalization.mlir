// RUN: fcdp-opt %s --cse | FileCheck %s --check-prefixes=CHECK,CSE
// RUN: fcdp-opt %s --canonicalize | FileCheck %s --check-prefixes=CHECK,CANON

// CSE and canonicalization respect the memory effects of operations.

fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.buffer @mean : tensor<64xf32> name "mean" persistent mutable
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire f32 trainable members [@w at 0]
fcdp.state @cache cache of @bucket in host : tensor<32xf32>
fcdp.bucket @outer unit "fc" elements 64 storage f32 wire f32 trainable sharding node outer 0 members []

// Merging would keep the parameter alive from forward to backward.
// CHECK-LABEL: func.func @equal_gathers_stay_apart
func.func @equal_gathers_stay_apart(%s: tensor<16xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
  // CHECK: %[[A:.*]] = fcdp.all_gather
  // CHECK: %[[B:.*]] = fcdp.all_gather
  // CHECK: return %[[A]], %[[B]]
  %a = fcdp.all_gather %s of @bucket over @world[node, local] range 0 : tensor<16xf32> to tensor<64xf32>
  %b = fcdp.all_gather %s of @bucket over @world[node, local] range 0 : tensor<16xf32> to tensor<64xf32>
  return %a, %b : tensor<64xf32>, tensor<64xf32>
}

// CHECK-LABEL: func.func @unused_allocations_go
func.func @unused_allocations_go(%s: tensor<16xf32>, %g: tensor<3x4xf32>, %whole: tensor<64xf32>) {
  // CHECK-NEXT: return
  %a = fcdp.all_gather %s of @bucket over @world[node, local] range 0 : tensor<16xf32> to tensor<64xf32>
  %b = fcdp.pack @bucket(%g as @w) : (tensor<3x4xf32>) -> tensor<64xf32>
  %c = fcdp.reduce_scatter %whole of @bucket over @world[local, node] : tensor<64xf32> to tensor<16xf32>
  %d = fcdp.cache_load @cache : tensor<32xf32>
  return
}

// CHECK-LABEL: func.func @equal_loads_packs_and_reductions_stay_apart
func.func @equal_loads_packs_and_reductions_stay_apart(%g: tensor<3x4xf32>) -> (tensor<32xf32>, tensor<32xf32>, tensor<16xf32>, tensor<16xf32>) {
  // CHECK-COUNT-2: fcdp.cache_load
  // CHECK-COUNT-2: fcdp.pack
  // CHECK-COUNT-2: fcdp.reduce_scatter
  // CHECK: return
  %a = fcdp.cache_load @cache : tensor<32xf32>
  %b = fcdp.cache_load @cache : tensor<32xf32>
  %c = fcdp.pack @bucket(%g as @w) : (tensor<3x4xf32>) -> tensor<64xf32>
  %d = fcdp.pack @bucket(%g as @w) : (tensor<3x4xf32>) -> tensor<64xf32>
  %e = fcdp.reduce_scatter %c of @bucket over @world[local, node] : tensor<64xf32> to tensor<16xf32>
  %f = fcdp.reduce_scatter %d of @bucket over @world[local, node] : tensor<64xf32> to tensor<16xf32>
  return %a, %b, %e, %f : tensor<32xf32>, tensor<32xf32>, tensor<16xf32>, tensor<16xf32>
}

// CHECK-LABEL: func.func @differences_and_updates_of_outer_parameters_stay_apart
func.func @differences_and_updates_of_outer_parameters_stay_apart() {
  // CHECK-NEXT: %[[A:.*]] = fcdp.outer_difference
  // CHECK-NEXT: %[[B:.*]] = fcdp.outer_difference
  // CHECK-NEXT: fcdp.outer_update @outer with %[[A]]
  // CHECK-NEXT: fcdp.outer_update @outer with %[[B]]
  // CHECK-NEXT: fcdp.outer_update @outer with %[[B]]
  // CHECK-NEXT: return
  %unused = fcdp.outer_difference @outer : tensor<32xf32>
  %a = fcdp.outer_difference @outer : tensor<32xf32>
  %b = fcdp.outer_difference @outer : tensor<32xf32>
  fcdp.outer_update @outer with %a scale 0.5 : tensor<32xf32>
  fcdp.outer_update @outer with %b scale 0.5 : tensor<32xf32>
  fcdp.outer_update @outer with %b scale 0.5 : tensor<32xf32>
  return
}

// Reads and pure operations have no results in the pool.
// CHECK-LABEL: func.func @equal_reads_merge
func.func @equal_reads_merge(%whole: tensor<64xf32>) -> (tensor<16xbf16>, tensor<16xbf16>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<64xf32>, tensor<64xf32>) {
  // CSE-COUNT-1: fcdp.read_shard
  // CSE-COUNT-1: fcdp.cast_shard
  // CSE-COUNT-1: fcdp.view_member
  // CSE-COUNT-1: fcdp.add
  // CSE-NOT: fcdp
  // CANON-COUNT-2: fcdp.read_shard
  // CHECK: return
  %a = fcdp.read_shard @bucket : tensor<16xf32>
  %b = fcdp.read_shard @bucket : tensor<16xf32>
  %c = fcdp.cast_shard %a : tensor<16xf32> to tensor<16xbf16>
  %d = fcdp.cast_shard %b : tensor<16xf32> to tensor<16xbf16>
  %e = fcdp.view_member %whole @w of @bucket : tensor<64xf32> to tensor<3x4xf32>
  %f = fcdp.view_member %whole @w of @bucket : tensor<64xf32> to tensor<3x4xf32>
  %h = fcdp.add %whole, %whole : tensor<64xf32>
  %i = fcdp.add %whole, %whole : tensor<64xf32>
  return %c, %d, %e, %f, %h, %i : tensor<16xbf16>, tensor<16xbf16>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<64xf32>, tensor<64xf32>
}

// CHECK-LABEL: func.func @reads_around_a_write_stay_apart
func.func @reads_around_a_write_stay_apart(%m: tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
  // CHECK: fcdp.read_buffer
  // CHECK: fcdp.write_buffer
  // CHECK: fcdp.read_buffer
  // CHECK: return
  %a = fcdp.read_buffer @mean : tensor<64xf32>
  fcdp.write_buffer %m to @mean : tensor<64xf32>
  %b = fcdp.read_buffer @mean : tensor<64xf32>
  return %a, %b : tensor<64xf32>, tensor<64xf32>
}

// CHECK-LABEL: func.func @shards_around_an_update_stay_apart
func.func @shards_around_an_update_stay_apart() -> (tensor<16xf32>, tensor<16xf32>) {
  // CHECK: fcdp.read_shard
  // CHECK: fcdp.shard_update
  // CHECK: fcdp.read_shard
  // CHECK: return
  %a = fcdp.read_shard @bucket : tensor<16xf32>
  fcdp.shard_update @bucket scale 1.0 with #fcdp.sgd<lr = 0.1, momentum = 0.0, dampening = 0.0, weight_decay = 0.0, nesterov = false>
  %b = fcdp.read_shard @bucket : tensor<16xf32>
  return %a, %b : tensor<16xf32>, tensor<16xf32>
}

// CHECK-LABEL: func.func @results_stay
func.func @results_stay(%g: tensor<3x4xf32>, %l: tensor<f32>, %s: tensor<16xf32>, %slice: tensor<32xf32>) {
  // CHECK: fcdp.gradient
  // CHECK: fcdp.loss
  // CHECK-COUNT-2: fcdp.accumulate
  // CHECK: fcdp.cache_store
  // CHECK: return
  fcdp.gradient %g of @w : tensor<3x4xf32>
  fcdp.loss %l : tensor<f32>
  fcdp.accumulate %s into @bucket add : tensor<16xf32>
  fcdp.accumulate %s into @bucket add : tensor<16xf32>
  fcdp.cache_store %slice to @cache : tensor<32xf32>
  return
}

// CHECK-LABEL: func.func @order_stays
func.func @order_stays() {
  // CHECK: %[[A:.*]] = fcdp.record on inter
  // CHECK: %[[B:.*]] = fcdp.record on inter
  // CHECK: fcdp.record on d2h
  // CHECK: fcdp.wait %[[A]] on compute
  // CHECK: fcdp.wait %[[B]] on compute
  // CHECK: %[[C:.*]] = fcdp.cache_load
  // CHECK: fcdp.release %[[C]]
  %a = fcdp.record on inter
  %b = fcdp.record on inter
  %unused = fcdp.record on d2h
  fcdp.wait %a on compute
  fcdp.wait %b on compute
  %c = fcdp.cache_load @cache on h2d : tensor<32xf32>
  fcdp.release %c : tensor<32xf32>
  return
}
