// A step with constants and a frozen parameter, which @init gathers.
module attributes {fcdp.archive = "step.pt2", fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["fc.weight"]
  fcdp.parameter @e : tensor<3x4xf32> unit "emb" names ["emb.weight"]
  fcdp.buffer @mask : tensor<5xi1> name "mask"
  fcdp.buffer @scale : tensor<2xf64> name "scale"
  func.func @step() {
    %w = fcdp.read_parameter @w : tensor<3x4xf32>
    %e = fcdp.read_parameter @e : tensor<3x4xf32>
    %scale = fcdp.read_buffer @scale : tensor<2xf64>
    %twice = aten.call "aten.mul.Tensor"(self = %scale, other = %scale) : (tensor<2xf64>, tensor<2xf64>) -> tensor<2xf64>
    %x = aten.call "aten.neg.default"(self = %e) : (tensor<3x4xf32>) -> tensor<3x4xf32>
    %y = aten.call "aten.mul.Tensor"(self = %x, other = %w) : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
    %l = aten.call "aten.sum.default"(self = %y) : (tensor<3x4xf32>) -> tensor<f32>
    fcdp.loss %l : tensor<f32>
    fcdp.gradient %x of @w : tensor<3x4xf32>
    return
  }
}
