// A projection, its cross entropy and their backward pass become one call.
// RUN: split-file %s %t
// RUN: fcdp-opt %t/head.mlir --fcdp-chunk-loss=loss-chunk=16 -o %t/chunked.mlir
// RUN: FileCheck %s --input-file=%t/chunked.mlir

// CHECK: fcdp.loss_chunk = "16"
// CHECK-LABEL: func.func @step
// CHECK: %[[X:.*]] = fcdp.read_parameter @x
// CHECK: %[[W:.*]] = fcdp.read_parameter @w
// CHECK: %[[B:.*]] = fcdp.read_parameter @b
// CHECK: %[[Y:.*]] = fcdp.read_input @y
// The gradient of the loss is computed before the loss.
// CHECK: %[[ONE:.*]] = aten.call "aten.new_ones.default"(self = %[[X]], size = [], dtype = f32) : (tensor<40x4xf32>) -> tensor<f32>
// CHECK-NEXT: %[[L:.*]]:6 = aten.call "fcdp.chunked_loss.default"(hidden = %[[X]], weight = %[[W]], bias = %[[B]], labels = %[[Y]], gradient = %[[ONE]], sum_gradient = none, rows = 16, steps = "", factors = [], reduction = 1, ignore_index = -100, sums = false, output_mask = [true, true, true], workspace = 1984) {fcdp.recompute = false, undefined = array<i64: 2>}
// CHECK-SAME: -> (tensor<f32>, tensor<f32>, tensor<40x4xf32>, tensor<8x4xf32>, tensor<1x8xf32>, tensor<1984xui8>)
// CHECK-NOT: aten.addmm
// CHECK: fcdp.loss %[[L]]#0
// CHECK-NEXT: fcdp.gradient %[[L]]#2 of @x
// CHECK-NEXT: fcdp.gradient %[[L]]#3 of @w
// An evaluation has the loss alone.
// CHECK-LABEL: func.func @evaluate
// CHECK: aten.call "fcdp.chunked_loss.default"({{.*}}gradient = none{{.*}}output_mask = [false, false, false]
// CHECK-NOT: aten.t.default

// Running it again changes nothing, also with other rows. By default, it does nothing.
// RUN: fcdp-opt %t/chunked.mlir --fcdp-chunk-loss=loss-chunk=32 | diff %t/chunked.mlir -
// RUN: fcdp-opt %t/head.mlir -o %t/plain.mlir
// RUN: fcdp-opt %t/head.mlir --fcdp-chunk-loss | diff %t/plain.mlir -
// More rows than there are make one chunk. Fewer than 16 make chunks of 16, and others are rounded down.
// RUN: fcdp-opt %t/head.mlir --fcdp-chunk-loss=loss-chunk=100 | grep -c 'rows = 40'
// RUN: fcdp-opt %t/head.mlir --fcdp-chunk-loss=loss-chunk=1 | grep -c 'rows = 16'
// RUN: fcdp-opt %t/head.mlir --fcdp-chunk-loss=loss-chunk=39 | grep -c 'rows = 32'
// Logits of 512 MiB decide the peak. They are computed in chunks of 64 MiB.
// RUN: sed 's/<40x/<16777216x/g; s/x40x/x16777216x/g; s/\[40, /[16777216, /' %t/head.mlir > %t/large.mlir
// RUN: fcdp-opt %t/large.mlir --fcdp-chunk-loss=loss-chunk=auto | grep -c 'rows = 2097152' | grep 2
// RUN: not fcdp-opt %t/head.mlir --fcdp-chunk-loss=loss-chunk=no 2>&1 | FileCheck %s --check-prefix=OPTION
// OPTION: error: loss-chunk: expected 'off', 'auto' or a positive number of rows, and ',sum' or ',blocks' after the last two, got 'no'

