// PyTorch has the flash kernel for compute capability 8.0 and newer. Without a
// cluster, such a GPU is assumed.
// RUN: fcdp-opt %s --fcdp-retarget="target=cuda cluster=v100-32gb" | FileCheck %s --check-prefix=OLD
// RUN: fcdp-opt %s --fcdp-retarget="target=cuda cluster=t4" | FileCheck %s --check-prefix=OLD
// RUN: fcdp-opt %s --fcdp-retarget="target=cuda cluster=a40-rdma" | FileCheck %s --check-prefix=NEW
// RUN: fcdp-opt %s --fcdp-retarget=target=cuda | FileCheck %s --check-prefix=NEW
// RUN: not fcdp-opt %s --fcdp-retarget="target=cuda cluster=t5" 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// OLD-NOT: flash
// OLD: %[[A:.*]]:4 = aten.call "aten._scaled_dot_product_efficient_attention.default"({{.*}}attn_bias = none, compute_log_sumexp = true, dropout_p = 0.000000e+00, is_causal = true
// OLD-NOT: flash
// OLD: aten.call "aten._scaled_dot_product_efficient_attention_backward.default"
// OLD-NOT: flash
// NEW: "aten._scaled_dot_product_flash_attention.default"
// NEW: "aten._scaled_dot_product_flash_attention_backward.default"
// UNKNOWN: error: cluster: {{.*}}t5
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
