// Operators under torch.utils.checkpoint are computed again, whatever the option
// is, but not those whose results the rest of the forward pass reads.
// RUN: fcdp-opt %s --fcdp-decide-remat | FileCheck %s --implicit-check-not=checkpoint_region
// RUN: fcdp-opt %s --fcdp-decide-remat=remat=unit | FileCheck %s --implicit-check-not=checkpoint_region
// RUN: fcdp-opt %s --fcdp-decide-remat --fcdp-remat | FileCheck %s --check-prefix=AGAIN

module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @w : tensor<4x4xf32> unit "w" trainable names ["w"]
  fcdp.input @x : tensor<4x4xf32> name "x"
  // CHECK-LABEL: func.func @step
  // AGAIN-LABEL: func.func @step
  func.func @step() {
    %x = fcdp.read_input @x : tensor<4x4xf32>
    %w = fcdp.read_parameter @w : tensor<4x4xf32>
    // A view has no memory of its own.
    // CHECK: "aten.t.default"(self = %{{.*}}) : (
    %t = aten.call "aten.t.default"(self = %w) {fcdp.checkpoint_region = 0 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    // CHECK: "aten.mm.default"{{.*}} {fcdp.recompute = true} : (
    %p = aten.call "aten.mm.default"(self = %x, mat2 = %t) {fcdp.checkpoint_region = 0 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    // A choice made by hand wins.
    // CHECK: "aten.sin.default"{{.*}} {fcdp.recompute = false} : (
    %s = aten.call "aten.sin.default"(self = %p) {fcdp.checkpoint_region = 0 : i64, fcdp.recompute = false} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    // DontRecompute: what draws random numbers runs once.
    // CHECK: "aten.native_dropout.default"(input = %{{.*}}) : (
    %d, %m = aten.call "aten.native_dropout.default"(input = %s, p = 5.000000e-01, train = true) {fcdp.checkpoint_region = 0 : i64} : (tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xi1>)
    // DontRecompute: the next region reads it.
    // CHECK: "aten.cos.default"(self = %{{.*}}) : (
    %y = aten.call "aten.cos.default"(self = %d) {fcdp.checkpoint_region = 0 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    // CHECK: "aten.exp.default"{{.*}} {fcdp.recompute = true} : (
    %e = aten.call "aten.exp.default"(self = %y) {fcdp.checkpoint_region = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    // CHECK: "aten.tanh.default"(self = %{{.*}}) : (
    %z = aten.call "aten.tanh.default"(self = %e) {fcdp.checkpoint_region = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    // CHECK: "aten.sum.default"
    // AGAIN: "aten.sum.default"
    %l = aten.call "aten.sum.default"(self = %z) : (tensor<4x4xf32>) -> tensor<f32>
    // AGAIN-NEXT: %[[E:.*]] = aten.call "aten.exp.default"{{.*}} {fcdp.repeated}
    // AGAIN-NEXT: "aten.mul.Tensor"(self = %{{.*}}, other = %[[E]])
    %gz = aten.call "aten.mul.Tensor"(self = %z, other = %e) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %gd = aten.call "aten.mul.Tensor"(self = %gz, other = %s) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    // AGAIN: %[[P:.*]] = aten.call "aten.mm.default"{{.*}} {fcdp.repeated}
    // AGAIN-NEXT: "aten.mul.Tensor"(self = %{{.*}}, other = %[[P]])
    %g = aten.call "aten.mul.Tensor"(self = %gd, other = %p) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    fcdp.loss %l : tensor<f32>
    fcdp.gradient %g of @w : tensor<4x4xf32>
    return
  }
}