// The loss scale and the loss's weight are factors of the gradient, which move before the loss. The whole pipeline has
// its proofs. A call that computes gradients does not run again.
// RUN: fcdp-opt %t/head.mlir --fcdp-pipeline="nodes=2 micro-batches=2 loss-chunk=16 loss-scale=on loss-weight=y remat=unit" | FileCheck %s --check-prefix=SCALED
// SCALED-LABEL: func.func @first_microbatch
// SCALED: fcdp.read_loss_weight
// SCALED: fcdp.read_loss_scale
// SCALED: %[[G:.*]] = aten.call "aten.mul.Tensor"
// SCALED: aten.call "fcdp.chunked_loss.default"({{.*}}gradient = %[[G]],
// SCALED-NOT: fcdp.chunked_loss
// SCALED-LABEL: func.func @next_microbatch

// Steps between the product and the log-softmax, a gradient for each row, and label smoothing.
// RUN: fcdp-opt %t/steps.mlir --fcdp-chunk-loss=loss-chunk=16 | FileCheck %s --check-prefix=STEPS
// STEPS: %[[ROWS:.*]] = aten.call "aten.expand.default"
// STEPS: %[[SUMS:.*]] = aten.call "aten.neg.default"
// STEPS: %[[L:.*]]:5 = aten.call "fcdp.chunked_loss.default"({{.*}}gradient = %[[ROWS]], sum_gradient = %[[SUMS]], rows = 16, steps = "div tanh mul cast", factors = [3.000000e+01, 3.000000e+01], reduction = 0, ignore_index = 7, sums = true, output_mask = [true, false, false]
// STEPS-SAME: undefined = array<i64: 4, 5>
// STEPS-SAME: -> (tensor<32xf32>, tensor<f32>, tensor<32xf32>, tensor<32x4xbf16>, tensor<{{.*}}xui8>)
// STEPS: "aten.sum.default"(self = %[[L]]#0)
// STEPS: "aten.sum.default"(self = %[[L]]#2)
// STEPS: fcdp.gradient %[[L]]#3 of @x

// DEFINE: %{why} = fcdp-opt --fcdp-chunk-loss=loss-chunk=16 --remarks-filter="fcdp-chunk-loss" --remark-format=emitRemark -o %t/out.mlir 2>&1
// RUN: %{why} %t/head.mlir | FileCheck %s --check-prefix=DONE
// DONE: remark: {{.*}}loss-chunk: logits of 40 x 8 in 3 chunks of 16 rows need 1.98 kB

// In all other cases the loss stays whole, and a remark says why.
// RUN: fcdp-opt %t/head.mlir --fcdp-chunk-loss=loss-chunk=auto --remarks-filter="fcdp-chunk-loss" --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=SMALL
// SMALL: loss-chunk: the loss stays whole: chunks need 0 B less of 3.84 kB at the peak
// A bound on the device's memory demands chunks, and the smallest are taken if none fits.
// RUN: fcdp-opt %t/head.mlir --fcdp-chunk-loss="loss-chunk=auto device-memory=6000" --remarks-filter="fcdp-chunk-loss" --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=BOUND
// BOUND: loss-chunk: logits of 40 x 8 in 3 chunks of 16 rows need 1.98 kB: the whole loss needs at least 6.37 kB of 6 kB of device memory
// RUN: fcdp-opt %t/head.mlir --fcdp-chunk-loss="loss-chunk=auto device-memory=2000" --remarks-filter="fcdp-chunk-loss" --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=TIGHT
// TIGHT: the whole loss needs at least 6.37 kB of 2 kB of device memory, and these chunks 5.31 kB of 2 kB of device memory
// States of parameters are sharded.
// RUN: fcdp-opt %t/head.mlir --fcdp-chunk-loss="loss-chunk=auto device-memory=6000 nodes=4" --remarks-filter="fcdp-chunk-loss" --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=SHARDED
// SHARDED: the loss stays whole: chunks need

