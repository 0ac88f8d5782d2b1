// RUN: fcdp-opt %s --split-input-file --fcdp-retarget=target=cuda --verify-diagnostics | FileCheck %s
// RUN: fcdp-opt %s --split-input-file --fcdp-retarget=target=cuda > %t.once 2> /dev/null
// RUN: fcdp-opt %t.once --split-input-file --fcdp-retarget=target=cuda | diff %t.once -
// The operators are not those of a CPU, which keeps its own.
// RUN: fcdp-opt %s --split-input-file > %t.plain
// RUN: fcdp-opt %s --split-input-file --fcdp-retarget=target=cpu | diff %t.plain -
// With an option it keeps these for CUDA, too.
// RUN: fcdp-opt %s --split-input-file "--fcdp-retarget=target=cuda fuse-norms=false" | FileCheck %s --check-prefix=APART --implicit-check-not=_fused_rms_norm
// APART: fcdp.target = "cuda"
// APART: aten.rsqrt.default

// Casts to f32 and back are the kernel's, so it reads and writes bf16. The sum of
// the gradient of the input with another gradient stays.
// CHECK-LABEL: func.func @step
// CHECK: %[[W:.*]] = fcdp.read_parameter @w
// CHECK: %[[X:.*]] = fcdp.read_input @x
// CHECK-NEXT: %[[N:.*]]:2 = aten.call "aten._fused_rms_norm.default"(input = %[[X]], normalized_shape = [8], weight = %[[W]], eps = 1.000000e-05) {fcdp.recompute = true} : {{.*}} -> (tensor<4x8xbf16>, tensor<4x1xf32>)
// CHECK-NEXT: "aten.sum.default"(self = %[[N]]#0)
// CHECK-NEXT: fcdp.loss
// CHECK-NEXT: %[[G:.*]]:2 = aten.call "aten._fused_rms_norm_backward.default"(grad_out = %[[X]], input = %[[X]], normalized_shape = [8], rstd = %[[N]]#1, weight = %[[W]], output_mask = [true, true]) : {{.*}} -> (tensor<4x8xbf16>, tensor<8xbf16>)
// CHECK-NEXT: "aten.add.Tensor"(self = %[[X]], other = %[[G]]#0)
// CHECK-NEXT: fcdp.gradient %[[G]]#1 of @w
// CHECK-NEXT: return
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @w : tensor<8xbf16> unit "norm" trainable names ["w"]
  fcdp.input @x : tensor<4x8xbf16> name "x"
  func.func @step() {
    %w = fcdp.read_parameter @w : tensor<8xbf16>
    %x = fcdp.read_input @x : tensor<4x8xbf16>
    %n = aten.call "aten._to_copy.default"(self = %x, dtype = f32) : (tensor<4x8xbf16>) -> tensor<4x8xf32>
    %p = aten.call "aten.pow.Tensor_Scalar"(self = %n, exponent = 2) {fcdp.recompute = true} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %m = aten.call "aten.mean.dim"(self = %p, dim = [-1], keepdim = true) {fcdp.recompute = true} : (tensor<4x8xf32>) -> tensor<4x1xf32>
    %e = aten.call "aten.add.Scalar"(self = %m, other = 1.0e-5) {fcdp.recompute = true} : (tensor<4x1xf32>) -> tensor<4x1xf32>
    %r = aten.call "aten.rsqrt.default"(self = %e) {fcdp.recompute = true} : (tensor<4x1xf32>) -> tensor<4x1xf32>
    %d = aten.call "aten.detach.default"(self = %r) : (tensor<4x1xf32>) -> tensor<4x1xf32>
    %s = aten.call "aten.mul.Tensor"(self = %n, other = %r) {fcdp.recompute = true} : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
    %y = aten.call "aten.mul.Tensor"(self = %s, other = %w) {fcdp.recompute = true} : (tensor<4x8xf32>, tensor<8xbf16>) -> tensor<4x8xf32>
    %z = aten.call "aten._to_copy.default"(self = %y, dtype = bf16) : (tensor<4x8xf32>) -> tensor<4x8xbf16>
    %l = aten.call "aten.sum.default"(self = %z) : (tensor<4x8xbf16>) -> tensor<bf16>
    fcdp.loss %l : tensor<bf16>
    %gy = aten.call "aten._to_copy.default"(self = %x, dtype = f32) : (tensor<4x8xbf16>) -> tensor<4x8xf32>
    %dw = aten.call "aten.mul.Tensor"(self = %gy, other = %s) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %gs = aten.call "aten.mul.Tensor"(self = %gy, other = %w) : (tensor<4x8xf32>, tensor<8xbf16>) -> tensor<4x8xf32>
    %dr = aten.call "aten.sum.dim_IntList"(self = %dw, dim = [0], keepdim = true) : (tensor<4x8xf32>) -> tensor<1x8xf32>
    %gw = aten.call "aten.view.default"(self = %dr, size = [8]) : (tensor<1x8xf32>) -> tensor<8xf32>
    %gv = aten.call "aten._to_copy.default"(self = %gw, dtype = bf16) : (tensor<8xf32>) -> tensor<8xbf16>
    %a = aten.call "aten.mul.Tensor"(self = %gs, other = %n) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %b = aten.call "aten.mul.Tensor"(self = %gs, other = %r) : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
    %t = aten.call "aten.sum.dim_IntList"(self = %a, dim = [1], keepdim = true) : (tensor<4x8xf32>) -> tensor<4x1xf32>
    %c = aten.call "aten.pow.Tensor_Scalar"(self = %d, exponent = 3) : (tensor<4x1xf32>) -> tensor<4x1xf32>
    %h = aten.call "aten.mul.Scalar"(self = %t, other = -0.5) : (tensor<4x1xf32>) -> tensor<4x1xf32>
    %o = aten.call "aten.mul.Tensor"(self = %h, other = %c) : (tensor<4x1xf32>, tensor<4x1xf32>) -> tensor<4x1xf32>
    %x1 = aten.call "aten.expand.default"(self = %o, size = [4, 8]) : (tensor<4x1xf32>) -> tensor<4x8xf32>
    %x2 = aten.call "aten.div.Scalar"(self = %x1, other = 8) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %x3 = aten.call "aten.pow.Tensor_Scalar"(self = %n, exponent = 1.0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %x4 = aten.call "aten.mul.Scalar"(self = %x3, other = 2.0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %x5 = aten.call "aten.mul.Tensor"(self = %x2, other = %x4) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %gx = aten.call "aten.add.Tensor"(self = %b, other = %x5) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %gz = aten.call "aten._to_copy.default"(self = %gx, dtype = bf16) : (tensor<4x8xf32>) -> tensor<4x8xbf16>
    %all = aten.call "aten.add.Tensor"(self = %x, other = %gz) : (tensor<4x8xbf16>, tensor<4x8xbf16>) -> tensor<4x8xbf16>
    fcdp.gradient %gv of @w : tensor<8xbf16>
    return
  }
}

// -----

// In f32, gradients of the input's other users may lie between the parts of the
// norm's gradient.
// CHECK-LABEL: func.func @step
// CHECK: %[[X:.*]] = fcdp.read_input @x
// CHECK-NEXT: %[[N:.*]]:2 = aten.call "aten._fused_rms_norm.default"(input = %[[X]]
// CHECK: %[[G:.*]]:2 = aten.call "aten._fused_rms_norm_backward.default"(grad_out = %[[X]], input = %[[X]],
// CHECK-NEXT: %[[S:.*]] = aten.call "aten.add.Tensor"(self = %[[X]], other = %[[G]]#0)
// CHECK-NEXT: "aten.sum.default"(self = %[[S]])
// CHECK-NEXT: fcdp.gradient %[[G]]#1 of @w
// CHECK-NEXT: return
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @w : tensor<8xf32> unit "norm" trainable names ["w"]
  fcdp.input @x : tensor<4x8xf32> name "x"
  func.func @step() {
    %w = fcdp.read_parameter @w : tensor<8xf32>
    %x = fcdp.read_input @x : tensor<4x8xf32>
    %p = aten.call "aten.pow.Tensor_Scalar"(self = %x, exponent = 2) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %m = aten.call "aten.mean.dim"(self = %p, dim = [-1], keepdim = true) : (tensor<4x8xf32>) -> tensor<4x1xf32>
    %e = aten.call "aten.add.Scalar"(self = %m, other = 1.0e-5) : (tensor<4x1xf32>) -> tensor<4x1xf32>
    %r = aten.call "aten.rsqrt.default"(self = %e) : (tensor<4x1xf32>) -> tensor<4x1xf32>
    %d = aten.call "aten.detach.default"(self = %r) : (tensor<4x1xf32>) -> tensor<4x1xf32>
    %s = aten.call "aten.mul.Tensor"(self = %x, other = %r) : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
    %y = aten.call "aten.mul.Tensor"(self = %w, other = %s) : (tensor<8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %l = aten.call "aten.sum.default"(self = %y) : (tensor<4x8xf32>) -> tensor<f32>
    fcdp.loss %l : tensor<f32>
    %dw = aten.call "aten.mul.Tensor"(self = %x, other = %s) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %gs = aten.call "aten.mul.Tensor"(self = %x, other = %w) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    %dr = aten.call "aten.sum.dim_IntList"(self = %dw, dim = [0], keepdim = true) : (tensor<4x8xf32>) -> tensor<1x8xf32>
    %gw = aten.call "aten.view.default"(self = %dr, size = [8]) : (tensor<1x8xf32>) -> tensor<8xf32>
    %a = aten.call "aten.mul.Tensor"(self = %gs, other = %x) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %b = aten.call "aten.mul.Tensor"(self = %gs, other = %r) : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
    %f = aten.call "aten.add.Tensor"(self = %x, other = %b) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %t = aten.call "aten.sum.dim_IntList"(self = %a, dim = [1], keepdim = true) : (tensor<4x8xf32>) -> tensor<4x1xf32>
    %c = aten.call "aten.pow.Tensor_Scalar"(self = %d, exponent = 3) : (tensor<4x1xf32>) -> tensor<4x1xf32>
    %h = aten.call "aten.mul.Scalar"(self = %t, other = -0.5) : (tensor<4x1xf32>) -> tensor<4x1xf32>
    %o = aten.call "aten.mul.Tensor"(self = %h, other = %c) : (tensor<4x1xf32>, tensor<4x1xf32>) -> tensor<4x1xf32>
    %x1 = aten.call "aten.expand.default"(self = %o, size = [4, 8]) : (tensor<4x1xf32>) -> tensor<4x8xf32>
    %x2 = aten.call "aten.div.Scalar"(self = %x1, other = 8) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %x3 = aten.call "aten.pow.Tensor_Scalar"(self = %x, exponent = 1.0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %x4 = aten.call "aten.mul.Scalar"(self = %x3, other = 2.0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %x5 = aten.call "aten.mul.Tensor"(self = %x2, other = %x4) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %gx = aten.call "aten.add.Tensor"(self = %f, other = %x5) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %k = aten.call "aten.sum.default"(self = %gx) : (tensor<4x8xf32>) -> tensor<f32>
    fcdp.gradient %gw of @w : tensor<8xf32>
    return
  }
}

// -----

// The kernel does not multiply by the weight if something else reads the norm
// without it.
// CHECK-LABEL: func.func @step
// CHECK: %[[W:.*]] = fcdp.read_parameter @w
// CHECK: %[[N:.*]]:2 = aten.call "aten._fused_rms_norm.default"({{.*}} weight = none
// CHECK: %[[Y:.*]] = aten.call "aten.mul.Tensor"(self = %[[N]]#0, other = %[[W]])
// CHECK: "aten.add.Tensor"(self = %[[Y]], other = %[[N]]#0)
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @w : tensor<8xf32> unit "norm" trainable names ["w"]
  fcdp.input @x : tensor<4x8xf32> name "x"
  func.func @step() {
    %w = fcdp.read_parameter @w : tensor<8xf32>
    %x = fcdp.read_input @x : tensor<4x8xf32>
    %p = aten.call "aten.pow.Tensor_Scalar"(self = %x, exponent = 2) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %m = aten.call "aten.mean.dim"(self = %p, dim = [-1], keepdim = true) : (tensor<4x8xf32>) -> tensor<4x1xf32>
    %e = aten.call "aten.add.Scalar"(self = %m, other = 1.0e-5) : (tensor<4x1xf32>) -> tensor<4x1xf32>
    %r = aten.call "aten.rsqrt.default"(self = %e) : (tensor<4x1xf32>) -> tensor<4x1xf32>
    %d = aten.call "aten.detach.default"(self = %r) : (tensor<4x1xf32>) -> tensor<4x1xf32>
    %s = aten.call "aten.mul.Tensor"(self = %x, other = %r) : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
    %y = aten.call "aten.mul.Tensor"(self = %s, other = %w) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    %q = aten.call "aten.add.Tensor"(self = %y, other = %s) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %l = aten.call "aten.sum.default"(self = %q) : (tensor<4x8xf32>) -> tensor<f32>
    fcdp.loss %l : tensor<f32>
    return
  }
}

// -----

// A weight of another type is cast for the kernel, as the product does.
// CHECK-LABEL: func.func @step
// CHECK: %[[W:.*]] = fcdp.read_parameter @w
// CHECK: %[[C:.*]] = aten.call "aten._to_copy.default"(self = %[[W]], dtype = f32)
// CHECK-NEXT: "aten._fused_rms_norm.default"({{.*}} weight = %[[C]],
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @w : tensor<8xbf16> unit "norm" trainable names ["w"]
  fcdp.input @x : tensor<4x8xf32> name "x"
  func.func @step() {
    %w = fcdp.read_parameter @w : tensor<8xbf16>
    %x = fcdp.read_input @x : tensor<4x8xf32>
    %p = aten.call "aten.pow.Tensor_Scalar"(self = %x, exponent = 2) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %m = aten.call "aten.mean.dim"(self = %p, dim = [-1], keepdim = true) : (tensor<4x8xf32>) -> tensor<4x1xf32>
    %e = aten.call "aten.add.Scalar"(self = %m, other = 1.0e-5) : (tensor<4x1xf32>) -> tensor<4x1xf32>
    %r = aten.call "aten.rsqrt.default"(self = %e) : (tensor<4x1xf32>) -> tensor<4x1xf32>
    %d = aten.call "aten.detach.default"(self = %r) : (tensor<4x1xf32>) -> tensor<4x1xf32>
    %s = aten.call "aten.mul.Tensor"(self = %x, other = %r) : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
    %y = aten.call "aten.mul.Tensor"(self = %s, other = %w) : (tensor<4x8xf32>, tensor<8xbf16>) -> tensor<4x8xf32>
    %l = aten.call "aten.sum.default"(self = %y) : (tensor<4x8xf32>) -> tensor<f32>
    fcdp.loss %l : tensor<f32>
    return
  }
}

// -----

// A backward pass that divides by another number is not the kernel's, which
// has the forward pass alone then, and its inverse deviation.
// CHECK-LABEL: func.func @step
// CHECK: %[[N:.*]]:2 = aten.call "aten._fused_rms_norm.default"
// CHECK-NOT: _fused_rms_norm_backward
// CHECK: "aten.mul.Tensor"(self = %{{.*}}, other = %[[N]]#1)
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @w : tensor<8xf32> unit "norm" trainable names ["w"]
  fcdp.input @x : tensor<4x8xf32> name "x"
  func.func @step() {
    %w = fcdp.read_parameter @w : tensor<8xf32>
    %x = fcdp.read_input @x : tensor<4x8xf32>
    %p = aten.call "aten.pow.Tensor_Scalar"(self = %x, exponent = 2) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %m = aten.call "aten.mean.dim"(self = %p, dim = [-1], keepdim = true) : (tensor<4x8xf32>) -> tensor<4x1xf32>
    %e = aten.call "aten.add.Scalar"(self = %m, other = 1.0e-5) : (tensor<4x1xf32>) -> tensor<4x1xf32>
    %r = aten.call "aten.rsqrt.default"(self = %e) : (tensor<4x1xf32>) -> tensor<4x1xf32>
    %d = aten.call "aten.detach.default"(self = %r) : (tensor<4x1xf32>) -> tensor<4x1xf32>
    // expected-remark@below {{the backward pass of this RMS norm stays operator by operator: it is not what PyTorch derives for the norm}}
    %s = aten.call "aten.mul.Tensor"(self = %x, other = %r) : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
    %l = aten.call "aten.sum.default"(self = %s) : (tensor<4x8xf32>) -> tensor<f32>
    fcdp.loss %l : tensor<f32>
    %w2 = aten.call "aten.neg.default"(self = %x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %a = aten.call "aten.mul.Tensor"(self = %w2, other = %x) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %b = aten.call "aten.mul.Tensor"(self = %w2, other = %r) : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
    %t = aten.call "aten.sum.dim_IntList"(self = %a, dim = [1], keepdim = true) : (tensor<4x8xf32>) -> tensor<4x1xf32>
    %c = aten.call "aten.pow.Tensor_Scalar"(self = %d, exponent = 3) : (tensor<4x1xf32>) -> tensor<4x1xf32>
    %h = aten.call "aten.mul.Scalar"(self = %t, other = -0.5) : (tensor<4x1xf32>) -> tensor<4x1xf32>
    %o = aten.call "aten.mul.Tensor"(self = %h, other = %c) : (tensor<4x1xf32>, tensor<4x1xf32>) -> tensor<4x1xf32>
    %x1 = aten.call "aten.expand.default"(self = %o, size = [4, 8]) : (tensor<4x1xf32>) -> tensor<4x8xf32>
    %x2 = aten.call "aten.div.Scalar"(self = %x1, other = 4) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %x3 = aten.call "aten.pow.Tensor_Scalar"(self = %x, exponent = 1.0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %x4 = aten.call "aten.mul.Scalar"(self = %x3, other = 2.0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %x5 = aten.call "aten.mul.Tensor"(self = %x2, other = %x4) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %gx = aten.call "aten.add.Tensor"(self = %b, other = %x5) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %k = aten.call "aten.sum.default"(self = %gx) : (tensor<4x8xf32>) -> tensor<f32>
    return
  }
}

// -----

// DontFuseHalfPrecision: the kernel does not round the mean to bf16.
// CHECK-LABEL: func.func @step
// CHECK-NOT: _fused_rms_norm
// CHECK: "aten.rsqrt.default"
// CHECK: return
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @w : tensor<8xbf16> unit "norm" trainable names ["w"]
  fcdp.input @x : tensor<4x8xbf16> name "x"
  func.func @step() {
    %w = fcdp.read_parameter @w : tensor<8xbf16>
    %x = fcdp.read_input @x : tensor<4x8xbf16>
    %p = aten.call "aten.pow.Tensor_Scalar"(self = %x, exponent = 2) : (tensor<4x8xbf16>) -> tensor<4x8xbf16>
    %m = aten.call "aten.mean.dim"(self = %p, dim = [-1], keepdim = true) : (tensor<4x8xbf16>) -> tensor<4x1xbf16>
    %e = aten.call "aten.add.Scalar"(self = %m, other = 1.0e-5) : (tensor<4x1xbf16>) -> tensor<4x1xbf16>
    %r = aten.call "aten.rsqrt.default"(self = %e) : (tensor<4x1xbf16>) -> tensor<4x1xbf16>
    %d = aten.call "aten.detach.default"(self = %r) : (tensor<4x1xbf16>) -> tensor<4x1xbf16>
    %s = aten.call "aten.mul.Tensor"(self = %x, other = %r) : (tensor<4x8xbf16>, tensor<4x1xbf16>) -> tensor<4x8xbf16>
    %l = aten.call "aten.sum.default"(self = %s) : (tensor<4x8xbf16>) -> tensor<bf16>
    fcdp.loss %l : tensor<bf16>
    return
  }
}

// -----

// DontFusePermuted: views may rely on an order in memory that the kernel does not give.
// CHECK-LABEL: func.func @step
// CHECK-NOT: _fused_rms_norm
// CHECK: "aten.rsqrt.default"
// CHECK: return
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @w : tensor<8xf32> unit "norm" trainable names ["w"]
  fcdp.input @x : tensor<4x8xf32> name "x"
  func.func @step() {
    %w = fcdp.read_parameter @w : tensor<8xf32>
    %x = fcdp.read_input @x : tensor<4x8xf32>
    %p = aten.call "aten.pow.Tensor_Scalar"(self = %x, exponent = 2) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %m = aten.call "aten.mean.dim"(self = %p, dim = [-1], keepdim = true) : (tensor<4x8xf32>) -> tensor<4x1xf32>
    %e = aten.call "aten.add.Scalar"(self = %m, other = 1.0e-5) : (tensor<4x1xf32>) -> tensor<4x1xf32>
    %r = aten.call "aten.rsqrt.default"(self = %e) : (tensor<4x1xf32>) -> tensor<4x1xf32>
    %d = aten.call "aten.detach.default"(self = %r) : (tensor<4x1xf32>) -> tensor<4x1xf32>
    %s = aten.call "aten.mul.Tensor"(self = %x, other = %r) {fcdp.dim_order = array<i64: 1, 0>} : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
    %l = aten.call "aten.sum.default"(self = %s) : (tensor<4x8xf32>) -> tensor<f32>
    fcdp.loss %l : tensor<f32>
    return
  }
}

// -----

// DontFuseOtherPowers: the mean of cubes.
// CHECK-LABEL: func.func @step
// CHECK-NOT: _fused_rms_norm
// CHECK: "aten.rsqrt.default"
// CHECK: return
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @w : tensor<8xf32> unit "norm" trainable names ["w"]
  fcdp.input @x : tensor<4x8xf32> name "x"
  func.func @step() {
    %w = fcdp.read_parameter @w : tensor<8xf32>
    %x = fcdp.read_input @x : tensor<4x8xf32>
    %p = aten.call "aten.pow.Tensor_Scalar"(self = %x, exponent = 3) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %m = aten.call "aten.mean.dim"(self = %p, dim = [-1], keepdim = true) : (tensor<4x8xf32>) -> tensor<4x1xf32>
    %e = aten.call "aten.add.Scalar"(self = %m, other = 1.0e-5) : (tensor<4x1xf32>) -> tensor<4x1xf32>
    %r = aten.call "aten.rsqrt.default"(self = %e) : (tensor<4x1xf32>) -> tensor<4x1xf32>
    %d = aten.call "aten.detach.default"(self = %r) : (tensor<4x1xf32>) -> tensor<4x1xf32>
    %s = aten.call "aten.mul.Tensor"(self = %x, other = %r) : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
    %l = aten.call "aten.sum.default"(self = %s) : (tensor<4x8xf32>) -> tensor<f32>
    fcdp.loss %l : tensor<f32>
    return
  }
}

