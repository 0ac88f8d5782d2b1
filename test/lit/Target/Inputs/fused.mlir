module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @w : tensor<16x16xf32> unit "fc" trainable names ["w"]
  fcdp.input @x : tensor<16x16xf32> name "x"
  func.func @step() {
    %x = fcdp.read_input @x : tensor<16x16xf32>
    %w = fcdp.read_parameter @w : tensor<16x16xf32>
    %h = aten.call "aten.mm.default"(self = %x, mat2 = %w) : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %s = aten.call "aten.silu.default"(self = %h) : (tensor<16x16xf32>) -> tensor<16x16xf32>
    %y = aten.call "aten.mul.Tensor"(self = %s, other = 3.0) : (tensor<16x16xf32>) -> tensor<16x16xf32>
    %l = aten.call "aten.sum.default"(self = %y) : (tensor<16x16xf32>) -> tensor<f32>
    fcdp.loss %l : tensor<f32>
    fcdp.gradient %y of @w : tensor<16x16xf32>
    return
  }
}