// The gradient of the weight is a sum in f32, or is computed by blocks of classes.
// RUN: fcdp-opt %t/head.mlir --fcdp-chunk-loss=loss-chunk=16,blocks --remarks-filter="fcdp-chunk-loss" --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=NOBLOCKS
// NOBLOCKS: and the gradient of their weight stays a sum: blocks are for log-probabilities in f32 of a model in bf16 or f16
// RUN: sed 's/%l:2 = \(.*\)weight = none\(.*\)tensor<40xi64>)/%l:2 = \1weight = %b\2tensor<40xi64>, tensor<8xf32>)/' %t/head.mlir | %{why} | FileCheck %s --check-prefix=WEIGHTS
// WEIGHTS: the loss stays whole: its classes have weights
// RUN: sed 's/reduction = 1/reduction = 3/' %t/head.mlir | %{why} | FileCheck %s --check-prefix=ARGUMENTS
// ARGUMENTS: the loss stays whole: its arguments are not those of a cross entropy
// RUN: sed 's/aten._log_softmax.default/aten.log_softmax.int/' %t/head.mlir | %{why} | FileCheck %s --check-prefix=SOFTMAX
// SOFTMAX: the loss stays whole: its input is no log-softmax
// RUN: sed 's/dim = 1, half/dim = 0, half/' %t/head.mlir | %{why} | FileCheck %s --check-prefix=DIM
// DIM: the loss stays whole: its log-softmax is not over the classes of a matrix
// RUN: sed 's/self = %v, dim = 1/self = %i, dim = 1/' %t/head.mlir | %{why} | FileCheck %s --check-prefix=INPUT
// INPUT: the loss stays whole: '{{.*}}' computes its logits
// RUN: sed 's/"aten.view.default"(self = %z, size = \[40, 8\])/"aten.relu.default"(self = %z)/' %t/head.mlir | %{why} | FileCheck %s --check-prefix=RELU
// RELU: the loss stays whole: 'aten.relu.default' computes its logits
// RUN: sed 's/"aten.t.default"(self = %w)/"aten.permute.default"(self = %w, dims = [1, 0])/' %t/head.mlir | %{why} | FileCheck %s --check-prefix=MATRIX
// MATRIX: the loss stays whole: its projection is not by a transposed matrix
// RUN: sed "s/mat2 = \(.t\))/mat2 = \1, alpha = 2)/" %t/head.mlir | %{why} | FileCheck %s --check-prefix=FACTOR
// FACTOR: the loss stays whole: its bias or its product has a factor
// RUN: sed 's/self = %b, mat1\(.*\)(tensor<8xf32>,/self = %c, mat1\1(tensor<1x8xf32>,/' %t/head.mlir | %{why} | FileCheck %s --check-prefix=BIAS
// BIAS: the loss stays whole: its projection is not of rows of floats, with one bias for each class
// RUN: sed 's/grad_output = %one\(.*\)reduction = 1/grad_output = %one\1reduction = 2/' %t/head.mlir | %{why} | FileCheck %s --check-prefix=BACKWARD
// BACKWARD: the loss stays whole: its backward pass has other arguments than the loss
// RUN: sed 's/grad_output = %dp/grad_output = %da/; s/^.*%dz = /    %da = aten.call "aten.add.Tensor"(self = %dp, other = %dp) : (tensor<40x8xf32>, tensor<40x8xf32>) -> tensor<40x8xf32>\n&/' %t/head.mlir | %{why} | FileCheck %s --check-prefix=USED
// USED: the loss stays whole: the gradient of its log-probabilities has another user
// RUN: sed 's/grad_output = %dp/grad_output = %da/; s/^.*%dz = /    %da = aten.call "aten.add.Tensor"(self = %dp, other = %i) : (tensor<40x8xf32>, tensor<40x8xf32>) -> tensor<40x8xf32>\n&/' %t/head.mlir | %{why} | FileCheck %s --check-prefix=ADDED
// ADDED: the loss stays whole: another gradient is added to that of its log-probabilities
// RUN: sed 's/output = .p, dim/output = %i, dim/' %t/head.mlir | %{why} | FileCheck %s --check-prefix=DERIVED
// DERIVED: the loss stays whole: its backward pass is not that of a log-softmax
// RUN: sed 's/"aten.view.default"(self = %z, size = \[40, 8\])/"aten.div.Tensor"(self = %z, other = 2.0)/' %t/head.mlir | %{why} | FileCheck %s --check-prefix=SCALING
// SCALING: the loss stays whole: its backward pass is not that of its logits
// RUN: sed 's/^.*%dt = /    %u = aten.call "aten.neg.default"(self = %dz) : (tensor<40x8xf32>) -> tensor<40x8xf32>\n&/' %t/head.mlir | %{why} | FileCheck %s --check-prefix=GRADIENT
// GRADIENT: the loss stays whole: 'aten.neg.default' uses the gradient of its logits
// RUN: sed 's/^.*%one = /    %u = aten.call "aten.logsumexp.default"(self = %z, dim = [1]) : (tensor<40x8xf32>) -> tensor<40xf32>\n&/' %t/head.mlir | %{why} | FileCheck %s --check-prefix=LOGITS
// LOGITS: the loss stays whole: its logits have another user, 'aten.logsumexp.default'
// RUN: sed 's/%one = aten.call "aten.ones_like.default"(self = %l#0)/%one = aten.call "aten.exp.default"(self = %l#0)/' %t/head.mlir | %{why} | FileCheck %s --check-prefix=VALUE
// VALUE: the loss stays whole: the gradient of the loss depends on its value
// RUN: sed 's/grad_output = %one/grad_output = %o/; s/-> tensor<f32>$/&\n    %o = aten.call "aten.view.default"(self = %one, size = [1]) : (tensor<f32>) -> tensor<1xf32>/; s/: (tensor<f32>, tensor<40x8xf32>/: (tensor<1xf32>, tensor<40x8xf32>/' %t/head.mlir | %{why} | FileCheck %s --check-prefix=TYPES
// TYPES: the loss stays whole: its tensors are not of the types of a cross entropy
// The loss of the evaluation does not depend on a gradient.
// RUN: grep -c fcdp.chunked_loss %t/out.mlir
// RUN: %{why} %t/image.mlir | FileCheck %s --check-prefix=IMAGE
// IMAGE: the loss stays whole: its classes are not the last dimension (nll_loss2d)

