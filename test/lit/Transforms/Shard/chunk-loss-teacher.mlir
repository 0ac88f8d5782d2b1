// A student's logits are compared with its teacher's, and with labels.
// RUN: split-file %s %t

// The logits of neither are whole. The cross entropy is computed where the divergence is, and what depends on it moves.
// RUN: fcdp-opt %t/mixed.mlir --fcdp-chunk-loss=loss-chunk=16 | FileCheck %s --check-prefix=MIXED
// MIXED: %[[Y:.*]] = fcdp.read_input @y
// MIXED-NEXT: %[[ONE:.*]] = aten.call "aten.new_ones.default"
// MIXED-NEXT: %[[GK:.*]] = aten.call "aten.div.Tensor"(self = %[[ONE]], other = 2)
// MIXED-NEXT: %[[GL:.*]] = aten.call "aten.mul.Tensor"(self = %[[ONE]], other = 5.000000e-01)
// MIXED-NEXT: %[[GN:.*]] = aten.call "aten.neg.default"(self = %[[GK]])
// MIXED-NEXT: %[[L:.*]]:6 = aten.call "fcdp.chunked_distillation.default"(hidden = %{{.*}}, weight = %{{.*}}, bias = none, labels = %[[Y]], gradient = %[[GL]], sum_gradient = none, teacher = %{{.*}}, teacher_weight = %{{.*}}, teacher_bias = none, teacher_gradient = %[[GN]], rows = 16, steps = "mul", factors = [3.000000e+00], reduction = 1, ignore_index = -100, sums = false, output_mask = [true, true, false], workspace = {{[0-9]*}}, common = 1, student_steps = "div", student_factors = [2.000000e+00], teacher_steps = "div", teacher_factors = [2.000000e+00], terms = "kl", skip_infinite = false, by_row = false) {fcdp.recompute = false, undefined = array<i64: 2, 5>}
// MIXED-NEXT: %[[HALF:.*]] = aten.call "aten.mul.Tensor"(self = %[[L]]#0, other = 5.000000e-01)
// MIXED-NEXT: %[[D:.*]] = aten.call "aten.div.Tensor"(self = %[[L]]#5, other = 2)
// MIXED-NEXT: %[[SUM:.*]] = aten.call "aten.add.Tensor"(self = %[[HALF]], other = %[[D]])
// MIXED-NEXT: fcdp.loss %[[SUM]]
// MIXED-NEXT: fcdp.gradient %[[L]]#2 of @x
// MIXED-NEXT: fcdp.gradient %[[L]]#3 of @w

// It has its proof, also with several micro-batches.
// RUN: fcdp-opt %t/mixed.mlir --fcdp-pipeline="nodes=2 micro-batches=2 loss-chunk=16 remat=unit" | grep -c fcdp.chunked_distillation

