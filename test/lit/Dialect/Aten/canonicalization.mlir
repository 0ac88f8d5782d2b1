// RUN: fcdp-opt %s --cse | FileCheck %s
// RUN: fcdp-opt %s --canonicalize | FileCheck %s --check-prefix=CANON

// CHECK-LABEL: func.func @pure_calls_merge
func.func @pure_calls_merge(%x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  // CHECK: %[[A:.*]] = aten.call "aten.mm.default"
  // CHECK-NEXT: return %[[A]], %[[A]]
  %a = aten.call "aten.mm.default"(self = %x, mat2 = %x) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %b = aten.call "aten.mm.default"(self = %x, mat2 = %x) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %a, %b : tensor<4x4xf32>, tensor<4x4xf32>
}

// CHECK-LABEL: func.func @views_merge
func.func @views_merge(%x: tensor<4x2xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>) {
  // CHECK: %[[A:.*]] = aten.call "aten.t.default"
  // CHECK-NEXT: return %[[A]], %[[A]]
  %a = aten.call "aten.t.default"(self = %x) : (tensor<4x2xf32>) -> tensor<2x4xf32>
  %b = aten.call "aten.t.default"(self = %x) : (tensor<4x2xf32>) -> tensor<2x4xf32>
  return %a, %b : tensor<2x4xf32>, tensor<2x4xf32>
}

