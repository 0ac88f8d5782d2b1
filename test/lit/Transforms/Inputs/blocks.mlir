// Two blocks between an embedding and an output layer. A block adds to its input
// the squares of a product, which is what its backward pass needs again.
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @e : tensor<5x4xf32> unit "e" trainable names ["e"]
  fcdp.parameter @a : tensor<4x4xf32> unit "blocks.0" trainable names ["a"]
  fcdp.parameter @b : tensor<4x4xf32> unit "blocks.1" trainable names ["b"]
  fcdp.parameter @h : tensor<4x4xf32> unit "h" trainable names ["h"]
  fcdp.input @ids : tensor<4xi64> name "ids" limit 5
  func.func @step() {
    %ids = fcdp.read_input @ids : tensor<4xi64>
    %e = fcdp.read_parameter @e : tensor<5x4xf32>
    %a = fcdp.read_parameter @a : tensor<4x4xf32>
    %b = fcdp.read_parameter @b : tensor<4x4xf32>
    %h = fcdp.read_parameter @h : tensor<4x4xf32>
    %x0 = aten.call "aten.embedding.default"(weight = %e, indices = %ids) : (tensor<5x4xf32>, tensor<4xi64>) -> tensor<4x4xf32>
    %ta = aten.call "aten.t.default"(self = %a) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %pa = aten.call "aten.mm.default"(self = %x0, mat2 = %ta) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %va = aten.call "aten.view.default"(self = %pa, size = [16]) : (tensor<4x4xf32>) -> tensor<16xf32>
    %qa = aten.call "aten.mul.Tensor"(self = %va, other = %va) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
    %ra = aten.call "aten.view.default"(self = %qa, size = [4, 4]) : (tensor<16xf32>) -> tensor<4x4xf32>
    %x1 = aten.call "aten.add.Tensor"(self = %x0, other = %ra) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %tb = aten.call "aten.t.default"(self = %b) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %pb = aten.call "aten.mm.default"(self = %x1, mat2 = %tb) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %vb = aten.call "aten.view.default"(self = %pb, size = [16]) : (tensor<4x4xf32>) -> tensor<16xf32>
    %qb = aten.call "aten.mul.Tensor"(self = %vb, other = %vb) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
    %rb = aten.call "aten.view.default"(self = %qb, size = [4, 4]) : (tensor<16xf32>) -> tensor<4x4xf32>
    %x2 = aten.call "aten.add.Tensor"(self = %x1, other = %rb) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %y = aten.call "aten.mm.default"(self = %x2, mat2 = %h) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %l = aten.call "aten.sum.default"(self = %y) : (tensor<4x4xf32>) -> tensor<f32>
    %one = aten.call "aten.ones_like.default"(self = %l) : (tensor<f32>) -> tensor<f32>
    %gy = aten.call "aten.expand.default"(self = %one, size = [4, 4]) : (tensor<f32>) -> tensor<4x4xf32>
    %x2t = aten.call "aten.t.default"(self = %x2) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %gh = aten.call "aten.mm.default"(self = %x2t, mat2 = %gy) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %ht = aten.call "aten.t.default"(self = %h) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %g2 = aten.call "aten.mm.default"(self = %gy, mat2 = %ht) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %gvb = aten.call "aten.view.default"(self = %g2, size = [16]) : (tensor<4x4xf32>) -> tensor<16xf32>
    %gqb = aten.call "aten.mul.Tensor"(self = %gvb, other = %vb) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
    %gpb = aten.call "aten.view.default"(self = %gqb, size = [4, 4]) : (tensor<16xf32>) -> tensor<4x4xf32>
    %gtb = aten.call "aten.t.default"(self = %gpb) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %gb = aten.call "aten.mm.default"(self = %gtb, mat2 = %x1) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %ttb = aten.call "aten.t.default"(self = %tb) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %db = aten.call "aten.mm.default"(self = %gpb, mat2 = %ttb) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %g1 = aten.call "aten.add.Tensor"(self = %g2, other = %db) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %gva = aten.call "aten.view.default"(self = %g1, size = [16]) : (tensor<4x4xf32>) -> tensor<16xf32>
    %gqa = aten.call "aten.mul.Tensor"(self = %gva, other = %va) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
    %gpa = aten.call "aten.view.default"(self = %gqa, size = [4, 4]) : (tensor<16xf32>) -> tensor<4x4xf32>
    %gta = aten.call "aten.t.default"(self = %gpa) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %ga = aten.call "aten.mm.default"(self = %gta, mat2 = %x0) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %tta = aten.call "aten.t.default"(self = %ta) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %da = aten.call "aten.mm.default"(self = %gpa, mat2 = %tta) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %g0 = aten.call "aten.add.Tensor"(self = %g1, other = %da) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %ge = aten.call "aten.embedding_dense_backward.default"(grad_output = %g0, indices = %ids, num_weights = 5) : (tensor<4x4xf32>, tensor<4xi64>) -> tensor<5x4xf32>
    fcdp.loss %l : tensor<f32>
    fcdp.gradient %ge of @e : tensor<5x4xf32>
    fcdp.gradient %ga of @a : tensor<4x4xf32>
    fcdp.gradient %gb of @b : tensor<4x4xf32>
    fcdp.gradient %gh of @h : tensor<4x4xf32>
    return
  }
}