// DEFINE: %{why} = fcdp-opt --fcdp-chunk-loss=loss-chunk=16,blocks --remarks-filter="fcdp-chunk-loss" --remark-format=emitRemark -o /dev/null 2>&1
// RUN: cat %t/mixed.mlir | %{why} | FileCheck %s --check-prefix=BLOCKS
// BLOCKS: logits of 32 x 8 in 2 chunks of 16 rows need {{.*}}, and the gradient of their weight stays a sum: there are no blocks with a teacher
// RUN: sed 's/^.*%m = /    %ee = aten.call "aten.exp.default"(self = %vt) : (tensor<32x8xf32>) -> tensor<32x8xf32>\n&/' %t/mixed.mlir | %{why} | FileCheck %s --check-prefix=WHOLE-TEACHER
// WHOLE-TEACHER: logits of 32 x 8 in 2 chunks
// RUN: sed 's/%b = aten.call "aten._softmax.default"(self = %vh, dim = 1, half_to_float = false)/%b = aten.call "aten.sigmoid.default"(self = %vh)/' %t/mixed.mlir | %{why} | FileCheck %s --check-prefix=PROBS
// PROBS: the loss stays whole: 'aten.sigmoid.default' computes what its log-probabilities are multiplied with
// RUN: sed 's/aten.sum.default"(self = %k)/aten.amax.default"(self = %k)/' %t/mixed.mlir | %{why} | FileCheck %s --check-prefix=REDUCTION
// REDUCTION: the loss stays whole: 'aten.amax.default' uses its terms
// RUN: sed 's/aten.xlogy.Tensor"(self = %b, other = %b)/aten.xlogy.Tensor"(self = %b, other = %vh)/' %t/mixed.mlir | %{why} | FileCheck %s --check-prefix=TERMS
// TERMS: the loss stays whole: its terms are not those of a divergence
// RUN: sed 's/%dm = aten.call "aten.mul.Tensor"(self = %dn, other = %b)/%dm = aten.call "aten.mul.Tensor"(self = %dn, other = %vh)/' %t/mixed.mlir | %{why} | FileCheck %s --check-prefix=GRADIENT
// GRADIENT: the loss stays whole: the gradient of its teacher's terms is not that of a sum
// RUN: sed 's/%vt = aten.call "aten.mm.default"(self = %a, mat2 = %ut)/%vt = aten.call "aten.mul.Tensor"(self = %r, other = 2)/; s/(tensor<32x6xf32>, tensor<6x8xf32>) -> tensor<32x8xf32>/(tensor<32x8xf32>) -> tensor<32x8xf32>/' %t/mixed.mlir | %{why} | FileCheck %s --check-prefix=SAME
// SAME: the loss stays whole: its teacher has the same logits

