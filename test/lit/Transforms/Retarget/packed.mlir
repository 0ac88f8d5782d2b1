// RUN: fcdp-opt %s --split-input-file --fcdp-retarget=target=cuda | FileCheck %s
// RUN: fcdp-opt %s --fcdp-retarget=target=cpu --split-input-file | FileCheck %s --check-prefix=CPU

// Attention by documents, which is the runtime's own on the CPU, becomes
// attention under the mask that keeps documents apart, one for all layers.
// CHECK-LABEL: func.func @step
// CHECK: %[[DOCUMENTS:.*]] = fcdp.read_input @documents
// CHECK: %[[POSITIONS:.*]] = fcdp.read_input @positions
// CHECK-DAG: %[[DQ:.*]] = aten.call "aten.view.default"(self = %[[DOCUMENTS]], size = [2, 1, 20, 1])
// CHECK-DAG: %[[DK:.*]] = aten.call "aten.view.default"(self = %[[DOCUMENTS]], size = [2, 1, 1, 20])
// CHECK: %[[SAME:.*]] = aten.call "aten.eq.Tensor"(self = %[[DQ]], other = %[[DK]]) : {{.*}} -> tensor<2x1x20x20xi1>
// CHECK-DAG: %[[PK:.*]] = aten.call "aten.view.default"(self = %[[POSITIONS]], size = [2, 1, 1, 20])
// CHECK-DAG: %[[PQ:.*]] = aten.call "aten.view.default"(self = %[[POSITIONS]], size = [2, 1, 20, 1])
// CHECK: %[[BEFORE:.*]] = aten.call "aten.le.Tensor"(self = %[[PK]], other = %[[PQ]])
// CHECK: %[[SEEN:.*]] = aten.call "aten.bitwise_and.Tensor"(self = %[[SAME]], other = %[[BEFORE]])
// CHECK: aten.call "aten.scalar_tensor.default"(s = 0.000000e+00, dtype = f16, device = #aten.device<"cuda">)
// CHECK: %[[MASK:.*]] = aten.call "aten.where.self"(condition = %[[SEEN]], {{.*}} -> tensor<2x1x20x20xf16>
// CHECK-NOT: aten.where
// CHECK: %[[BIAS:.*]] = aten.call "aten.expand.default"({{.*}}, size = [2, 4, 20, 20])
// CHECK: aten.call "aten._scaled_dot_product_efficient_attention.default"({{.*}}, attn_bias = %[[BIAS]], compute_log_sumexp = false, dropout_p = 0.000000e+00, is_causal = false, scale = 5.000000e-01)
// CHECK: aten.call "aten._scaled_dot_product_efficient_attention.default"({{.*}}, attn_bias = %[[BIAS]], compute_log_sumexp = true
// CHECK: aten.call "aten._scaled_dot_product_efficient_attention_backward.default"({{.*}}, attn_bias = %[[BIAS]]
// CHECK-NOT: packed_attention
// CPU-LABEL: func.func @step
// CPU-COUNT-3: aten.call "fcdp.packed_attention
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.input @q : tensor<2x4x20x8xf16> name "q"
  fcdp.input @documents : tensor<2x20xi64> name "documents"
  fcdp.input @positions : tensor<2x20xi64> name "positions"
  func.func @step() {
    %q = fcdp.read_input @q : tensor<2x4x20x8xf16>
    %d = fcdp.read_input @documents : tensor<2x20xi64>
    %p = fcdp.read_input @positions : tensor<2x20xi64>
    %a:2 = aten.call "fcdp.packed_attention.default"(query = %q, key = %q, value = %q, documents = %d, positions = %p, scale = 0.5) {fcdp.dim_order = array<i64: 0, 2, 1, 3>} : (tensor<2x4x20x8xf16>, tensor<2x4x20x8xf16>, tensor<2x4x20x8xf16>, tensor<2x20xi64>, tensor<2x20xi64>) -> (tensor<2x4x20x8xf16>, tensor<2x4x20xf32>)
    %b:2 = aten.call "fcdp.packed_attention.default"(query = %a#0, key = %q, value = %q, documents = %d, positions = %p, scale = 0.5) {fcdp.dim_order = array<i64: 0, 2, 1, 3>} : (tensor<2x4x20x8xf16>, tensor<2x4x20x8xf16>, tensor<2x4x20x8xf16>, tensor<2x20xi64>, tensor<2x20xi64>) -> (tensor<2x4x20x8xf16>, tensor<2x4x20xf32>)
    %l = aten.call "aten.sum.default"(self = %b#0) : (tensor<2x4x20x8xf16>) -> tensor<f16>
    fcdp.loss %l : tensor<f16>
    %g:3 = aten.call "fcdp.packed_attention_backward.default"(grad_out = %q, query = %a#0, key = %q, value = %q, out = %b#0, logsumexp = %b#1, documents = %d, positions = %p, scale = 0.5) : (tensor<2x4x20x8xf16>, tensor<2x4x20x8xf16>, tensor<2x4x20x8xf16>, tensor<2x4x20x8xf16>, tensor<2x4x20x8xf16>, tensor<2x4x20xf32>, tensor<2x20xi64>, tensor<2x20xi64>) -> (tensor<2x4x20x8xf16>, tensor<2x4x20x8xf16>, tensor<2x4x20x8xf16>)
    %s = aten.call "aten.add.Tensor"(self = %g#0, other = %g#1) : (tensor<2x4x20x8xf16>, tensor<2x4x20x8xf16>) -> tensor<2x4x20x8xf16>
    return
  }
}

// -----

// Without positions, the order of the row.
// CHECK-LABEL: func.func @step
// CHECK: %[[ORDER:.*]] = aten.call "aten.arange.default"(end = 20, device = #aten.device<"cuda">)
// CHECK: aten.call "aten.view.default"(self = %[[ORDER]], size = [1, 1, 1, 20])
// CPU-LABEL: func.func @step
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.input @q : tensor<2x4x20x8xf16> name "q"
  fcdp.input @documents : tensor<2x20xi64> name "documents"
  func.func @step() {
    %q = fcdp.read_input @q : tensor<2x4x20x8xf16>
    %d = fcdp.read_input @documents : tensor<2x20xi64>
    %a:2 = aten.call "fcdp.packed_attention.default"(query = %q, key = %q, value = %q, documents = %d) : (tensor<2x4x20x8xf16>, tensor<2x4x20x8xf16>, tensor<2x4x20x8xf16>, tensor<2x20xi64>) -> (tensor<2x4x20x8xf16>, tensor<2x4x20xf32>)
    %l = aten.call "aten.sum.default"(self = %a#0) : (tensor<2x4x20x8xf16>) -> tensor<f16>
    fcdp.loss %l : tensor<f16>
    return
  }
}
