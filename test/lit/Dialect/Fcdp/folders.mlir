// RUN: fcdp-opt %s --canonicalize --split-input-file | FileCheck %s

// Folders of operations that do nothing. The pipeline runs no canonicalization.

fcdp.mesh @world(node = 1, local = 2)
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire f32 trainable members []
fcdp.state @resident resident of @bucket in device : tensor<32xf32>

// CHECK-LABEL: func.func @fold_gather_over_one_rank
// CHECK-SAME: %[[S:.*]]: tensor<32xf32>
func.func @fold_gather_over_one_rank(%s: tensor<32xf32>) -> tensor<32xf32> {
  // CHECK-NEXT: return %[[S]]
  %a = fcdp.all_gather %s of @bucket over @world[node] range 0 : tensor<32xf32> to tensor<32xf32>
  return %a : tensor<32xf32>
}

// CHECK-LABEL: func.func @fold_reduction_over_one_rank
// CHECK-SAME: %[[S:.*]]: tensor<32xf32>
func.func @fold_reduction_over_one_rank(%s: tensor<32xf32>) -> tensor<32xf32> {
  // CHECK-NEXT: return %[[S]]
  %a = fcdp.reduce_scatter %s of @bucket over @world[node] : tensor<32xf32> to tensor<32xf32>
  return %a : tensor<32xf32>
}

// CHECK-LABEL: func.func @fold_cast_to_the_same_type
// CHECK-SAME: %[[S:.*]]: tensor<32xf32>
func.func @fold_cast_to_the_same_type(%s: tensor<32xf32>) -> tensor<32xf32> {
  // CHECK-NEXT: return %[[S]]
  %a = fcdp.cast_shard %s : tensor<32xf32> to tensor<32xf32>
  return %a : tensor<32xf32>
}

// CHECK-LABEL: func.func @dont_fold_over_two_ranks
func.func @dont_fold_over_two_ranks(%s: tensor<32xf32>) -> tensor<32xf32> {
  // CHECK: fcdp.all_gather
  // CHECK: fcdp.reduce_scatter
  %a = fcdp.all_gather %s of @bucket over @world[local] range 0 : tensor<32xf32> to tensor<64xf32>
  %b = fcdp.reduce_scatter %a of @bucket over @world[local] : tensor<64xf32> to tensor<32xf32>
  return %b : tensor<32xf32>
}

// The gather fills a state for later functions.
// CHECK-LABEL: func.func @dont_fold_gather_into_state
func.func @dont_fold_gather_into_state(%s: tensor<32xf32>) -> tensor<32xf32> {
  // CHECK: fcdp.all_gather
  %a = fcdp.all_gather %s of @bucket over @world[node] range 0 into @resident : tensor<32xf32> to tensor<32xf32>
  return %a : tensor<32xf32>
}

// An event may mark the gather on its stream.
// CHECK-LABEL: func.func @dont_fold_gather_on_stream
func.func @dont_fold_gather_on_stream(%s: tensor<32xf32>) -> tensor<32xf32> {
  // CHECK: fcdp.all_gather
  %a = fcdp.all_gather %s of @bucket over @world[node] range 0 on inter : tensor<32xf32> to tensor<32xf32>
  return %a : tensor<32xf32>
}

// The update overwrites the shard, and the copy keeps the earlier values.
// CHECK-LABEL: func.func @dont_fold_copy_of_view
func.func @dont_fold_copy_of_view() -> (tensor<32xf32>, tensor<32xf32>) {
  // CHECK: fcdp.all_gather
  // CHECK: fcdp.cast_shard
  %s = fcdp.read_shard @bucket : tensor<32xf32>
  %a = fcdp.all_gather %s of @bucket over @world[node] range 0 : tensor<32xf32> to tensor<32xf32>
  %b = fcdp.cast_shard %s : tensor<32xf32> to tensor<32xf32>
  return %a, %b : tensor<32xf32>, tensor<32xf32>
}

// CHECK-LABEL: func.func @dont_fold_rounding_cast_or_reduction
func.func @dont_fold_rounding_cast_or_reduction(%s: tensor<32xbf16>) -> tensor<32xbf16> {
  // CHECK: fcdp.reduce_scatter
  // CHECK: fcdp.cast_shard
  %a = fcdp.reduce_scatter %s of @bucket over @world[node] : tensor<32xbf16> to tensor<32xf32>
  %b = fcdp.cast_shard %a : tensor<32xf32> to tensor<32xbf16>
  return %b : tensor<32xbf16>
}

// -----

fcdp.mesh @world(node = 1, local = 2)
fcdp.bucket @bucket unit "fc" elements 64 storage bf16 wire bf16 trainable residency host gather_wire delta members []
fcdp.state @cache cache of @bucket in host : tensor<32xbf16>
fcdp.state @residual residual of @bucket in host : tensor<32xf32>

// Messages keep errors of rounding in a state, and refer to a state.
// CHECK-LABEL: func.func @dont_fold_wires
func.func @dont_fold_wires(%s: tensor<32xbf16>) -> (tensor<32xbf16>, tensor<32xbf16>) {
  // CHECK: fcdp.all_gather
  // CHECK: fcdp.reduce_scatter
  %a = fcdp.all_gather %s of @bucket over @world[node] range 0 delta @cache : tensor<32xbf16> to tensor<32xbf16>
  %b = fcdp.reduce_scatter %s of @bucket over @world[node] code int8 residual @residual : tensor<32xbf16> to tensor<32xbf16>
  return %a, %b : tensor<32xbf16>, tensor<32xbf16>
}
