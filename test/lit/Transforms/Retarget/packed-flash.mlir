// Attention by documents becomes the flash kernel over sequences, whose bounds
// are computed on the device, where the documents of a row are one after
// another by the way in which they are computed.
//
// RUN: fcdp-opt %s --split-input-file --fcdp-retarget=target=cuda | FileCheck %s
// RUN: fcdp-opt %s --split-input-file --fcdp-retarget="target=cuda compute-capability=7.5" | FileCheck %s --check-prefix=OLD

// OLD-NOT: flash
// OLD: aten.call "aten._scaled_dot_product_efficient_attention.default"
// OLD-NOT: flash

// Each token may be a document, so documents of fewer than 128 tokens are left to
// blocks, under a mask: 512 tokens have four sequences at the most. Layers share
// the bounds and the mask.
// CHECK-LABEL: func.func @step
// CHECK-DAG: %[[NUMBERS:.*]] = aten.call "aten.cumsum.default"(self = %{{.*}}, dim = 0) : (tensor<512xi1>) -> tensor<512xi64>
// CHECK: %[[COUNTS:.*]] = aten.call "aten.scatter_add.default"({{.*}}index = %[[NUMBERS]]
// CHECK: %[[LENGTHS:.*]] = aten.call "aten.gather.default"(self = %[[COUNTS]], dim = 0, index = %[[NUMBERS]])
// CHECK: %[[LONG:.*]] = aten.call "aten.ge.Scalar"(self = %[[LENGTHS]], other = 128)
// CHECK: %[[FIRSTS:.*]] = aten.call "aten.where.self"(condition = %[[LONG]],
// CHECK: %[[SEQUENCES:.*]] = aten.call "aten.cumsum.default"(self = %[[FIRSTS]], dim = 0)
// CHECK: %[[BOUNDS:.*]] = aten.call "aten.sum.dim_IntList"({{.*}}dim = [1], dtype = i32) : (tensor<5x512xi1>) -> tensor<5xi32>
// CHECK: %[[WHERE:.*]] = aten.call "aten.view.default"(self = %[[LONG]], size = [512, 1, 1])
// CHECK: %[[F:.*]]:5 = aten.call "aten._flash_attention_forward.default"({{.*}}cum_seq_q = %[[BOUNDS]], cum_seq_k = %[[BOUNDS]], max_q = 512, max_k = 512, dropout_p = 0.000000e+00, is_causal = true, return_debug_mask = false) : {{.*}} -> (tensor<512x4x8xf16>, tensor<4x512xf32>, tensor<2xui64>, tensor<ui64>, tensor<0xf16>)
// CHECK: %[[BIAS:.*]] = aten.call "aten.where.self"({{.*}} -> tensor<4x1x128x256xf16>
// CHECK: %[[EACH:.*]] = aten.call "aten.expand.default"(self = %[[BIAS]], size = [4, 4, 128, 256])
// CHECK: aten.call "aten.unfold.default"({{.*}}dimension = 0, size = 256, step = 128) : (tensor<640x4x8xf16>) -> tensor<4x4x8x256xf16>
// CHECK: aten.call "aten._scaled_dot_product_efficient_attention.default"({{.*}}attn_bias = %[[EACH]], compute_log_sumexp = false, dropout_p = 0.000000e+00, is_causal = false) : {{.*}} -> (tensor<4x4x128x8xf16>, tensor<4x4x0xf32>
// CHECK: aten.call "aten.where.self"(condition = %[[WHERE]], self = %[[F]]#0, other = %{{.*}}) : {{.*}} -> tensor<512x4x8xf16>
// CHECK-NOT: aten.cumsum
// CHECK: %[[G:.*]]:5 = aten.call "aten._flash_attention_forward.default"({{.*}}cum_seq_q = %[[BOUNDS]]
// CHECK: aten.call "aten._scaled_dot_product_efficient_attention.default"({{.*}}compute_log_sumexp = true
// CHECK: fcdp.loss
// Short documents have no gradient by the flash kernel, and long ones none by
// the blocks.
// CHECK: %[[OF_LONG:.*]] = aten.call "aten.where.self"(condition = %[[WHERE]], self = %{{.*}}, other = %[[ZERO:[^)]*]])
// CHECK: aten.call "aten._flash_attention_backward.default"(grad_out = %[[OF_LONG]], {{.*}}logsumexp = %[[G]]#1, cum_seq_q = %[[BOUNDS]], cum_seq_k = %[[BOUNDS]], max_q = 512, max_k = 512, dropout_p = 0.000000e+00, is_causal = true, rng_state = %[[G]]#2, unused = %[[G]]#3)
// CHECK: aten.call "aten.where.self"(condition = %[[WHERE]], self = %[[ZERO]],
// CHECK: aten.call "aten._scaled_dot_product_efficient_attention_backward.default"(
// The keys of a block get the gradient of the next block, too.
// CHECK: aten.call "aten.constant_pad_nd.default"({{.*}}pad = [0, 0, 0, 0, -128, 128]
// CHECK-NOT: packed_attention
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.input @q : tensor<1x4x512x8xf16> name "q"
  fcdp.input @flags : tensor<1x512xi1> name "flags"
  func.func @step() {
    %q = fcdp.read_input @q : tensor<1x4x512x8xf16>
    %flags = fcdp.read_input @flags : tensor<1x512xi1>
    %d = aten.call "aten.cumsum.default"(self = %flags, dim = -1) : (tensor<1x512xi1>) -> tensor<1x512xi64>
    %a:2 = aten.call "fcdp.packed_attention.default"(query = %q, key = %q, value = %q, documents = %d) {fcdp.dim_order = array<i64: 0, 2, 1, 3>} : (tensor<1x4x512x8xf16>, tensor<1x4x512x8xf16>, tensor<1x4x512x8xf16>, tensor<1x512xi64>) -> (tensor<1x4x512x8xf16>, tensor<1x4x512xf32>)
    %b:2 = aten.call "fcdp.packed_attention.default"(query = %a#0, key = %a#0, value = %a#0, documents = %d) {fcdp.dim_order = array<i64: 0, 2, 1, 3>} : (tensor<1x4x512x8xf16>, tensor<1x4x512x8xf16>, tensor<1x4x512x8xf16>, tensor<1x512xi64>) -> (tensor<1x4x512x8xf16>, tensor<1x4x512xf32>)
    %l = aten.call "aten.sum.default"(self = %b#0) : (tensor<1x4x512x8xf16>) -> tensor<f16>
    fcdp.loss %l : tensor<f16>
    %g:3 = aten.call "fcdp.packed_attention_backward.default"(grad_out = %q, query = %q, key = %q, value = %q, out = %b#0, logsumexp = %b#1, documents = %d) : (tensor<1x4x512x8xf16>, tensor<1x4x512x8xf16>, tensor<1x4x512x8xf16>, tensor<1x4x512x8xf16>, tensor<1x4x512x8xf16>, tensor<1x4x512xf32>, tensor<1x512xi64>) -> (tensor<1x4x512x8xf16>, tensor<1x4x512x8xf16>, tensor<1x4x512x8xf16>)
    %s = aten.call "aten.add.Tensor"(self = %g#0, other = %g#1) : (tensor<1x4x512x8xf16>, tensor<1x4x512x8xf16>) -> tensor<1x4x512x8xf16>
    return
  }
}

// -----

// Bounds in an input of fixed size: each document is a sequence, three in each
// of two rows. A scale is kept.
// CHECK-LABEL: func.func @step
// CHECK-NOT: aten.scatter_add
// CHECK: %[[BOUNDS:.*]] = aten.call "aten.sum.dim_IntList"({{.*}}) : (tensor<7x400xi1>) -> tensor<7xi32>
// CHECK: aten.call "aten._flash_attention_forward.default"({{.*}}cum_seq_q = %[[BOUNDS]], {{.*}}max_q = 200, max_k = 200, {{.*}}scale = 5.000000e-01)
// CHECK-NOT: efficient
// CHECK: return
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.input @q : tensor<2x4x200x8xbf16> name "q"
  fcdp.input @bounds : tensor<2xi64> name "bounds"
  func.func @step() {
    %q = fcdp.read_input @q : tensor<2x4x200x8xbf16>
    %bounds = fcdp.read_input @bounds : tensor<2xi64>
    %r = aten.call "aten.arange.default"(end = 200, device = #aten.device<"cpu">) : () -> tensor<200xi64>
    %f = aten.call "aten.searchsorted.Tensor"(sorted_sequence = %bounds, self = %r, right = true) : (tensor<2xi64>, tensor<200xi64>) -> tensor<200xi64>
    %u = aten.call "aten.unsqueeze.default"(self = %f, dim = 0) : (tensor<200xi64>) -> tensor<1x200xi64>
    %d = aten.call "aten.expand.default"(self = %u, size = [2, -1]) : (tensor<1x200xi64>) -> tensor<2x200xi64>
    %a:2 = aten.call "fcdp.packed_attention.default"(query = %q, key = %q, value = %q, documents = %d, scale = 0.5) {fcdp.dim_order = array<i64: 0, 2, 1, 3>} : (tensor<2x4x200x8xbf16>, tensor<2x4x200x8xbf16>, tensor<2x4x200x8xbf16>, tensor<2x200xi64>) -> (tensor<2x4x200x8xbf16>, tensor<2x4x200xf32>)
    %l = aten.call "aten.sum.default"(self = %a#0) : (tensor<2x4x200x8xbf16>) -> tensor<bf16>
    fcdp.loss %l : tensor<bf16>
    return
  }
}

// -----

// Positions whose steps make the documents, as Transformers computes them.
// CHECK-LABEL: func.func @step
// CHECK: aten.call "aten._flash_attention_forward.default"(
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.input @q : tensor<1x4x512x8xf16> name "q"
  fcdp.input @p : tensor<1x512xi64> name "p"
  func.func @step() {
    %q = fcdp.read_input @q : tensor<1x4x512x8xf16>
    %p = fcdp.read_input @p : tensor<1x512xi64>
    %s = aten.call "aten.slice.Tensor"(self = %p, dim = 1, start = 0, end = 1) : (tensor<1x512xi64>) -> tensor<1x1xi64>
    %m = aten.call "aten.sub.Tensor"(self = %s, other = 1) : (tensor<1x1xi64>) -> tensor<1x1xi64>
    %c = aten.call "aten.cat.default"(tensors = [%m, %p], dim = -1) : (tensor<1x1xi64>, tensor<1x512xi64>) -> tensor<1x513xi64>
    %x = aten.call "aten.slice.Tensor"(self = %c, dim = -1, start = 0, end = 512) : (tensor<1x513xi64>) -> tensor<1x512xi64>
    %y = aten.call "aten.slice.Tensor"(self = %c, dim = -1, start = 1, end = 513) : (tensor<1x513xi64>) -> tensor<1x512xi64>
    %z = aten.call "aten.sub.Tensor"(self = %y, other = %x) : (tensor<1x512xi64>, tensor<1x512xi64>) -> tensor<1x512xi64>
    %n = aten.call "aten.ne.Scalar"(self = %z, other = 1) : (tensor<1x512xi64>) -> tensor<1x512xi1>
    %d = aten.call "aten.cumsum.default"(self = %n, dim = -1) : (tensor<1x512xi1>) -> tensor<1x512xi64>
    %a:2 = aten.call "fcdp.packed_attention.default"(query = %q, key = %q, value = %q, documents = %d, positions = %p) {fcdp.dim_order = array<i64: 0, 2, 1, 3>} : (tensor<1x4x512x8xf16>, tensor<1x4x512x8xf16>, tensor<1x4x512x8xf16>, tensor<1x512xi64>, tensor<1x512xi64>) -> (tensor<1x4x512x8xf16>, tensor<1x4x512xf32>)
    %l = aten.call "aten.sum.default"(self = %a#0) : (tensor<1x4x512x8xf16>) -> tensor<f16>
    fcdp.loss %l : tensor<f16>
    return
  }
}

// -----

// DontOtherPositions: they need not grow within these documents.
// CHECK-LABEL: func.func @step
// CHECK-NOT: _flash_attention
// CHECK: aten.call "aten._scaled_dot_product_efficient_attention.default"(
// CHECK-NOT: _flash_attention
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.input @q : tensor<1x4x512x8xf16> name "q"
  fcdp.input @p : tensor<1x512xi64> name "p"
  fcdp.input @o : tensor<1x512xi64> name "o"
  func.func @step() {
    %q = fcdp.read_input @q : tensor<1x4x512x8xf16>
    %p = fcdp.read_input @p : tensor<1x512xi64>
    %o = fcdp.read_input @o : tensor<1x512xi64>
    %s = aten.call "aten.slice.Tensor"(self = %p, dim = 1, start = 0, end = 1) : (tensor<1x512xi64>) -> tensor<1x1xi64>
    %m = aten.call "aten.sub.Tensor"(self = %s, other = 1) : (tensor<1x1xi64>) -> tensor<1x1xi64>
    %c = aten.call "aten.cat.default"(tensors = [%m, %p], dim = -1) : (tensor<1x1xi64>, tensor<1x512xi64>) -> tensor<1x513xi64>
    %x = aten.call "aten.slice.Tensor"(self = %c, dim = -1, start = 0, end = 512) : (tensor<1x513xi64>) -> tensor<1x512xi64>
    %y = aten.call "aten.slice.Tensor"(self = %c, dim = -1, start = 1, end = 513) : (tensor<1x513xi64>) -> tensor<1x512xi64>
    %z = aten.call "aten.sub.Tensor"(self = %y, other = %x) : (tensor<1x512xi64>, tensor<1x512xi64>) -> tensor<1x512xi64>
    %n = aten.call "aten.ne.Scalar"(self = %z, other = 1) : (tensor<1x512xi64>) -> tensor<1x512xi1>
    %d = aten.call "aten.cumsum.default"(self = %n, dim = -1) : (tensor<1x512xi1>) -> tensor<1x512xi64>
    %a:2 = aten.call "fcdp.packed_attention.default"(query = %q, key = %q, value = %q, documents = %d, positions = %o) {fcdp.dim_order = array<i64: 0, 2, 1, 3>} : (tensor<1x4x512x8xf16>, tensor<1x4x512x8xf16>, tensor<1x4x512x8xf16>, tensor<1x512xi64>, tensor<1x512xi64>) -> (tensor<1x4x512x8xf16>, tensor<1x4x512xf32>)
    %l = aten.call "aten.sum.default"(self = %a#0) : (tensor<1x4x512x8xf16>) -> tensor<f16>
    fcdp.loss %l : tensor<f16>
    return
  }
}

// -----

// DontUnorderedDocuments: an input may have any values.
// CHECK-LABEL: func.func @step
// CHECK-NOT: _flash_attention
// CHECK: aten.call "aten._scaled_dot_product_efficient_attention.default"(
// CHECK-NOT: _flash_attention
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.input @q : tensor<1x4x512x8xf16> name "q"
  fcdp.input @d : tensor<1x512xi64> name "d"
  func.func @step() {
    %q = fcdp.read_input @q : tensor<1x4x512x8xf16>
    %d = fcdp.read_input @d : tensor<1x512xi64>
    %a:2 = aten.call "fcdp.packed_attention.default"(query = %q, key = %q, value = %q, documents = %d) {fcdp.dim_order = array<i64: 0, 2, 1, 3>} : (tensor<1x4x512x8xf16>, tensor<1x4x512x8xf16>, tensor<1x4x512x8xf16>, tensor<1x512xi64>) -> (tensor<1x4x512x8xf16>, tensor<1x4x512xf32>)
    %l = aten.call "aten.sum.default"(self = %a#0) : (tensor<1x4x512x8xf16>) -> tensor<f16>
    fcdp.loss %l : tensor<f16>
    return
  }
}

// -----

// DontFloat32.
// CHECK-LABEL: func.func @step
// CHECK-NOT: _flash_attention
// CHECK: aten.call "aten._scaled_dot_product_efficient_attention.default"(
// CHECK-NOT: _flash_attention
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.input @q : tensor<1x4x512x8xf32> name "q"
  fcdp.input @flags : tensor<1x512xi1> name "flags"
  func.func @step() {
    %q = fcdp.read_input @q : tensor<1x4x512x8xf32>
    %flags = fcdp.read_input @flags : tensor<1x512xi1>
    %d = aten.call "aten.cumsum.default"(self = %flags, dim = -1) : (tensor<1x512xi1>) -> tensor<1x512xi64>
    %a:2 = aten.call "fcdp.packed_attention.default"(query = %q, key = %q, value = %q, documents = %d) {fcdp.dim_order = array<i64: 0, 2, 1, 3>} : (tensor<1x4x512x8xf32>, tensor<1x4x512x8xf32>, tensor<1x4x512x8xf32>, tensor<1x512xi64>) -> (tensor<1x4x512x8xf32>, tensor<1x4x512xf32>)
    %l = aten.call "aten.sum.default"(self = %a#0) : (tensor<1x4x512x8xf32>) -> tensor<f32>
    fcdp.loss %l : tensor<f32>
    return
  }
}

// -----

// DontOddDepth.
// CHECK-LABEL: func.func @step
// CHECK-NOT: _flash_attention
// CHECK: aten.call "aten._scaled_dot_product_efficient_attention.default"(
// CHECK-NOT: _flash_attention
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.input @q : tensor<1x4x512x12xf16> name "q"
  fcdp.input @flags : tensor<1x512xi1> name "flags"
  func.func @step() {
    %q = fcdp.read_input @q : tensor<1x4x512x12xf16>
    %flags = fcdp.read_input @flags : tensor<1x512xi1>
    %d = aten.call "aten.cumsum.default"(self = %flags, dim = -1) : (tensor<1x512xi1>) -> tensor<1x512xi64>
    %a:2 = aten.call "fcdp.packed_attention.default"(query = %q, key = %q, value = %q, documents = %d) {fcdp.dim_order = array<i64: 0, 2, 1, 3>} : (tensor<1x4x512x12xf16>, tensor<1x4x512x12xf16>, tensor<1x4x512x12xf16>, tensor<1x512xi64>) -> (tensor<1x4x512x12xf16>, tensor<1x4x512xf32>)
    %l = aten.call "aten.sum.default"(self = %a#0) : (tensor<1x4x512x12xf16>) -> tensor<f16>
    fcdp.loss %l : tensor<f16>
    return
  }
}

// -----

// DontShortRow: the blocks would be most of it.
// CHECK-LABEL: func.func @step
// CHECK-NOT: _flash_attention
// CHECK: aten.call "aten._scaled_dot_product_efficient_attention.default"(
// CHECK-NOT: _flash_attention
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.input @q : tensor<1x4x384x8xf16> name "q"
  fcdp.input @flags : tensor<1x384xi1> name "flags"
  func.func @step() {
    %q = fcdp.read_input @q : tensor<1x4x384x8xf16>
    %flags = fcdp.read_input @flags : tensor<1x384xi1>
    %d = aten.call "aten.cumsum.default"(self = %flags, dim = -1) : (tensor<1x384xi1>) -> tensor<1x384xi64>
    %a:2 = aten.call "fcdp.packed_attention.default"(query = %q, key = %q, value = %q, documents = %d) {fcdp.dim_order = array<i64: 0, 2, 1, 3>} : (tensor<1x4x384x8xf16>, tensor<1x4x384x8xf16>, tensor<1x4x384x8xf16>, tensor<1x384xi64>) -> (tensor<1x4x384x8xf16>, tensor<1x4x384xf32>)
    %l = aten.call "aten.sum.default"(self = %a#0) : (tensor<1x4x384x8xf16>) -> tensor<f16>
    fcdp.loss %l : tensor<f16>
    return
  }
}

// -----

// DontManyBounds: the backward pass takes memory for each.
// CHECK-LABEL: func.func @step
// CHECK-NOT: _flash_attention
// CHECK: aten.call "aten._scaled_dot_product_efficient_attention.default"(
// CHECK-NOT: _flash_attention
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.input @q : tensor<2x4x200x8xbf16> name "q"
  fcdp.input @bounds : tensor<9xi64> name "bounds"
  func.func @step() {
    %q = fcdp.read_input @q : tensor<2x4x200x8xbf16>
    %bounds = fcdp.read_input @bounds : tensor<9xi64>
    %r = aten.call "aten.arange.default"(end = 200, device = #aten.device<"cpu">) : () -> tensor<200xi64>
    %f = aten.call "aten.searchsorted.Tensor"(sorted_sequence = %bounds, self = %r, right = true) : (tensor<9xi64>, tensor<200xi64>) -> tensor<200xi64>
    %u = aten.call "aten.unsqueeze.default"(self = %f, dim = 0) : (tensor<200xi64>) -> tensor<1x200xi64>
    %d = aten.call "aten.expand.default"(self = %u, size = [2, -1]) : (tensor<1x200xi64>) -> tensor<2x200xi64>
    %a:2 = aten.call "fcdp.packed_attention.default"(query = %q, key = %q, value = %q, documents = %d) {fcdp.dim_order = array<i64: 0, 2, 1, 3>} : (tensor<2x4x200x8xbf16>, tensor<2x4x200x8xbf16>, tensor<2x4x200x8xbf16>, tensor<2x200xi64>) -> (tensor<2x4x200x8xbf16>, tensor<2x4x200xf32>)
    %l = aten.call "aten.sum.default"(self = %a#0) : (tensor<2x4x200x8xbf16>) -> tensor<bf16>
    fcdp.loss %l : tensor<bf16>
    return
  }
}

// -----

// DontOtherBackward: a backward pass with other documents.
// CHECK-LABEL: func.func @step
// CHECK-NOT: _flash_attention
// CHECK: aten.call "aten._scaled_dot_product_efficient_attention.default"(
// CHECK-NOT: _flash_attention
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.input @q : tensor<1x4x512x8xf16> name "q"
  fcdp.input @flags : tensor<1x512xi1> name "flags"
  func.func @step() {
    %q = fcdp.read_input @q : tensor<1x4x512x8xf16>
    %flags = fcdp.read_input @flags : tensor<1x512xi1>
    %d = aten.call "aten.cumsum.default"(self = %flags, dim = -1) : (tensor<1x512xi1>) -> tensor<1x512xi64>
    %e = aten.call "aten.cumsum.default"(self = %flags, dim = -1) : (tensor<1x512xi1>) -> tensor<1x512xi64>
    %a:2 = aten.call "fcdp.packed_attention.default"(query = %q, key = %q, value = %q, documents = %d) {fcdp.dim_order = array<i64: 0, 2, 1, 3>} : (tensor<1x4x512x8xf16>, tensor<1x4x512x8xf16>, tensor<1x4x512x8xf16>, tensor<1x512xi64>) -> (tensor<1x4x512x8xf16>, tensor<1x4x512xf32>)
    %l = aten.call "aten.sum.default"(self = %a#0) : (tensor<1x4x512x8xf16>) -> tensor<f16>
    fcdp.loss %l : tensor<f16>
    %t = aten.call "aten.detach.default"(self = %a#1) : (tensor<1x4x512xf32>) -> tensor<1x4x512xf32>
    %g:3 = aten.call "fcdp.packed_attention_backward.default"(grad_out = %q, query = %q, key = %q, value = %q, out = %a#0, logsumexp = %a#1, documents = %d) : (tensor<1x4x512x8xf16>, tensor<1x4x512x8xf16>, tensor<1x4x512x8xf16>, tensor<1x4x512x8xf16>, tensor<1x4x512x8xf16>, tensor<1x4x512xf32>, tensor<1x512xi64>) -> (tensor<1x4x512x8xf16>, tensor<1x4x512x8xf16>, tensor<1x4x512x8xf16>)
    %w:3 = aten.call "fcdp.packed_attention_backward.default"(grad_out = %q, query = %q, key = %q, value = %q, out = %a#0, logsumexp = %t, documents = %e) : (tensor<1x4x512x8xf16>, tensor<1x4x512x8xf16>, tensor<1x4x512x8xf16>, tensor<1x4x512x8xf16>, tensor<1x4x512x8xf16>, tensor<1x4x512xf32>, tensor<1x512xi64>) -> (tensor<1x4x512x8xf16>, tensor<1x4x512x8xf16>, tensor<1x4x512x8xf16>)
    return
  }
}