// -----

// DontFuseAcrossRegions: one part is recomputed, and another kept.
// CHECK-LABEL: func.func @step
// CHECK-NOT: _fused_rms_norm
// CHECK: "aten.rsqrt.default"
// CHECK: return
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @w : tensor<8xf32> unit "norm" trainable names ["w"]
  fcdp.input @x : tensor<4x8xf32> name "x"
  func.func @step() {
    %w = fcdp.read_parameter @w : tensor<8xf32>
    %x = fcdp.read_input @x : tensor<4x8xf32>
    %p = aten.call "aten.pow.Tensor_Scalar"(self = %x, exponent = 2) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %m = aten.call "aten.mean.dim"(self = %p, dim = [-1], keepdim = true) {fcdp.recompute = false} : (tensor<4x8xf32>) -> tensor<4x1xf32>
    %e = aten.call "aten.add.Scalar"(self = %m, other = 1.0e-5) : (tensor<4x1xf32>) -> tensor<4x1xf32>
    %r = aten.call "aten.rsqrt.default"(self = %e) : (tensor<4x1xf32>) -> tensor<4x1xf32>
    %d = aten.call "aten.detach.default"(self = %r) : (tensor<4x1xf32>) -> tensor<4x1xf32>
    %s = aten.call "aten.mul.Tensor"(self = %x, other = %r) : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
    %l = aten.call "aten.sum.default"(self = %s) : (tensor<4x8xf32>) -> tensor<f32>
    fcdp.loss %l : tensor<f32>
    return
  }
}

