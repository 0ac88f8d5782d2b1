// Losses with fewer rows than the product, and losses that a gather picks, become a loss for each row of the product.
// RUN: split-file %s %t

// The last word of each row of 16 is sliced off: it has no label, and no gradient. The loss is reduced as the whole is.
// RUN: fcdp-opt %t/sliced.mlir --fcdp-chunk-loss=loss-chunk=16 | FileCheck %s --check-prefix=SLICED
// SLICED: %[[Y:.*]] = fcdp.read_input @y
// SLICED: %[[ONE:.*]] = aten.call "aten.new_ones.default"
// SLICED-NEXT: %[[IGNORED:.*]] = aten.call "aten.eq.Scalar"(self = %[[Y]], other = -100)
// SLICED-NEXT: %[[CLASSES:.*]] = aten.call "aten.mul.Tensor"(self = %[[IGNORED]], other = -100)
// SLICED-NEXT: %[[YV:.*]] = aten.call "aten.view.default"(self = %[[Y]], size = [2, 15])
// SLICED-NEXT: %[[YF:.*]] = aten.call "aten.new_full.default"(self = %[[YV]], size = [2, 16], fill_value = -100)
// SLICED-NEXT: %[[YS:.*]] = aten.call "aten.slice_scatter.default"(self = %[[YF]], src = %[[YV]], dim = 1, start = 0, end = 15, step = 1)
// SLICED-NEXT: %[[LABELS:.*]] = aten.call "aten.view.default"(self = %[[YS]], size = [32])
// SLICED-NEXT: %[[ZEROS:.*]] = aten.call "aten.new_zeros.default"(self = %[[ONE]], size = [30, 1])
// SLICED-NEXT: %[[COUNT:.*]]:2 = aten.call "aten.nll_loss_forward.default"(self = %[[ZEROS]], target = %[[CLASSES]], weight = none, reduction = 1, ignore_index = -100)
// SLICED-NEXT: %[[G:.*]] = aten.call "aten.div.Tensor"(self = %[[ONE]], other = %[[COUNT]]#1)
// SLICED-NEXT: aten.call "aten.expand.default"(self = %[[G]], size = [30])
// SLICED: %[[GS:.*]] = aten.call "aten.slice_scatter.default"({{.*}}) : (tensor<2x16xf32>, tensor<2x15xf32>)
// SLICED-NEXT: %[[GV:.*]] = aten.call "aten.view.default"(self = %[[GS]], size = [32])
// SLICED-NEXT: %[[L:.*]]:5 = aten.call "fcdp.chunked_loss.default"({{.*}}labels = %[[LABELS]], gradient = %[[GV]], {{.*}}reduction = 0, ignore_index = -100,
// SLICED-NEXT: %[[LV:.*]] = aten.call "aten.view.default"(self = %[[L]]#0, size = [2, 16])
// SLICED-NEXT: %[[LS:.*]] = aten.call "aten.slice.Tensor"(self = %[[LV]], dim = 1, start = 0, end = 15, step = 1)
// SLICED: %[[LOSS:.*]]:2 = aten.call "aten.nll_loss_forward.default"({{.*}}target = %[[CLASSES]], weight = none, reduction = 1, ignore_index = -100)
// SLICED-NEXT: fcdp.loss %[[LOSS]]#0
// SLICED-NEXT: fcdp.gradient %[[L]]#2 of @x
// SLICED-NEXT: fcdp.gradient %[[L]]#3 of @w

// A gather ignores no label. Negated log-probabilities have negated sums.
// RUN: fcdp-opt %t/gathered.mlir --fcdp-chunk-loss=loss-chunk=16 | FileCheck %s --check-prefix=GATHERED
// GATHERED: %[[S:.*]] = aten.call "aten.neg.default"(self = %{{.*}}) : (tensor<2x16xf32>)
// GATHERED: %[[L:.*]]:5 = aten.call "fcdp.chunked_loss.default"({{.*}}sum_gradient = %{{[^ ]*}}, rows = 16, steps = "", factors = [], reduction = 0, ignore_index = none, sums = true, output_mask = [true, false, false]
// GATHERED-NEXT: %[[LV:.*]] = aten.call "aten.view.default"(self = %[[L]]#2, size = [2, 16])
// GATHERED-NEXT: aten.call "aten.neg.default"(self = %[[LV]])
// GATHERED-NOT: aten.gather
// GATHERED-NOT: aten.scatter_add
// GATHERED: fcdp.gradient %[[L]]#3 of @x

// Both have their proofs.
// RUN: fcdp-opt %t/sliced.mlir --fcdp-pipeline="nodes=2 loss-chunk=16 loss-scale=on" | grep -c fcdp.chunked_loss
// RUN: fcdp-opt %t/gathered.mlir --fcdp-pipeline="nodes=2 micro-batches=2 loss-chunk=16 loss-weight=y remat=unit" | grep -c fcdp.chunked_loss