//--- head.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @x : tensor<40x4xf32> unit "body" trainable names ["x"]
  fcdp.parameter @w : tensor<8x4xf32> unit "head" trainable names ["w"]
  fcdp.parameter @b : tensor<8xf32> unit "head" trainable names ["b"]
  fcdp.input @y : tensor<40xi64> name "y"
  fcdp.input @f : tensor<40xi64> name "y" evaluation
  func.func @step() {
    %x = fcdp.read_parameter @x : tensor<40x4xf32>
    %w = fcdp.read_parameter @w : tensor<8x4xf32>
    %b = fcdp.read_parameter @b : tensor<8xf32>
    %y = fcdp.read_input @y : tensor<40xi64>
    %c = aten.call "aten.view.default"(self = %b, size = [1, 8]) : (tensor<8xf32>) -> tensor<1x8xf32>
    %i = aten.call "aten.new_ones.default"(self = %b, size = [40, 8]) : (tensor<8xf32>) -> tensor<40x8xf32>
    %t = aten.call "aten.t.default"(self = %w) : (tensor<8x4xf32>) -> tensor<4x8xf32>
    %z = aten.call "aten.addmm.default"(self = %b, mat1 = %x, mat2 = %t) : (tensor<8xf32>, tensor<40x4xf32>, tensor<4x8xf32>) -> tensor<40x8xf32>
    %v = aten.call "aten.view.default"(self = %z, size = [40, 8]) : (tensor<40x8xf32>) -> tensor<40x8xf32>
    %p = aten.call "aten._log_softmax.default"(self = %v, dim = 1, half_to_float = false) : (tensor<40x8xf32>) -> tensor<40x8xf32>
    %l:2 = aten.call "aten.nll_loss_forward.default"(self = %p, target = %y, weight = none, reduction = 1, ignore_index = -100) : (tensor<40x8xf32>, tensor<40xi64>) -> (tensor<f32>, tensor<f32>)
    %one = aten.call "aten.ones_like.default"(self = %l#0) : (tensor<f32>) -> tensor<f32>
    %dp = aten.call "aten.nll_loss_backward.default"(grad_output = %one, self = %p, target = %y, weight = none, reduction = 1, ignore_index = -100, total_weight = %l#1) : (tensor<f32>, tensor<40x8xf32>, tensor<40xi64>, tensor<f32>) -> tensor<40x8xf32>
    %dz = aten.call "aten._log_softmax_backward_data.default"(grad_output = %dp, output = %p, dim = 1, input_dtype = f32) : (tensor<40x8xf32>, tensor<40x8xf32>) -> tensor<40x8xf32>
    %dt = aten.call "aten.t.default"(self = %dz) : (tensor<40x8xf32>) -> tensor<8x40xf32>
    %dw = aten.call "aten.mm.default"(self = %dt, mat2 = %x) : (tensor<8x40xf32>, tensor<40x4xf32>) -> tensor<8x4xf32>
    %tt = aten.call "aten.t.default"(self = %t) : (tensor<4x8xf32>) -> tensor<8x4xf32>
    %dx = aten.call "aten.mm.default"(self = %dz, mat2 = %tt) : (tensor<40x8xf32>, tensor<8x4xf32>) -> tensor<40x4xf32>
    %db = aten.call "aten.sum.dim_IntList"(self = %dz, dim = [0], keepdim = true) : (tensor<40x8xf32>) -> tensor<1x8xf32>
    %dv = aten.call "aten.view.default"(self = %db, size = [8]) : (tensor<1x8xf32>) -> tensor<8xf32>
    fcdp.loss %l#0 : tensor<f32>
    fcdp.gradient %dx of @x : tensor<40x4xf32>
    fcdp.gradient %dw of @w : tensor<8x4xf32>
    fcdp.gradient %dv of @b : tensor<8xf32>
    return
  }
  func.func @evaluate() {
    %x = fcdp.read_parameter @x : tensor<40x4xf32>
    %w = fcdp.read_parameter @w : tensor<8x4xf32>
    %y = fcdp.read_input @f : tensor<40xi64>
    %t = aten.call "aten.t.default"(self = %w) : (tensor<8x4xf32>) -> tensor<4x8xf32>
    %z = aten.call "aten.mm.default"(self = %x, mat2 = %t) : (tensor<40x4xf32>, tensor<4x8xf32>) -> tensor<40x8xf32>
    %q = aten.call "aten._log_softmax.default"(self = %z, dim = 1, half_to_float = false) : (tensor<40x8xf32>) -> tensor<40x8xf32>
    %d = aten.call "aten.detach.default"(self = %q) : (tensor<40x8xf32>) -> tensor<40x8xf32>
    %m:2 = aten.call "aten.nll_loss_forward.default"(self = %q, target = %y, weight = none, reduction = 1, ignore_index = -100) : (tensor<40x8xf32>, tensor<40xi64>) -> (tensor<f32>, tensor<f32>)
    fcdp.loss %m#0 : tensor<f32>
    return
  }
}
//--- steps.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @x : tensor<32x4xbf16> unit "body" trainable names ["x"]
  fcdp.parameter @w : tensor<8x4xbf16> unit "head" names ["w"]
  fcdp.input @y : tensor<32xi64> name "y"
  func.func @step() {
    %x = fcdp.read_parameter @x : tensor<32x4xbf16>
    %w = fcdp.read_parameter @w : tensor<8x4xbf16>
    %y = fcdp.read_input @y : tensor<32xi64>
    %t = aten.call "aten.t.default"(self = %w) : (tensor<8x4xbf16>) -> tensor<4x8xbf16>
    %z = aten.call "aten.mm.default"(self = %x, mat2 = %t) : (tensor<32x4xbf16>, tensor<4x8xbf16>) -> tensor<32x8xbf16>
    %s = aten.call "aten.div.Tensor"(self = %z, other = 30.0) : (tensor<32x8xbf16>) -> tensor<32x8xbf16>
    %h = aten.call "aten.tanh.default"(self = %s) : (tensor<32x8xbf16>) -> tensor<32x8xbf16>
    %hd = aten.call "aten.detach.default"(self = %h) : (tensor<32x8xbf16>) -> tensor<32x8xbf16>
    %m = aten.call "aten.mul.Tensor"(self = %h, other = 30.0) : (tensor<32x8xbf16>) -> tensor<32x8xbf16>
    %f = aten.call "aten._to_copy.default"(self = %m, dtype = f32) : (tensor<32x8xbf16>) -> tensor<32x8xf32>
    %p = aten.call "aten._log_softmax.default"(self = %f, dim = -1, half_to_float = false) : (tensor<32x8xf32>) -> tensor<32x8xf32>
    %l:2 = aten.call "aten.nll_loss_forward.default"(self = %p, target = %y, weight = none, reduction = 0, ignore_index = 7) : (tensor<32x8xf32>, tensor<32xi64>) -> (tensor<32xf32>, tensor<f32>)
    %r = aten.call "aten.sum.dim_IntList"(self = %p, dim = [1]) : (tensor<32x8xf32>) -> tensor<32xf32>
    %a = aten.call "aten.sum.default"(self = %l#0) : (tensor<32xf32>) -> tensor<f32>
    %b = aten.call "aten.sum.default"(self = %r) : (tensor<32xf32>) -> tensor<f32>
    %c = aten.call "aten.sub.Tensor"(self = %a, other = %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %one = aten.call "aten.ones_like.default"(self = %c) : (tensor<f32>) -> tensor<f32>
    %e = aten.call "aten.expand.default"(self = %one, size = [32]) : (tensor<f32>) -> tensor<32xf32>
    %n = aten.call "aten.neg.default"(self = %e) : (tensor<32xf32>) -> tensor<32xf32>
    %u = aten.call "aten.unsqueeze.default"(self = %n, dim = 1) : (tensor<32xf32>) -> tensor<32x1xf32>
    %ue = aten.call "aten.expand.default"(self = %u, size = [32, 8]) : (tensor<32x1xf32>) -> tensor<32x8xf32>
    %dp = aten.call "aten.nll_loss_backward.default"(grad_output = %e, self = %p, target = %y, weight = none, reduction = 0, ignore_index = 7, total_weight = %l#1) : (tensor<32xf32>, tensor<32x8xf32>, tensor<32xi64>, tensor<f32>) -> tensor<32x8xf32>
    %ds = aten.call "aten.add.Tensor"(self = %ue, other = %dp) : (tensor<32x8xf32>, tensor<32x8xf32>) -> tensor<32x8xf32>
    %df = aten.call "aten._log_softmax_backward_data.default"(grad_output = %ds, output = %p, dim = -1, input_dtype = f32) : (tensor<32x8xf32>, tensor<32x8xf32>) -> tensor<32x8xf32>
    %dc = aten.call "aten._to_copy.default"(self = %df, dtype = bf16) : (tensor<32x8xf32>) -> tensor<32x8xbf16>
    %dm = aten.call "aten.mul.Tensor"(self = %dc, other = 30.0) : (tensor<32x8xbf16>) -> tensor<32x8xbf16>
    %dh = aten.call "aten.tanh_backward.default"(grad_output = %dm, output = %hd) : (tensor<32x8xbf16>, tensor<32x8xbf16>) -> tensor<32x8xbf16>
    %dz = aten.call "aten.div.Tensor"(self = %dh, other = 30.0) : (tensor<32x8xbf16>) -> tensor<32x8xbf16>
    %tt = aten.call "aten.t.default"(self = %t) : (tensor<4x8xbf16>) -> tensor<8x4xbf16>
    %dx = aten.call "aten.mm.default"(self = %dz, mat2 = %tt) : (tensor<32x8xbf16>, tensor<8x4xbf16>) -> tensor<32x4xbf16>
    fcdp.loss %c : tensor<f32>
    fcdp.gradient %dx of @x : tensor<32x4xbf16>
    return
  }
}
//--- image.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @x : tensor<2x8x4x4xf32> unit "body" names ["x"]
  fcdp.input @y : tensor<2x4x4xi64> name "y"
  func.func @step() {
    %x = fcdp.read_parameter @x : tensor<2x8x4x4xf32>
    %y = fcdp.read_input @y : tensor<2x4x4xi64>
    %l:2 = aten.call "aten.nll_loss2d_forward.default"(self = %x, target = %y, weight = none, reduction = 1, ignore_index = -100) : (tensor<2x8x4x4xf32>, tensor<2x4x4xi64>) -> (tensor<f32>, tensor<f32>)
    fcdp.loss %l#0 : tensor<f32>
    return
  }
}