// -----

// DontFuseOtherDimensions: the mean over the first dimension.
// CHECK-LABEL: func.func @step
// CHECK-NOT: _fused_rms_norm
// CHECK: "aten.rsqrt.default"
// CHECK: return
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @w : tensor<8xf32> unit "norm" trainable names ["w"]
  fcdp.input @x : tensor<4x8xf32> name "x"
  func.func @step() {
    %w = fcdp.read_parameter @w : tensor<8xf32>
    %x = fcdp.read_input @x : tensor<4x8xf32>
    %p = aten.call "aten.pow.Tensor_Scalar"(self = %x, exponent = 2) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %m = aten.call "aten.mean.dim"(self = %p, dim = [0], keepdim = true) : (tensor<4x8xf32>) -> tensor<1x8xf32>
    %e = aten.call "aten.add.Scalar"(self = %m, other = 1.0e-5) : (tensor<1x8xf32>) -> tensor<1x8xf32>
    %r = aten.call "aten.rsqrt.default"(self = %e) : (tensor<1x8xf32>) -> tensor<1x8xf32>
    %d = aten.call "aten.detach.default"(self = %r) : (tensor<1x8xf32>) -> tensor<1x8xf32>
    %s = aten.call "aten.mul.Tensor"(self = %x, other = %r) : (tensor<4x8xf32>, tensor<1x8xf32>) -> tensor<4x8xf32>
    %l = aten.call "aten.sum.default"(self = %s) : (tensor<4x8xf32>) -> tensor<f32>
    fcdp.loss %l : tensor<f32>
    return
  }
}