// In a model in bf16, the gradient of the weight is computed by blocks of classes.
// RUN: fcdp-opt %t/narrow.mlir --fcdp-chunk-loss=loss-chunk=16,blocks --remarks-filter="fcdp-chunk-loss" --remark-format=emitRemark -o %t/blocks.mlir 2>&1 | FileCheck %s --check-prefix=BLOCKS
// BLOCKS: 2 chunks of 16 rows need {{.*}}, and the gradient of their weight is computed in 2 blocks of 256 classes
// RUN: grep -c "block = 256" %t/blocks.mlir
// RUN: fcdp-opt %t/narrow.mlir --fcdp-chunk-loss=loss-chunk=16,sum | grep -c 'workspace = .*) {fcdp.recompute'
// RUN: fcdp-opt %t/narrow.mlir --fcdp-pipeline="nodes=2 loss-chunk=16,blocks" | grep -c 'block = 256'

// DEFINE: %{why} = fcdp-opt --fcdp-chunk-loss=loss-chunk=16 --remarks-filter="fcdp-chunk-loss" --remark-format=emitRemark -o /dev/null 2>&1
// RUN: sed 's/start = 0, end = 15, step = 1) : (tensor<2x15x8/start = 1, end = 16, step = 1) : (tensor<2x15x8/' %t/sliced.mlir | %{why} | FileCheck %s --check-prefix=SHIFTED
// SHIFTED: the loss stays whole: its backward pass is not that of its logits
// RUN: sed 's/index = %q, src/index = %o, src/' %t/gathered.mlir | %{why} | FileCheck %s --check-prefix=INDEX
// INDEX: the loss stays whole: its backward pass has other arguments than the loss
// RUN: sed '/%dn = /d; s/grad_output = %dn,/grad_output = %da,/' %t/gathered.mlir | %{why} | FileCheck %s --check-prefix=SIGN
// SIGN: the loss stays whole: another gradient is added to that of its log-probabilities
// RUN: sed 's/aten.gather.default"(self = %n, dim = -1/aten.gather.default"(self = %n, dim = 1/' %t/gathered.mlir | %{why} | FileCheck %s --check-prefix=DIM
// DIM: the loss stays whole: its gather does not pick one class of each row
// RUN: sed 's/^.*%k = /    %ee = aten.call "aten.exp.default"(self = %n) : (tensor<2x16x8xf32>) -> tensor<2x16x8xf32>\n&/' %t/gathered.mlir | %{why} | FileCheck %s --check-prefix=ENTROPY
// ENTROPY: the loss stays whole: its logits have another user, 'aten.exp.default'

