// RUN: fcdp-opt %s --split-input-file --fcdp-decide-remat=remat=unit --fcdp-remat | FileCheck %s

// Attention without dropout runs again, and gives the random state that its
// backward pass takes and does not look at.
// CHECK-LABEL: func.func @step
// CHECK: %[[A:.*]]:4 = aten.call "aten._scaled_dot_product_efficient_attention.default"{{.*}}fcdp.recompute = true
// CHECK: fcdp.loss
// CHECK: %[[B:.*]]:4 = aten.call "aten._scaled_dot_product_efficient_attention.default"{{.*}}fcdp.repeated
// CHECK: "aten._scaled_dot_product_efficient_attention_backward.default"({{.*}}out = %[[B]]#0, logsumexp = %[[B]]#1, philox_seed = %[[B]]#2, philox_offset = %[[B]]#3
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @w : tensor<2x4x32x8xf32> unit "a" trainable names ["w"]
  fcdp.parameter @v : tensor<2x4x32x8xf32> unit "b" names ["v"]
  fcdp.input @x : tensor<2x4x32x8xf32> name "x"
  func.func @step() {
    %x = fcdp.read_input @x : tensor<2x4x32x8xf32>
    %w = fcdp.read_parameter @w : tensor<2x4x32x8xf32>
    %q = aten.call "aten.mul.Tensor"(self = %x, other = %w) : (tensor<2x4x32x8xf32>, tensor<2x4x32x8xf32>) -> tensor<2x4x32x8xf32>
    %a:4 = aten.call "aten._scaled_dot_product_efficient_attention.default"(query = %q, key = %q, value = %q, attn_bias = none, compute_log_sumexp = true, dropout_p = 0.0) : (tensor<2x4x32x8xf32>, tensor<2x4x32x8xf32>, tensor<2x4x32x8xf32>) -> (tensor<2x4x32x8xf32>, tensor<2x4x32xf32>, tensor<i64>, tensor<i64>)
    %c = aten.call "aten.add.Tensor"(self = %a#0, other = %x) : (tensor<2x4x32x8xf32>, tensor<2x4x32x8xf32>) -> tensor<2x4x32x8xf32>
    %v = fcdp.read_parameter @v : tensor<2x4x32x8xf32>
    %b = aten.call "aten.mul.Tensor"(self = %c, other = %v) : (tensor<2x4x32x8xf32>, tensor<2x4x32x8xf32>) -> tensor<2x4x32x8xf32>
    %l = aten.call "aten.sum.default"(self = %b) : (tensor<2x4x32x8xf32>) -> tensor<f32>
    fcdp.loss %l : tensor<f32>
    %g:3 = aten.call "aten._scaled_dot_product_efficient_attention_backward.default"(grad_out_ = %x, query = %q, key = %q, value = %q, attn_bias = none, out = %a#0, logsumexp = %a#1, philox_seed = %a#2, philox_offset = %a#3, dropout_p = 0.0, grad_input_mask = [true, true, true, false]) {undefined = array<i64: 3>} : (tensor<2x4x32x8xf32>, tensor<2x4x32x8xf32>, tensor<2x4x32x8xf32>, tensor<2x4x32x8xf32>, tensor<2x4x32x8xf32>, tensor<2x4x32xf32>, tensor<i64>, tensor<i64>) -> (tensor<2x4x32x8xf32>, tensor<2x4x32x8xf32>, tensor<2x4x32x8xf32>)
    fcdp.gradient %g#0 of @w : tensor<2x4x32x8xf32>
    return
  }
}

// -----

// DontRepeatDropout: with it, other numbers would be drawn.
// CHECK-LABEL: func.func @step
// CHECK: aten.call "aten._scaled_dot_product_efficient_attention.default"
// CHECK-NOT: aten.call "aten._scaled_dot_product_efficient_attention.default"
// CHECK: return
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @w : tensor<2x4x32x8xf32> unit "a" trainable names ["w"]
  fcdp.parameter @v : tensor<2x4x32x8xf32> unit "b" names ["v"]
  fcdp.input @x : tensor<2x4x32x8xf32> name "x"
  func.func @step() {
    %x = fcdp.read_input @x : tensor<2x4x32x8xf32>
    %w = fcdp.read_parameter @w : tensor<2x4x32x8xf32>
    %q = aten.call "aten.mul.Tensor"(self = %x, other = %w) : (tensor<2x4x32x8xf32>, tensor<2x4x32x8xf32>) -> tensor<2x4x32x8xf32>
    %a:4 = aten.call "aten._scaled_dot_product_efficient_attention.default"(query = %q, key = %q, value = %q, attn_bias = none, compute_log_sumexp = true, dropout_p = 0.1) : (tensor<2x4x32x8xf32>, tensor<2x4x32x8xf32>, tensor<2x4x32x8xf32>) -> (tensor<2x4x32x8xf32>, tensor<2x4x32xf32>, tensor<i64>, tensor<i64>)
    %c = aten.call "aten.add.Tensor"(self = %a#0, other = %x) : (tensor<2x4x32x8xf32>, tensor<2x4x32x8xf32>) -> tensor<2x4x32x8xf32>
    %v = fcdp.read_parameter @v : tensor<2x4x32x8xf32>
    %b = aten.call "aten.mul.Tensor"(self = %c, other = %v) : (tensor<2x4x32x8xf32>, tensor<2x4x32x8xf32>) -> tensor<2x4x32x8xf32>
    %l = aten.call "aten.sum.default"(self = %b) : (tensor<2x4x32x8xf32>) -> tensor<f32>
    fcdp.loss %l : tensor<f32>
    %g:3 = aten.call "aten._scaled_dot_product_efficient_attention_backward.default"(grad_out_ = %x, query = %q, key = %q, value = %q, attn_bias = none, out = %a#0, logsumexp = %a#1, philox_seed = %a#2, philox_offset = %a#3, dropout_p = 0.1, grad_input_mask = [true, true, true, false]) {undefined = array<i64: 3>} : (tensor<2x4x32x8xf32>, tensor<2x4x32x8xf32>, tensor<2x4x32x8xf32>, tensor<2x4x32x8xf32>, tensor<2x4x32x8xf32>, tensor<2x4x32xf32>, tensor<i64>, tensor<i64>) -> (tensor<2x4x32x8xf32>, tensor<2x4x32x8xf32>, tensor<2x4x32x8xf32>)
    fcdp.gradient %g#0 of @w : tensor<2x4x32x8xf32>
    return
  }
}
