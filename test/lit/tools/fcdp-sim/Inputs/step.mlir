// Two layers on 4 tokens: the embedding is frozen, the two products are trained.
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @e : tensor<16x8xf32> unit "emb" names ["emb.weight"]
  fcdp.parameter @a : tensor<8x8xf32> unit "a" trainable names ["a.weight"]
  fcdp.parameter @b : tensor<8x8xf32> unit "b" trainable names ["b.weight"]
  fcdp.input @ids : tensor<4xi64> name "ids" limit 16
  func.func @step() {
    %e = fcdp.read_parameter @e : tensor<16x8xf32>
    %a = fcdp.read_parameter @a : tensor<8x8xf32>
    %b = fcdp.read_parameter @b : tensor<8x8xf32>
    %ids = fcdp.read_input @ids : tensor<4xi64>
    %x = aten.call "aten.embedding.default"(weight = %e, indices = %ids) : (tensor<16x8xf32>, tensor<4xi64>) -> tensor<4x8xf32>
    %h = aten.call "aten.mm.default"(self = %x, mat2 = %a) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %y = aten.call "aten.mm.default"(self = %h, mat2 = %b) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %l = aten.call "aten.sum.default"(self = %y) : (tensor<4x8xf32>) -> tensor<f32>
    %g = aten.call "aten.ones_like.default"(self = %y) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %ht = aten.call "aten.t.default"(self = %h) : (tensor<4x8xf32>) -> tensor<8x4xf32>
    %gb = aten.call "aten.mm.default"(self = %ht, mat2 = %g) : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
    %bt = aten.call "aten.t.default"(self = %b) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %gh = aten.call "aten.mm.default"(self = %g, mat2 = %bt) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %xt = aten.call "aten.t.default"(self = %x) : (tensor<4x8xf32>) -> tensor<8x4xf32>
    %ga = aten.call "aten.mm.default"(self = %xt, mat2 = %gh) : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
    fcdp.loss %l : tensor<f32>
    fcdp.gradient %gb of @b : tensor<8x8xf32>
    fcdp.gradient %ga of @a : tensor<8x8xf32>
    return
  }
}