//--- sliced.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @x : tensor<32x4xf32> unit "body" trainable names ["x"]
  fcdp.parameter @w : tensor<8x4xf32> unit "head" trainable names ["w"]
  fcdp.input @y : tensor<30xi64> name "y"
  func.func @step() {
    %x = fcdp.read_parameter @x : tensor<32x4xf32>
    %w = fcdp.read_parameter @w : tensor<8x4xf32>
    %y = fcdp.read_input @y : tensor<30xi64>
    %t = aten.call "aten.t.default"(self = %w) : (tensor<8x4xf32>) -> tensor<4x8xf32>
    %z = aten.call "aten.mm.default"(self = %x, mat2 = %t) : (tensor<32x4xf32>, tensor<4x8xf32>) -> tensor<32x8xf32>
    %v = aten.call "aten._unsafe_view.default"(self = %z, size = [2, 16, 8]) : (tensor<32x8xf32>) -> tensor<2x16x8xf32>
    %s = aten.call "aten.slice.Tensor"(self = %v, dim = 1, start = 0, end = -1) : (tensor<2x16x8xf32>) -> tensor<2x15x8xf32>
    %a = aten.call "aten.slice.Tensor"(self = %s, dim = 2, start = 0, end = 9223372036854775807) : (tensor<2x15x8xf32>) -> tensor<2x15x8xf32>
    %c = aten.call "aten.clone.default"(self = %a, memory_format = #aten.memory_format<contiguous>) : (tensor<2x15x8xf32>) -> tensor<2x15x8xf32>
    %u = aten.call "aten._unsafe_view.default"(self = %c, size = [30, 8]) : (tensor<2x15x8xf32>) -> tensor<30x8xf32>
    %p = aten.call "aten._log_softmax.default"(self = %u, dim = 1, half_to_float = false) : (tensor<30x8xf32>) -> tensor<30x8xf32>
    %d = aten.call "aten.detach.default"(self = %p) : (tensor<30x8xf32>) -> tensor<30x8xf32>
    %l:2 = aten.call "aten.nll_loss_forward.default"(self = %p, target = %y, weight = none, reduction = 1, ignore_index = -100) : (tensor<30x8xf32>, tensor<30xi64>) -> (tensor<f32>, tensor<f32>)
    %one = aten.call "aten.ones_like.default"(self = %l#0) : (tensor<f32>) -> tensor<f32>
    %dp = aten.call "aten.nll_loss_backward.default"(grad_output = %one, self = %p, target = %y, weight = none, reduction = 1, ignore_index = -100, total_weight = %l#1) : (tensor<f32>, tensor<30x8xf32>, tensor<30xi64>, tensor<f32>) -> tensor<30x8xf32>
    %du = aten.call "aten._log_softmax_backward_data.default"(grad_output = %dp, output = %d, dim = 1, input_dtype = f32) : (tensor<30x8xf32>, tensor<30x8xf32>) -> tensor<30x8xf32>
    %dc = aten.call "aten.view.default"(self = %du, size = [2, 15, 8]) : (tensor<30x8xf32>) -> tensor<2x15x8xf32>
    %db = aten.call "aten.slice_backward.default"(grad_output = %dc, input_sizes = [2, 15, 8], dim = 2, start = 0, end = 9223372036854775807, step = 1) : (tensor<2x15x8xf32>) -> tensor<2x15x8xf32>
    %ds = aten.call "aten.slice_backward.default"(grad_output = %db, input_sizes = [2, 16, 8], dim = 1, start = 0, end = 15, step = 1) : (tensor<2x15x8xf32>) -> tensor<2x16x8xf32>
    %dz = aten.call "aten.view.default"(self = %ds, size = [32, 8]) : (tensor<2x16x8xf32>) -> tensor<32x8xf32>
    %dt = aten.call "aten.t.default"(self = %dz) : (tensor<32x8xf32>) -> tensor<8x32xf32>
    %dw = aten.call "aten.mm.default"(self = %dt, mat2 = %x) : (tensor<8x32xf32>, tensor<32x4xf32>) -> tensor<8x4xf32>
    %tt = aten.call "aten.t.default"(self = %t) : (tensor<4x8xf32>) -> tensor<8x4xf32>
    %dx = aten.call "aten.mm.default"(self = %dz, mat2 = %tt) : (tensor<32x8xf32>, tensor<8x4xf32>) -> tensor<32x4xf32>
    fcdp.loss %l#0 : tensor<f32>
    fcdp.gradient %dx of @x : tensor<32x4xf32>
    fcdp.gradient %dw of @w : tensor<8x4xf32>
    return
  }
}
//--- gathered.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @x : tensor<32x4xf32> unit "body" trainable names ["x"]
  fcdp.parameter @w : tensor<8x4xf32> unit "head" names ["w"]
  fcdp.input @y : tensor<2x16xi64> name "y"
  func.func @step() {
    %x = fcdp.read_parameter @x : tensor<32x4xf32>
    %w = fcdp.read_parameter @w : tensor<8x4xf32>
    %y = fcdp.read_input @y : tensor<2x16xi64>
    %q = aten.call "aten.unsqueeze.default"(self = %y, dim = -1) : (tensor<2x16xi64>) -> tensor<2x16x1xi64>
    %o = aten.call "aten.neg.default"(self = %q) : (tensor<2x16x1xi64>) -> tensor<2x16x1xi64>
    %t = aten.call "aten.t.default"(self = %w) : (tensor<8x4xf32>) -> tensor<4x8xf32>
    %z = aten.call "aten.mm.default"(self = %x, mat2 = %t) : (tensor<32x4xf32>, tensor<4x8xf32>) -> tensor<32x8xf32>
    %v = aten.call "aten._unsafe_view.default"(self = %z, size = [2, 16, 8]) : (tensor<32x8xf32>) -> tensor<2x16x8xf32>
    %p = aten.call "aten._log_softmax.default"(self = %v, dim = -1, half_to_float = false) : (tensor<2x16x8xf32>) -> tensor<2x16x8xf32>
    %d = aten.call "aten.detach.default"(self = %p) : (tensor<2x16x8xf32>) -> tensor<2x16x8xf32>
    %n = aten.call "aten.neg.default"(self = %p) : (tensor<2x16x8xf32>) -> tensor<2x16x8xf32>
    %g = aten.call "aten.gather.default"(self = %n, dim = -1, index = %q) : (tensor<2x16x8xf32>, tensor<2x16x1xi64>) -> tensor<2x16x1xf32>
    %k = aten.call "aten.sum.dim_IntList"(self = %n, dim = [-1], keepdim = true, dtype = f32) : (tensor<2x16x8xf32>) -> tensor<2x16x1xf32>
    %a = aten.call "aten.sum.default"(self = %g) : (tensor<2x16x1xf32>) -> tensor<f32>
    %b = aten.call "aten.sum.default"(self = %k) : (tensor<2x16x1xf32>) -> tensor<f32>
    %c = aten.call "aten.add.Tensor"(self = %a, other = %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %one = aten.call "aten.ones_like.default"(self = %c) : (tensor<f32>) -> tensor<f32>
    %e = aten.call "aten.expand.default"(self = %one, size = [2, 16, 1]) : (tensor<f32>) -> tensor<2x16x1xf32>
    %f = aten.call "aten.expand.default"(self = %e, size = [2, 16, 8]) : (tensor<2x16x1xf32>) -> tensor<2x16x8xf32>
    %zero = aten.call "aten.new_zeros.default"(self = %e, size = [2, 16, 8]) : (tensor<2x16x1xf32>) -> tensor<2x16x8xf32>
    %dg = aten.call "aten.scatter_add.default"(self = %zero, dim = -1, index = %q, src = %e) : (tensor<2x16x8xf32>, tensor<2x16x1xi64>, tensor<2x16x1xf32>) -> tensor<2x16x8xf32>
    %da = aten.call "aten.add.Tensor"(self = %f, other = %dg) : (tensor<2x16x8xf32>, tensor<2x16x8xf32>) -> tensor<2x16x8xf32>
    %dn = aten.call "aten.neg.default"(self = %da) : (tensor<2x16x8xf32>) -> tensor<2x16x8xf32>
    %dv = aten.call "aten._log_softmax_backward_data.default"(grad_output = %dn, output = %d, dim = -1, input_dtype = f32) : (tensor<2x16x8xf32>, tensor<2x16x8xf32>) -> tensor<2x16x8xf32>
    %dz = aten.call "aten.view.default"(self = %dv, size = [32, 8]) : (tensor<2x16x8xf32>) -> tensor<32x8xf32>
    %tt = aten.call "aten.t.default"(self = %t) : (tensor<4x8xf32>) -> tensor<8x4xf32>
    %dx = aten.call "aten.mm.default"(self = %dz, mat2 = %tt) : (tensor<32x8xf32>, tensor<8x4xf32>) -> tensor<32x4xf32>
    fcdp.loss %c : tensor<f32>
    fcdp.gradient %dx of @x : tensor<32x4xf32>
    return
  }
}
//--- narrow.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @w : tensor<512x4xbf16> unit "head" trainable names ["w"]
  fcdp.input @x : tensor<32x4xbf16> name "x"
  fcdp.input @y : tensor<32xi64> name "y"
  func.func @step() {
    %w = fcdp.read_parameter @w : tensor<512x4xbf16>
    %x = fcdp.read_input @x : tensor<32x4xbf16>
    %y = fcdp.read_input @y : tensor<32xi64>
    %t = aten.call "aten.t.default"(self = %w) : (tensor<512x4xbf16>) -> tensor<4x512xbf16>
    %z = aten.call "aten.mm.default"(self = %x, mat2 = %t) : (tensor<32x4xbf16>, tensor<4x512xbf16>) -> tensor<32x512xbf16>
    %f = aten.call "aten._to_copy.default"(self = %z, dtype = f32) : (tensor<32x512xbf16>) -> tensor<32x512xf32>
    %p = aten.call "aten._log_softmax.default"(self = %f, dim = 1, half_to_float = false) : (tensor<32x512xf32>) -> tensor<32x512xf32>
    %l:2 = aten.call "aten.nll_loss_forward.default"(self = %p, target = %y, weight = none, reduction = 1, ignore_index = -100) : (tensor<32x512xf32>, tensor<32xi64>) -> (tensor<f32>, tensor<f32>)
    %one = aten.call "aten.ones_like.default"(self = %l#0) : (tensor<f32>) -> tensor<f32>
    %dp = aten.call "aten.nll_loss_backward.default"(grad_output = %one, self = %p, target = %y, weight = none, reduction = 1, ignore_index = -100, total_weight = %l#1) : (tensor<f32>, tensor<32x512xf32>, tensor<32xi64>, tensor<f32>) -> tensor<32x512xf32>
    %df = aten.call "aten._log_softmax_backward_data.default"(grad_output = %dp, output = %p, dim = 1, input_dtype = f32) : (tensor<32x512xf32>, tensor<32x512xf32>) -> tensor<32x512xf32>
    %dz = aten.call "aten._to_copy.default"(self = %df, dtype = bf16) : (tensor<32x512xf32>) -> tensor<32x512xbf16>
    %dt = aten.call "aten.t.default"(self = %dz) : (tensor<32x512xbf16>) -> tensor<512x32xbf16>
    %dw = aten.call "aten.mm.default"(self = %dt, mat2 = %x) : (tensor<512x32xbf16>, tensor<32x4xbf16>) -> tensor<512x4xbf16>
    fcdp.loss %l#0 : tensor<f32>
    fcdp.gradient %dw of @w : tensor<512x4xbf16>
    return
  }
}