//--- mixed.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @x : tensor<32x4xf32> unit "body" trainable names ["x"]
  fcdp.parameter @w : tensor<8x4xf32> unit "head" trainable names ["w"]
  fcdp.parameter @a : tensor<32x6xf32> unit "teacher" names ["a"]
  fcdp.parameter @u : tensor<8x6xf32> unit "teacher" names ["u"]
  fcdp.input @y : tensor<32xi64> name "y"
  func.func @step() {
    %x = fcdp.read_parameter @x : tensor<32x4xf32>
    %w = fcdp.read_parameter @w : tensor<8x4xf32>
    %a = fcdp.read_parameter @a : tensor<32x6xf32>
    %u = fcdp.read_parameter @u : tensor<8x6xf32>
    %y = fcdp.read_input @y : tensor<32xi64>
    %t = aten.call "aten.t.default"(self = %w) : (tensor<8x4xf32>) -> tensor<4x8xf32>
    %z = aten.call "aten.mm.default"(self = %x, mat2 = %t) : (tensor<32x4xf32>, tensor<4x8xf32>) -> tensor<32x8xf32>
    %r = aten.call "aten.mul.Tensor"(self = %z, other = 3.000000e+00) : (tensor<32x8xf32>) -> tensor<32x8xf32>
    %q = aten.call "aten._log_softmax.default"(self = %r, dim = 1, half_to_float = false) : (tensor<32x8xf32>) -> tensor<32x8xf32>
    %l:2 = aten.call "aten.nll_loss_forward.default"(self = %q, target = %y, weight = none, reduction = 1, ignore_index = -100) : (tensor<32x8xf32>, tensor<32xi64>) -> (tensor<f32>, tensor<f32>)
    %half = aten.call "aten.mul.Tensor"(self = %l#0, other = 5.000000e-01) : (tensor<f32>) -> tensor<f32>
    %ut = aten.call "aten.t.default"(self = %u) : (tensor<8x6xf32>) -> tensor<6x8xf32>
    %vt = aten.call "aten.mm.default"(self = %a, mat2 = %ut) : (tensor<32x6xf32>, tensor<6x8xf32>) -> tensor<32x8xf32>
    %vh = aten.call "aten.div.Tensor"(self = %vt, other = 2.000000e+00) : (tensor<32x8xf32>) -> tensor<32x8xf32>
    %b = aten.call "aten._softmax.default"(self = %vh, dim = 1, half_to_float = false) : (tensor<32x8xf32>) -> tensor<32x8xf32>
    %sh = aten.call "aten.div.Tensor"(self = %r, other = 2.000000e+00) : (tensor<32x8xf32>) -> tensor<32x8xf32>
    %h = aten.call "aten._log_softmax.default"(self = %sh, dim = -1, half_to_float = false) : (tensor<32x8xf32>) -> tensor<32x8xf32>
    %m = aten.call "aten.mul.Tensor"(self = %b, other = %h) : (tensor<32x8xf32>, tensor<32x8xf32>) -> tensor<32x8xf32>
    %e = aten.call "aten.xlogy.Tensor"(self = %b, other = %b) : (tensor<32x8xf32>, tensor<32x8xf32>) -> tensor<32x8xf32>
    %k = aten.call "aten.sub.Tensor"(self = %e, other = %m) : (tensor<32x8xf32>, tensor<32x8xf32>) -> tensor<32x8xf32>
    %ks = aten.call "aten.sum.default"(self = %k) : (tensor<32x8xf32>) -> tensor<f32>
    %kd = aten.call "aten.div.Tensor"(self = %ks, other = 2) : (tensor<f32>) -> tensor<f32>
    %c = aten.call "aten.add.Tensor"(self = %half, other = %kd) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %one = aten.call "aten.ones_like.default"(self = %c) : (tensor<f32>) -> tensor<f32>
    %gk = aten.call "aten.div.Tensor"(self = %one, other = 2) : (tensor<f32>) -> tensor<f32>
    %ge = aten.call "aten.expand.default"(self = %gk, size = [32, 8]) : (tensor<f32>) -> tensor<32x8xf32>
    %dn = aten.call "aten.neg.default"(self = %ge) : (tensor<32x8xf32>) -> tensor<32x8xf32>
    %dm = aten.call "aten.mul.Tensor"(self = %dn, other = %b) : (tensor<32x8xf32>, tensor<32x8xf32>) -> tensor<32x8xf32>
    %dh = aten.call "aten._log_softmax_backward_data.default"(grad_output = %dm, output = %h, dim = -1, input_dtype = f32) : (tensor<32x8xf32>, tensor<32x8xf32>) -> tensor<32x8xf32>
    %dsh = aten.call "aten.div.Tensor"(self = %dh, other = 2.000000e+00) : (tensor<32x8xf32>) -> tensor<32x8xf32>
    %gl = aten.call "aten.mul.Tensor"(self = %one, other = 5.000000e-01) : (tensor<f32>) -> tensor<f32>
    %dq = aten.call "aten.nll_loss_backward.default"(grad_output = %gl, self = %q, target = %y, weight = none, reduction = 1, ignore_index = -100, total_weight = %l#1) : (tensor<f32>, tensor<32x8xf32>, tensor<32xi64>, tensor<f32>) -> tensor<32x8xf32>
    %dl = aten.call "aten._log_softmax_backward_data.default"(grad_output = %dq, output = %q, dim = 1, input_dtype = f32) : (tensor<32x8xf32>, tensor<32x8xf32>) -> tensor<32x8xf32>
    %ds = aten.call "aten.add.Tensor"(self = %dsh, other = %dl) : (tensor<32x8xf32>, tensor<32x8xf32>) -> tensor<32x8xf32>
    %dz = aten.call "aten.mul.Tensor"(self = %ds, other = 3.000000e+00) : (tensor<32x8xf32>) -> tensor<32x8xf32>
    %dt = aten.call "aten.t.default"(self = %dz) : (tensor<32x8xf32>) -> tensor<8x32xf32>
    %dw = aten.call "aten.mm.default"(self = %dt, mat2 = %x) : (tensor<8x32xf32>, tensor<32x4xf32>) -> tensor<8x4xf32>
    %tt = aten.call "aten.t.default"(self = %t) : (tensor<4x8xf32>) -> tensor<8x4xf32>
    %dx = aten.call "aten.mm.default"(self = %dz, mat2 = %tt) : (tensor<32x8xf32>, tensor<8x4xf32>) -> tensor<32x4xf32>
    fcdp.loss %c : tensor<f32>
    fcdp.gradient %dx of @x : tensor<32x4xf32>
    fcdp.gradient %dw of @w : tensor<8x4xf32>
    return
  }
}