// CHECK-LABEL: func.func @other_arguments_stay_apart
func.func @other_arguments_stay_apart(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  // CHECK-COUNT-3: aten.call "aten.add.Scalar"
  // CHECK: return
  %a = aten.call "aten.add.Scalar"(self = %x, other = 1) : (tensor<4xf32>) -> tensor<4xf32>
  %b = aten.call "aten.add.Scalar"(self = %x, other = 1.0) : (tensor<4xf32>) -> tensor<4xf32>
  %c = aten.call "aten.add.Scalar"(self = %x, other = 1, alpha = 1) : (tensor<4xf32>) -> tensor<4xf32>
  return %a, %b, %c : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// CHECK-LABEL: func.func @other_names_stay_apart
func.func @other_names_stay_apart(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // CHECK-COUNT-2: aten.call "aten.clamp.Tensor"
  // CHECK: return
  %a = aten.call "aten.clamp.Tensor"(self = %x, min = %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %b = aten.call "aten.clamp.Tensor"(self = %x, max = %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %a, %b : tensor<4xf32>, tensor<4xf32>
}

// CANON-LABEL: func.func @unused_pure_calls_go
func.func @unused_pure_calls_go(%x: tensor<4x4xf32>) {
  // CANON-NEXT: return
  %a = aten.call "aten.mm.default"(self = %x, mat2 = %x) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return
}

// Each draws its own numbers.
// CHECK-LABEL: func.func @random_calls_stay_apart
func.func @random_calls_stay_apart(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // CHECK: %[[A:.*]]:2 = aten.call "aten.native_dropout.default"
  // CHECK: %[[B:.*]]:2 = aten.call "aten.native_dropout.default"
  // CHECK: return %[[A]]#0, %[[B]]#0
  %a:2 = aten.call "aten.native_dropout.default"(input = %x, p = 0.5, train = true) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xi1>)
  %b:2 = aten.call "aten.native_dropout.default"(input = %x, p = 0.5, train = true) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xi1>)
  return %a#0, %b#0 : tensor<4xf32>, tensor<4xf32>
}

// Attention on CUDA draws only for dropout.
// CHECK-LABEL: func.func @attention_with_dropout_stays_apart
func.func @attention_with_dropout_stays_apart(%x: tensor<2x4x16x8xf32>) -> (tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>) {
  // CHECK: %[[A:.*]]:4 = aten.call "aten._scaled_dot_product_efficient_attention.default"
  // CHECK-NEXT: %[[B:.*]]:4 = aten.call "aten._scaled_dot_product_efficient_attention.default"
  // CHECK-NEXT: %[[C:.*]]:4 = aten.call "aten._scaled_dot_product_efficient_attention.default"
  // CHECK-NEXT: return %[[A]]#0, %[[A]]#0, %[[B]]#0, %[[C]]#0
  %a:4 = aten.call "aten._scaled_dot_product_efficient_attention.default"(query = %x, key = %x, value = %x, attn_bias = none, compute_log_sumexp = true) : (tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>) -> (tensor<2x4x16x8xf32>, tensor<2x4x32xf32>, tensor<i64>, tensor<i64>)
  %b:4 = aten.call "aten._scaled_dot_product_efficient_attention.default"(query = %x, key = %x, value = %x, attn_bias = none, compute_log_sumexp = true) : (tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>) -> (tensor<2x4x16x8xf32>, tensor<2x4x32xf32>, tensor<i64>, tensor<i64>)
  %c:4 = aten.call "aten._scaled_dot_product_efficient_attention.default"(query = %x, key = %x, value = %x, attn_bias = none, compute_log_sumexp = true, dropout_p = 0.5) : (tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>) -> (tensor<2x4x16x8xf32>, tensor<2x4x32xf32>, tensor<i64>, tensor<i64>)
  %d:4 = aten.call "aten._scaled_dot_product_efficient_attention.default"(query = %x, key = %x, value = %x, attn_bias = none, compute_log_sumexp = true, dropout_p = 0.5) : (tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>) -> (tensor<2x4x16x8xf32>, tensor<2x4x32xf32>, tensor<i64>, tensor<i64>)
  return %a#0, %b#0, %c#0, %d#0 : tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>
}

// Erasing one would shift the numbers of those after it.
// CHECK-LABEL: func.func @unused_random_calls_stay
// CANON-LABEL: func.func @unused_random_calls_stay
func.func @unused_random_calls_stay() {
  // CHECK-NEXT: aten.call "aten.rand.default"
  // CANON-NEXT: aten.call "aten.rand.default"
  %a = aten.call "aten.rand.default"(size = [4]) : () -> tensor<4xf32>
  return
}

// The backward of dropout takes the mask and draws nothing.
// CHECK-LABEL: func.func @dropout_backward_merges
func.func @dropout_backward_merges(%g: tensor<4xf32>, %m: tensor<4xi1>) -> (tensor<4xf32>, tensor<4xf32>) {
  // CHECK-COUNT-1: aten.call
  // CHECK-NEXT: return
  %a = aten.call "aten.native_dropout_backward.default"(grad_output = %g, mask = %m, scale = 2.0) : (tensor<4xf32>, tensor<4xi1>) -> tensor<4xf32>
  %b = aten.call "aten.native_dropout_backward.default"(grad_output = %g, mask = %m, scale = 2.0) : (tensor<4xf32>, tensor<4xi1>) -> tensor<4xf32>
  return %a, %b : tensor<4xf32>, tensor<4xf32>
}

// An operator that is not in the table may do anything, also with a name that
// begins like one that is.
// CHECK-LABEL: func.func @unknown_calls_stay_apart
// CANON-LABEL: func.func @unknown_calls_stay_apart
func.func @unknown_calls_stay_apart(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // CHECK-COUNT-2: aten.call "mine.op.default"
  // CHECK-COUNT-2: aten.call "aten.add_.Tensor"
  // CHECK: aten.call "mine.add.Tensor"
  // CHECK: return
  // CANON: aten.call "mine.add.Tensor"
  // CANON: return
  %a = aten.call "mine.op.default"(self = %x) : (tensor<4xf32>) -> tensor<4xf32>
  %b = aten.call "mine.op.default"(self = %x) : (tensor<4xf32>) -> tensor<4xf32>
  %c = aten.call "aten.add_.Tensor"(self = %x, other = %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %d = aten.call "aten.add_.Tensor"(self = %x, other = %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %e = aten.call "mine.add.Tensor"(self = %x, other = %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %a, %b : tensor<4xf32>, tensor<4xf32>
}
