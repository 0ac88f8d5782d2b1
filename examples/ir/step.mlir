// SPDX-License-Identifier: Apache-2.0
//
// The step that model.py exports, as fcdp-translate imports it.
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @layers.0.up.weight : tensor<8x4xf32> unit "layers.0" trainable names ["layers.0.up.weight"]
  fcdp.parameter @layers.0.down.weight : tensor<4x8xf32> unit "layers.0" trainable names ["layers.0.down.weight"]
  fcdp.parameter @layers.1.up.weight : tensor<8x4xf32> unit "layers.1" trainable names ["layers.1.up.weight"]
  fcdp.parameter @layers.1.down.weight : tensor<4x8xf32> unit "layers.1" trainable names ["layers.1.down.weight"]
  fcdp.input @x : tensor<3x4xf32> name "x"
  func.func @step() {
    %0 = fcdp.read_parameter @layers.0.up.weight : tensor<8x4xf32>
    %1 = fcdp.read_parameter @layers.0.down.weight : tensor<4x8xf32>
    %2 = fcdp.read_parameter @layers.1.up.weight : tensor<8x4xf32>
    %3 = fcdp.read_parameter @layers.1.down.weight : tensor<4x8xf32>
    %4 = fcdp.read_input @x : tensor<3x4xf32>
    %5 = aten.call "aten.t.default"(self = %0) : (tensor<8x4xf32>) -> tensor<4x8xf32>
    %6 = aten.call "aten.mm.default"(self = %4, mat2 = %5) : (tensor<3x4xf32>, tensor<4x8xf32>) -> tensor<3x8xf32>
    %7 = aten.call "aten.tanh.default"(self = %6) : (tensor<3x8xf32>) -> tensor<3x8xf32>
    %8 = aten.call "aten.detach.default"(self = %7) : (tensor<3x8xf32>) -> tensor<3x8xf32>
    %9 = aten.call "aten.t.default"(self = %1) : (tensor<4x8xf32>) -> tensor<8x4xf32>
    %10 = aten.call "aten.mm.default"(self = %7, mat2 = %9) : (tensor<3x8xf32>, tensor<8x4xf32>) -> tensor<3x4xf32>
    %11 = aten.call "aten.t.default"(self = %2) : (tensor<8x4xf32>) -> tensor<4x8xf32>
    %12 = aten.call "aten.mm.default"(self = %10, mat2 = %11) : (tensor<3x4xf32>, tensor<4x8xf32>) -> tensor<3x8xf32>
    %13 = aten.call "aten.tanh.default"(self = %12) : (tensor<3x8xf32>) -> tensor<3x8xf32>
    %14 = aten.call "aten.detach.default"(self = %13) : (tensor<3x8xf32>) -> tensor<3x8xf32>
    %15 = aten.call "aten.t.default"(self = %3) : (tensor<4x8xf32>) -> tensor<8x4xf32>
    %16 = aten.call "aten.mm.default"(self = %13, mat2 = %15) : (tensor<3x8xf32>, tensor<8x4xf32>) -> tensor<3x4xf32>
    %17 = aten.call "aten.pow.Tensor_Scalar"(self = %16, exponent = 2) : (tensor<3x4xf32>) -> tensor<3x4xf32>
    %18 = aten.call "aten.mean.default"(self = %17) : (tensor<3x4xf32>) -> tensor<f32>
    %19 = aten.call "aten.ones_like.default"(self = %18, pin_memory = false, memory_format = #aten.memory_format<preserve>) : (tensor<f32>) -> tensor<f32>
    %20 = aten.call "aten.expand.default"(self = %19, size = [3, 4]) : (tensor<f32>) -> tensor<3x4xf32>
    %21 = aten.call "aten.div.Scalar"(self = %20, other = 12) : (tensor<3x4xf32>) -> tensor<3x4xf32>
    %22 = aten.call "aten.pow.Tensor_Scalar"(self = %16, exponent = 1.000000e+00) : (tensor<3x4xf32>) -> tensor<3x4xf32>
    %23 = aten.call "aten.mul.Scalar"(self = %22, other = 2.000000e+00) : (tensor<3x4xf32>) -> tensor<3x4xf32>
    %24 = aten.call "aten.mul.Tensor"(self = %21, other = %23) : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
    %25 = aten.call "aten.t.default"(self = %24) : (tensor<3x4xf32>) -> tensor<4x3xf32>
    %26 = aten.call "aten.mm.default"(self = %25, mat2 = %13) : (tensor<4x3xf32>, tensor<3x8xf32>) -> tensor<4x8xf32>
    %27 = aten.call "aten.t.default"(self = %26) : (tensor<4x8xf32>) -> tensor<8x4xf32>
    %28 = aten.call "aten.t.default"(self = %15) : (tensor<8x4xf32>) -> tensor<4x8xf32>
    %29 = aten.call "aten.mm.default"(self = %24, mat2 = %28) : (tensor<3x4xf32>, tensor<4x8xf32>) -> tensor<3x8xf32>
    %30 = aten.call "aten.t.default"(self = %27) : (tensor<8x4xf32>) -> tensor<4x8xf32>
    %31 = aten.call "aten.tanh_backward.default"(grad_output = %29, output = %14) : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
    %32 = aten.call "aten.t.default"(self = %31) : (tensor<3x8xf32>) -> tensor<8x3xf32>
    %33 = aten.call "aten.mm.default"(self = %32, mat2 = %10) : (tensor<8x3xf32>, tensor<3x4xf32>) -> tensor<8x4xf32>
    %34 = aten.call "aten.t.default"(self = %33) : (tensor<8x4xf32>) -> tensor<4x8xf32>
    %35 = aten.call "aten.t.default"(self = %11) : (tensor<4x8xf32>) -> tensor<8x4xf32>
    %36 = aten.call "aten.mm.default"(self = %31, mat2 = %35) : (tensor<3x8xf32>, tensor<8x4xf32>) -> tensor<3x4xf32>
    %37 = aten.call "aten.t.default"(self = %34) : (tensor<4x8xf32>) -> tensor<8x4xf32>
    %38 = aten.call "aten.t.default"(self = %36) : (tensor<3x4xf32>) -> tensor<4x3xf32>
    %39 = aten.call "aten.mm.default"(self = %38, mat2 = %7) : (tensor<4x3xf32>, tensor<3x8xf32>) -> tensor<4x8xf32>
    %40 = aten.call "aten.t.default"(self = %39) : (tensor<4x8xf32>) -> tensor<8x4xf32>
    %41 = aten.call "aten.t.default"(self = %9) : (tensor<8x4xf32>) -> tensor<4x8xf32>
    %42 = aten.call "aten.mm.default"(self = %36, mat2 = %41) : (tensor<3x4xf32>, tensor<4x8xf32>) -> tensor<3x8xf32>
    %43 = aten.call "aten.t.default"(self = %40) : (tensor<8x4xf32>) -> tensor<4x8xf32>
    %44 = aten.call "aten.tanh_backward.default"(grad_output = %42, output = %8) : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
    %45 = aten.call "aten.t.default"(self = %44) : (tensor<3x8xf32>) -> tensor<8x3xf32>
    %46 = aten.call "aten.mm.default"(self = %45, mat2 = %4) : (tensor<8x3xf32>, tensor<3x4xf32>) -> tensor<8x4xf32>
    %47 = aten.call "aten.t.default"(self = %46) : (tensor<8x4xf32>) -> tensor<4x8xf32>
    %48 = aten.call "aten.t.default"(self = %47) : (tensor<4x8xf32>) -> tensor<8x4xf32>
    fcdp.loss %18 : tensor<f32>
    fcdp.gradient %48 of @layers.0.up.weight : tensor<8x4xf32>
    fcdp.gradient %43 of @layers.0.down.weight : tensor<4x8xf32>
    fcdp.gradient %37 of @layers.1.up.weight : tensor<8x4xf32>
    fcdp.gradient %30 of @layers.1.down.weight : tensor<4x8xf32>
    return
  }
}
