// On GPUs of compute capability 9.0 and 10.0 PyTorch prefers cuDNN's attention
// to the flash kernel, where both have one.
// RUN: fcdp-opt %s --split-input-file --fcdp-retarget="target=cuda compute-capability=9.0" | FileCheck %s
// RUN: fcdp-opt %s --split-input-file --fcdp-retarget="target=cuda compute-capability=10" | FileCheck %s
// RUN: fcdp-opt %s --split-input-file --fcdp-retarget="target=cuda compute-capability=8.9" | FileCheck %s --check-prefix=DONT --implicit-check-not=cudnn
// RUN: fcdp-opt %s --split-input-file --fcdp-retarget="target=cuda compute-capability=12" | FileCheck %s --check-prefix=DONT --implicit-check-not=cudnn
// The option says more than the cluster.
// RUN: fcdp-opt %s --split-input-file --fcdp-retarget="target=cuda cluster=t4 compute-capability=9.0" | FileCheck %s
// RUN: not fcdp-opt %s --split-input-file --fcdp-retarget="target=cuda compute-capability=-1" 2>&1 | FileCheck %s --check-prefix=BAD
// BAD: error: compute-capability: expected a positive number, got '-1
// DONT: _scaled_dot_product_flash_attention.default

// CHECK: %[[Q:.*]] = fcdp.read_input @q
// CHECK: %[[A:.*]]:4 = aten.call "aten._scaled_dot_product_cudnn_attention.default"(query = %[[Q]], key = %[[Q]], value = %[[Q]], attn_bias = none, compute_log_sumexp = true, dropout_p = 0.000000e+00, is_causal = true) {undefined = array<i64: 2, 3, 4, 5, 8>} : {{.*}} -> (tensor<2x4x20x8xf16>, tensor<2x4x20x1xf32>, tensor<i64>, tensor<i64>)
// CHECK: %[[G:.*]]:3 = aten.call "aten._scaled_dot_product_cudnn_attention_backward.default"(grad_out = %[[Q]], query = %[[Q]], key = %[[Q]], value = %[[Q]], out = %[[A]]#0, logsumexp = %[[A]]#1, philox_seed = %[[A]]#2, philox_offset = %[[A]]#3, attn_bias = none, cum_seq_q = none, cum_seq_k = none, max_q = 20, max_k = 20, dropout_p = 0.000000e+00, is_causal = true)
// CHECK: "aten.permute.default"(self = %[[G]]#0, dims = [0, 2, 1, 3])
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.input @q : tensor<2x4x20x8xf16> name "q"
  func.func @step() {
    %q = fcdp.read_input @q : tensor<2x4x20x8xf16>
    %a:2 = aten.call "aten._scaled_dot_product_flash_attention_for_cpu.default"(query = %q, key = %q, value = %q, dropout_p = 0.0, is_causal = true) {fcdp.dim_order = array<i64: 0, 2, 1, 3>} : (tensor<2x4x20x8xf16>, tensor<2x4x20x8xf16>, tensor<2x4x20x8xf16>) -> (tensor<2x4x20x8xf16>, tensor<2x4x20xf32>)
    %l = aten.call "aten.sum.default"(self = %a#0) : (tensor<2x4x20x8xf16>) -> tensor<f16>
    fcdp.loss %l : tensor<f16>
    %g:3 = aten.call "aten._scaled_dot_product_flash_attention_for_cpu_backward.default"(grad_out = %q, query = %q, key = %q, value = %q, out = %a#0, logsumexp = %a#1, dropout_p = 0.0, is_causal = true) : (tensor<2x4x20x8xf16>, tensor<2x4x20x8xf16>, tensor<2x4x20x8xf16>, tensor<2x4x20x8xf16>, tensor<2x4x20x8xf16>, tensor<2x4x20xf32>) -> (tensor<2x4x20x8xf16>, tensor<2x4x20x8xf16>, tensor<2x4x20x8xf16>)
    return
  }
}

// -----

// An evaluation needs no log-sum-exp.
// CHECK: "aten._scaled_dot_product_cudnn_attention.default"({{.*}}compute_log_sumexp = false
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.input @q : tensor<2x4x20x8xf16> name "q"
  func.func @step() {
    %q = fcdp.read_input @q : tensor<2x4x20x8xf16>
    %a:2 = aten.call "aten._scaled_dot_product_flash_attention_for_cpu.default"(query = %q, key = %q, value = %q, dropout_p = 0.0, is_causal = false) {fcdp.dim_order = array<i64: 0, 2, 1, 3>} : (tensor<2x4x20x8xf16>, tensor<2x4x20x8xf16>, tensor<2x4x20x8xf16>) -> (tensor<2x4x20x8xf16>, tensor<2x4x20xf32>)
    %l = aten.call "aten.sum.default"(self = %a#0) : (tensor<2x4x20x8xf16>) -> tensor<f16>
    fcdp.loss %l : tensor<f16>
    return
  }
}

// -----

// Heads of more than 128, and groups of query heads, are the flash kernel's.
// CHECK: "aten._scaled_dot_product_flash_attention.default"
// CHECK: "aten._scaled_dot_product_flash_attention.default"
// CHECK-NOT: cudnn
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.input @q : tensor<2x4x20x136xbf16> name "q"
  fcdp.input @p : tensor<2x4x20x8xbf16> name "p"
  fcdp.input @k : tensor<2x2x20x8xbf16> name "k"
  func.func @step() {
    %q = fcdp.read_input @q : tensor<2x4x20x136xbf16>
    %p = fcdp.read_input @p : tensor<2x4x20x8xbf16>
    %k = fcdp.read_input @k : tensor<2x2x20x8xbf16>
    %a:2 = aten.call "aten._scaled_dot_product_flash_attention_for_cpu.default"(query = %q, key = %q, value = %q, dropout_p = 0.0, is_causal = true) {fcdp.dim_order = array<i64: 0, 2, 1, 3>} : (tensor<2x4x20x136xbf16>, tensor<2x4x20x136xbf16>, tensor<2x4x20x136xbf16>) -> (tensor<2x4x20x136xbf16>, tensor<2x4x20xf32>)
    %b:2 = aten.call "aten._scaled_dot_product_flash_attention_for_cpu.default"(query = %p, key = %k, value = %k, dropout_p = 0.0, is_causal = true) {fcdp.dim_order = array<i64: 0, 2, 1, 3>} : (tensor<2x4x20x8xbf16>, tensor<2x2x20x8xbf16>, tensor<2x2x20x8xbf16>) -> (tensor<2x4x20x8xbf16>, tensor<2x4x20xf32>)
    %l = aten.call "aten.sum.default"(self = %a#0) : (tensor<2x4x20x136xbf16>) -> tensor<bf16>
    %m = aten.call "aten.sum.default"(self = %b#0) : (tensor<2x4x20x8xbf16>) -> tensor<bf16>
    %n = aten.call "aten.add.Tensor"(self = %l, other = %m) : (tensor<bf16>, tensor<bf16>) -> tensor<bf16>
    fcdp.loss %n : tensor<bf16>
    return
  }
}
