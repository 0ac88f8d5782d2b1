// RUN: fcdp-opt %s --split-input-file --fcdp-retarget=target=cuda | FileCheck %s
// RUN: fcdp-opt %s --split-input-file --fcdp-retarget=target=cuda > %t.once
// RUN: fcdp-opt %t.once --split-input-file --fcdp-retarget=target=cuda | diff %t.once -
// RUN: fcdp-opt %t.once --split-input-file --fcdp-retarget | diff %t.once -
// Without a target, or with the CPU's, nothing changes.
// RUN: fcdp-opt %s --split-input-file > %t.plain
// RUN: fcdp-opt %s --split-input-file --fcdp-retarget | diff %t.plain -
// RUN: fcdp-opt %s --split-input-file --fcdp-retarget=target=cpu | diff %t.plain -

// In half precision and without a mask, the flash kernel. Its results for dropout
// go on to the backward pass; lengths of sequences are undefined.
// CHECK: module attributes {fcdp.phase = #fcdp.phase<imported>, fcdp.target = "cuda"}
// CHECK-LABEL: func.func @step
// CHECK: %[[Q:.*]] = fcdp.read_input @q
// CHECK: "aten._to_copy.default"(self = %[[Q]], device = #aten.device<"cuda">)
// CHECK: "aten.empty.memory_format"(size = [2], device = #aten.device<"meta">)
// CHECK: %[[A:.*]]:5 = aten.call "aten._scaled_dot_product_flash_attention.default"(query = %[[Q]], key = %[[Q]], value = %[[Q]], dropout_p = 0.000000e+00, is_causal = true) {fcdp.recompute = false, undefined = array<i64: 2, 3, 4, 5>} : {{.*}} -> (tensor<2x4x20x8xbf16>, tensor<2x4x20xf32>, tensor<2xui64>, tensor<ui64>, tensor<0xbf16>)
// CHECK: aten.call "aten.sum.default"(self = %[[A]]#0)
// CHECK: %[[G:.*]]:3 = aten.call "aten._scaled_dot_product_flash_attention_backward.default"(grad_out = %[[Q]], query = %[[Q]], key = %[[Q]], value = %[[Q]], out = %[[A]]#0, logsumexp = %[[A]]#1, cum_seq_q = none, cum_seq_k = none, max_q = 20, max_k = 20, dropout_p = 0.000000e+00, is_causal = true, philox_seed = %[[A]]#2, philox_offset = %[[A]]#3)
// Gradients keep the order in memory that the CPU gives them.
// CHECK: %[[P:.*]] = aten.call "aten.permute.default"(self = %[[G]]#0, dims = [0, 2, 1, 3]) : {{.*}} -> tensor<2x20x4x8xbf16>
// CHECK: %[[C:.*]] = aten.call "aten.contiguous.default"(self = %[[P]])
// CHECK: %[[DQ:.*]] = aten.call "aten.permute.default"(self = %[[C]], dims = [0, 2, 1, 3]) : {{.*}} -> tensor<2x4x20x8xbf16>
// CHECK: "aten.add.Tensor"(self = %[[DQ]]
// CHECK-NOT: for_cpu
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.input @q : tensor<2x4x20x8xbf16> name "q"
  func.func @step() {
    %q = fcdp.read_input @q : tensor<2x4x20x8xbf16>
    %c = aten.call "aten._to_copy.default"(self = %q, device = #aten.device<"cpu">) : (tensor<2x4x20x8xbf16>) -> tensor<2x4x20x8xbf16>
    %m = aten.call "aten.empty.memory_format"(size = [2], device = #aten.device<"meta">) : () -> tensor<2xf32>
    %a:2 = aten.call "aten._scaled_dot_product_flash_attention_for_cpu.default"(query = %q, key = %q, value = %q, dropout_p = 0.0, is_causal = true) {fcdp.dim_order = array<i64: 0, 2, 1, 3>, fcdp.recompute = false} : (tensor<2x4x20x8xbf16>, tensor<2x4x20x8xbf16>, tensor<2x4x20x8xbf16>) -> (tensor<2x4x20x8xbf16>, tensor<2x4x20xf32>)
    %l = aten.call "aten.sum.default"(self = %a#0) : (tensor<2x4x20x8xbf16>) -> tensor<bf16>
    fcdp.loss %l : tensor<bf16>
    %d = aten.call "aten.detach.default"(self = %a#1) : (tensor<2x4x20xf32>) -> tensor<2x4x20xf32>
    %g:3 = aten.call "aten._scaled_dot_product_flash_attention_for_cpu_backward.default"(grad_out = %q, query = %q, key = %q, value = %q, out = %a#0, logsumexp = %d, dropout_p = 0.0, is_causal = true) : (tensor<2x4x20x8xbf16>, tensor<2x4x20x8xbf16>, tensor<2x4x20x8xbf16>, tensor<2x4x20x8xbf16>, tensor<2x4x20x8xbf16>, tensor<2x4x20xf32>) -> (tensor<2x4x20x8xbf16>, tensor<2x4x20x8xbf16>, tensor<2x4x20x8xbf16>)
    %s = aten.call "aten.add.Tensor"(self = %g#0, other = %g#1) : (tensor<2x4x20x8xbf16>, tensor<2x4x20x8xbf16>) -> tensor<2x4x20x8xbf16>
    return
  }
}

// -----

// With a mask, the memory-efficient kernel: the mask in the query's type, with
// rows of 24 elements for 20, once for two layers, and a matrix for each head;
// two heads of keys become four. The result has the CPU's order in memory.
// CHECK-LABEL: func.func @step
// CHECK: %[[MASK:.*]] = fcdp.read_input @mask
// CHECK-NEXT: %[[T:.*]] = aten.call "aten._to_copy.default"(self = %[[MASK]], dtype = f16)
// CHECK-NEXT: %[[W:.*]] = aten.call "aten.constant_pad_nd.default"(self = %[[T]], pad = [0, 4]) : (tensor<20x20xf16>) -> tensor<20x24xf16>
// CHECK-NEXT: %[[S:.*]] = aten.call "aten.slice.Tensor"(self = %[[W]], dim = 1, start = 0, end = 20) : (tensor<20x24xf16>) -> tensor<20x20xf16>
// CHECK-NEXT: %[[BIAS:.*]] = aten.call "aten.expand.default"(self = %[[S]], size = [2, 4, 20, 20])
// CHECK-NOT: constant_pad_nd
// CHECK: %[[U:.*]] = aten.call "aten.unsqueeze.default"(self = %[[K:.*]], dim = 2) : (tensor<2x2x20x8xf16>) -> tensor<2x2x1x20x8xf16>
// CHECK: %[[E:.*]] = aten.call "aten.expand.default"(self = %[[U]], size = [2, 2, 2, 20, 8])
// CHECK: %[[N:.*]] = aten.call "aten.clone.default"(self = %[[E]], memory_format = #aten.memory_format<contiguous>)
// CHECK: %[[KEY:.*]] = aten.call "aten.view.default"(self = %[[N]], size = [2, 4, 20, 8])
// CHECK: %[[VALUE:.*]] = aten.call "aten.view.default"
// CHECK: %[[A:.*]]:4 = aten.call "aten._scaled_dot_product_efficient_attention.default"(query = %[[Q:.*]], key = %[[KEY]], value = %[[VALUE]], attn_bias = %[[BIAS]], compute_log_sumexp = true, dropout_p = 0.000000e+00, is_causal = false, scale = 5.000000e-01) : {{.*}} -> (tensor<2x4x20x8xf16>, tensor<2x4x32xf32>, tensor<i64>, tensor<i64>)
// CHECK: %[[O:.*]] = aten.call "aten.contiguous.default"(self = %[[A]]#0)
// CHECK: "aten.sum.default"(self = %[[O]])
// CHECK: "aten._scaled_dot_product_efficient_attention.default"({{.*}}attn_bias = %[[BIAS]], compute_log_sumexp = false{{.*}} -> (tensor<2x4x20x8xf16>, tensor<2x4x0xf32>
// CHECK: %[[G:.*]]:3 = aten.call "aten._scaled_dot_product_efficient_attention_backward.default"(grad_out_ = %[[Q]], query = %[[Q]], key = %[[KEY]], value = %[[VALUE]], attn_bias = %[[BIAS]], out = %[[A]]#0, logsumexp = %[[A]]#1, philox_seed = %[[A]]#2, philox_offset = %[[A]]#3, dropout_p = 0.000000e+00, grad_input_mask = [true, true, true, false], is_causal = false, scale = 5.000000e-01) {undefined = array<i64: 3>}
// CHECK: %[[R:.*]] = aten.call "aten.contiguous.default"(self = %[[G]]#1)
// CHECK: %[[V:.*]] = aten.call "aten.view.default"(self = %[[R]], size = [2, 2, 2, 20, 8])
// CHECK: "aten.sum.dim_IntList"(self = %[[V]], dim = [2]) : (tensor<2x2x2x20x8xf16>) -> tensor<2x2x20x8xf16>
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.input @q : tensor<2x4x20x8xf16> name "q"
  fcdp.input @k : tensor<2x2x20x8xf16> name "k"
  fcdp.input @mask : tensor<20x20xf32> name "mask"
  func.func @step() {
    %q = fcdp.read_input @q : tensor<2x4x20x8xf16>
    %k = fcdp.read_input @k : tensor<2x2x20x8xf16>
    %mask = fcdp.read_input @mask : tensor<20x20xf32>
    %a:2 = aten.call "aten._scaled_dot_product_flash_attention_for_cpu.default"(query = %q, key = %k, value = %k, attn_mask = %mask, scale = 0.5) : (tensor<2x4x20x8xf16>, tensor<2x2x20x8xf16>, tensor<2x2x20x8xf16>, tensor<20x20xf32>) -> (tensor<2x4x20x8xf16>, tensor<2x4x20xf32>)
    %l = aten.call "aten.sum.default"(self = %a#0) : (tensor<2x4x20x8xf16>) -> tensor<f16>
    %b:2 = aten.call "aten._scaled_dot_product_flash_attention_for_cpu.default"(query = %q, key = %k, value = %k, attn_mask = %mask, scale = 0.5) : (tensor<2x4x20x8xf16>, tensor<2x2x20x8xf16>, tensor<2x2x20x8xf16>, tensor<20x20xf32>) -> (tensor<2x4x20x8xf16>, tensor<2x4x20xf32>)
    fcdp.loss %l : tensor<f16>
    %g:3 = aten.call "aten._scaled_dot_product_flash_attention_for_cpu_backward.default"(grad_out = %q, query = %q, key = %k, value = %k, out = %a#0, logsumexp = %a#1, dropout_p = 0.0, is_causal = false, attn_mask = %mask, scale = 0.5) : (tensor<2x4x20x8xf16>, tensor<2x4x20x8xf16>, tensor<2x2x20x8xf16>, tensor<2x2x20x8xf16>, tensor<2x4x20x8xf16>, tensor<2x4x20xf32>, tensor<20x20xf32>) -> (tensor<2x4x20x8xf16>, tensor<2x2x20x8xf16>, tensor<2x2x20x8xf16>)
    return
  }
}

// -----

// Heads that the kernels cannot read are padded, with the scale of the heads as
// they were; the gradient, too.
// CHECK-LABEL: func.func @step
// CHECK: %[[PQ:.*]] = aten.call "aten.constant_pad_nd.default"(self = %[[Q:.*]], pad = [0, 4]) : (tensor<1x1x16x4xf32>) -> tensor<1x1x16x8xf32>
// CHECK: %[[A:.*]]:4 = aten.call "aten._scaled_dot_product_efficient_attention.default"(query = %[[PQ]], {{.*}}attn_bias = none, {{.*}}is_causal = true, scale = 5.000000e-01)
// CHECK: %[[S:.*]] = aten.call "aten.slice.Tensor"(self = %[[A]]#0, dim = 3, start = 0, end = 4)
// CHECK: "aten.contiguous.default"(self = %[[S]])
// CHECK: %[[PG:.*]] = aten.call "aten.constant_pad_nd.default"(self = %[[Q]], pad = [0, 4])
// CHECK: %[[G:.*]]:3 = aten.call "aten._scaled_dot_product_efficient_attention_backward.default"(grad_out_ = %[[PG]], {{.*}} out = %[[A]]#0,
// CHECK: "aten.slice.Tensor"(self = %[[G]]#0, dim = 3, start = 0, end = 4)
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.input @q : tensor<1x1x16x4xf32> name "q"
  func.func @step() {
    %q = fcdp.read_input @q : tensor<1x1x16x4xf32>
    %a:2 = aten.call "aten._scaled_dot_product_flash_attention_for_cpu.default"(query = %q, key = %q, value = %q, dropout_p = 0, is_causal = true, scale = none) : (tensor<1x1x16x4xf32>, tensor<1x1x16x4xf32>, tensor<1x1x16x4xf32>) -> (tensor<1x1x16x4xf32>, tensor<1x1x16xf32>)
    %g:3 = aten.call "aten._scaled_dot_product_flash_attention_for_cpu_backward.default"(grad_out = %q, query = %q, key = %q, value = %q, out = %a#0, logsumexp = %a#1, dropout_p = 0.0, is_causal = true) : (tensor<1x1x16x4xf32>, tensor<1x1x16x4xf32>, tensor<1x1x16x4xf32>, tensor<1x1x16x4xf32>, tensor<1x1x16x4xf32>, tensor<1x1x16xf32>) -> (tensor<1x1x16x4xf32>, tensor<1x1x16x4xf32>, tensor<1x1x16x4xf32>)
    return
  }
}

// -----

// DontUseFlash: where the flash kernel would mean another mask (more keys than queries), or
// does not know the heads (above 256), the other one. A mask whose rows are
// aligned is copied as it is, after it is expanded along the keys.
// CHECK-LABEL: func.func @step
// CHECK: %[[ROW:.*]] = aten.call "aten.expand.default"(self = %{{.*}}, size = [2, 1, 16, 32]) : (tensor<2x1x16x1xbf16>) -> tensor<2x1x16x32xbf16>
// CHECK: %[[COPY:.*]] = aten.call "aten.clone.default"(self = %[[ROW]], memory_format = #aten.memory_format<contiguous>)
// CHECK: %[[BIAS:.*]] = aten.call "aten.expand.default"(self = %[[COPY]], size = [2, 2, 16, 32])
// CHECK-NOT: flash_attention
// CHECK: return
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.input @q : tensor<2x2x16x8xbf16> name "q"
  fcdp.input @k : tensor<2x2x32x8xbf16> name "k"
  fcdp.input @deep : tensor<2x2x16x264xbf16> name "deep"
  fcdp.input @mask : tensor<2x1x16x1xbf16> name "mask"
  func.func @step() {
    %q = fcdp.read_input @q : tensor<2x2x16x8xbf16>
    %k = fcdp.read_input @k : tensor<2x2x32x8xbf16>
    %deep = fcdp.read_input @deep : tensor<2x2x16x264xbf16>
    %mask = fcdp.read_input @mask : tensor<2x1x16x1xbf16>
    %a:2 = aten.call "aten._scaled_dot_product_flash_attention_for_cpu.default"(query = %q, key = %k, value = %k, is_causal = true) : (tensor<2x2x16x8xbf16>, tensor<2x2x32x8xbf16>, tensor<2x2x32x8xbf16>) -> (tensor<2x2x16x8xbf16>, tensor<2x2x16xf32>)
    %b:2 = aten.call "aten._scaled_dot_product_flash_attention_for_cpu.default"(query = %deep, key = %deep, value = %deep) : (tensor<2x2x16x264xbf16>, tensor<2x2x16x264xbf16>, tensor<2x2x16x264xbf16>) -> (tensor<2x2x16x264xbf16>, tensor<2x2x16xf32>)
    %c:2 = aten.call "aten._scaled_dot_product_flash_attention_for_cpu.default"(query = %q, key = %k, value = %k, attn_mask = %mask) : (tensor<2x2x16x8xbf16>, tensor<2x2x32x8xbf16>, tensor<2x2x32x8xbf16>, tensor<2x1x16x1xbf16>) -> (tensor<2x2x16x8xbf16>, tensor<2x2x16xf32>)
    return
  }
}

// -----

// Statistics of norms are f32 on CUDA.
// CHECK-LABEL: func.func @step
// CHECK: %[[X:.*]] = fcdp.read_input @x
// CHECK: %[[N:.*]]:3 = aten.call "aten.native_layer_norm.default"{{.*}} -> (tensor<4x8xbf16>, tensor<4x1xf32>, tensor<4x1xf32>)
// CHECK: %[[D:.*]] = aten.call "aten.detach.default"(self = %[[N]]#1) : (tensor<4x1xf32>) -> tensor<4x1xf32>
// CHECK: aten.call "aten.native_layer_norm_backward.default"({{.*}}mean = %[[D]], rstd = %[[N]]#2,
// CHECK: %[[C:.*]] = aten.call "aten._to_copy.default"(self = %[[N]]#1, dtype = bf16) : (tensor<4x1xf32>) -> tensor<4x1xbf16>
// CHECK: aten.call "aten.sum.default"(self = %[[C]]) : (tensor<4x1xbf16>) -> tensor<bf16>
// CHECK: "aten._native_batch_norm_legit_no_training.default"{{.*}} -> (tensor<4x8xbf16>, tensor<8xf32>, tensor<8xf32>)
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.input @x : tensor<4x8xbf16> name "x"
  fcdp.input @w : tensor<8xbf16> name "w"
  func.func @step() {
    %x = fcdp.read_input @x : tensor<4x8xbf16>
    %w = fcdp.read_input @w : tensor<8xbf16>
    %n:3 = aten.call "aten.native_layer_norm.default"(input = %x, normalized_shape = [8], weight = %w, bias = %w, eps = 1.0e-5) : (tensor<4x8xbf16>, tensor<8xbf16>, tensor<8xbf16>) -> (tensor<4x8xbf16>, tensor<4x1xbf16>, tensor<4x1xbf16>)
    %d = aten.call "aten.detach.default"(self = %n#1) : (tensor<4x1xbf16>) -> tensor<4x1xbf16>
    %g:3 = aten.call "aten.native_layer_norm_backward.default"(grad_out = %x, input = %x, normalized_shape = [8], mean = %d, rstd = %n#2, weight = %w, bias = %w, output_mask = [true, true, true]) : (tensor<4x8xbf16>, tensor<4x8xbf16>, tensor<4x1xbf16>, tensor<4x1xbf16>, tensor<8xbf16>, tensor<8xbf16>) -> (tensor<4x8xbf16>, tensor<8xbf16>, tensor<8xbf16>)
    %l = aten.call "aten.sum.default"(self = %n#1) : (tensor<4x1xbf16>) -> tensor<bf16>
    %b:3 = aten.call "aten._native_batch_norm_legit_no_training.default"(input = %x, weight = %w, bias = %w, running_mean = %w, running_var = %w, momentum = 0.1, eps = 1.0e-5) : (tensor<4x8xbf16>, tensor<8xbf16>, tensor<8xbf16>, tensor<8xbf16>, tensor<8xbf16>) -> (tensor<4x8xbf16>, tensor<0xbf16>, tensor<0xbf16>)
    fcdp.loss %l : tensor<bf16>
    return
  }
}
