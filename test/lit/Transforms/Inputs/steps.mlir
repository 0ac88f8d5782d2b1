// Small imported steps, for split-file.

//--- layers.mlir
// An embedding that is tied to the output layer, layers with a bias, one of
// them frozen, and unused parameters.
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @wte : tensor<5x4xf32> unit "wte" trainable names ["wte", "head"]
  fcdp.parameter @a.weight : tensor<4x4xf32> unit "a" trainable names ["a.weight"]
  fcdp.parameter @a.bias : tensor<4xf32> unit "a" trainable names ["a.bias"]
  fcdp.parameter @b.base : tensor<4x4xf32> unit "b" names ["b.base"]
  fcdp.parameter @b.lora : tensor<4x4xf32> unit "b" trainable names ["b.lora"]
  fcdp.parameter @unused : tensor<3xf32> unit "c" names ["unused"]
  fcdp.input @ids : tensor<3xi64> name "ids" limit 5
  func.func @step() {
    %wte = fcdp.read_parameter @wte : tensor<5x4xf32>
    %aw = fcdp.read_parameter @a.weight : tensor<4x4xf32>
    %ab = fcdp.read_parameter @a.bias : tensor<4xf32>
    %bb = fcdp.read_parameter @b.base : tensor<4x4xf32>
    %bl = fcdp.read_parameter @b.lora : tensor<4x4xf32>
    %ids = fcdp.read_input @ids : tensor<3xi64>
    %x = aten.call "aten.embedding.default"(weight = %wte, indices = %ids) : (tensor<5x4xf32>, tensor<3xi64>) -> tensor<3x4xf32>
    %at = aten.call "aten.t.default"(self = %aw) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %h = aten.call "aten.addmm.default"(self = %ab, mat1 = %x, mat2 = %at) : (tensor<4xf32>, tensor<3x4xf32>, tensor<4x4xf32>) -> tensor<3x4xf32>
    %k0 = aten.call "aten.mm.default"(self = %h, mat2 = %bb) : (tensor<3x4xf32>, tensor<4x4xf32>) -> tensor<3x4xf32>
    %k1 = aten.call "aten.mm.default"(self = %h, mat2 = %bl) : (tensor<3x4xf32>, tensor<4x4xf32>) -> tensor<3x4xf32>
    %k = aten.call "aten.add.Tensor"(self = %k0, other = %k1) : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
    %wt = aten.call "aten.t.default"(self = %wte) : (tensor<5x4xf32>) -> tensor<4x5xf32>
    %y = aten.call "aten.mm.default"(self = %k, mat2 = %wt) : (tensor<3x4xf32>, tensor<4x5xf32>) -> tensor<3x5xf32>
    %l = aten.call "aten.sum.default"(self = %y) : (tensor<3x5xf32>) -> tensor<f32>
    %one = aten.call "aten.ones_like.default"(self = %l) : (tensor<f32>) -> tensor<f32>
    %gy = aten.call "aten.expand.default"(self = %one, size = [3, 5]) : (tensor<f32>) -> tensor<3x5xf32>
    %gyt = aten.call "aten.t.default"(self = %gy) : (tensor<3x5xf32>) -> tensor<5x3xf32>
    %gw0 = aten.call "aten.mm.default"(self = %gyt, mat2 = %k) : (tensor<5x3xf32>, tensor<3x4xf32>) -> tensor<5x4xf32>
    %wtt = aten.call "aten.t.default"(self = %wt) : (tensor<4x5xf32>) -> tensor<5x4xf32>
    %gk = aten.call "aten.mm.default"(self = %gy, mat2 = %wtt) : (tensor<3x5xf32>, tensor<5x4xf32>) -> tensor<3x4xf32>
    %ht = aten.call "aten.t.default"(self = %h) : (tensor<3x4xf32>) -> tensor<4x3xf32>
    %gbl = aten.call "aten.mm.default"(self = %ht, mat2 = %gk) : (tensor<4x3xf32>, tensor<3x4xf32>) -> tensor<4x4xf32>
    %bbt = aten.call "aten.t.default"(self = %bb) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %blt = aten.call "aten.t.default"(self = %bl) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %gh0 = aten.call "aten.mm.default"(self = %gk, mat2 = %bbt) : (tensor<3x4xf32>, tensor<4x4xf32>) -> tensor<3x4xf32>
    %gh1 = aten.call "aten.mm.default"(self = %gk, mat2 = %blt) : (tensor<3x4xf32>, tensor<4x4xf32>) -> tensor<3x4xf32>
    %gh = aten.call "aten.add.Tensor"(self = %gh0, other = %gh1) : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
    %ght = aten.call "aten.t.default"(self = %gh) : (tensor<3x4xf32>) -> tensor<4x3xf32>
    %gaw = aten.call "aten.mm.default"(self = %ght, mat2 = %x) : (tensor<4x3xf32>, tensor<3x4xf32>) -> tensor<4x4xf32>
    %gab = aten.call "aten.sum.dim_IntList"(self = %gh, dim = [0]) : (tensor<3x4xf32>) -> tensor<4xf32>
    %gx = aten.call "aten.mm.default"(self = %gh, mat2 = %aw) : (tensor<3x4xf32>, tensor<4x4xf32>) -> tensor<3x4xf32>
    %gw1 = aten.call "aten.embedding_dense_backward.default"(grad_output = %gx, indices = %ids, num_weights = 5) : (tensor<3x4xf32>, tensor<3xi64>) -> tensor<5x4xf32>
    %gw = aten.call "aten.add.Tensor"(self = %gw0, other = %gw1) : (tensor<5x4xf32>, tensor<5x4xf32>) -> tensor<5x4xf32>
    fcdp.loss %l : tensor<f32>
    fcdp.gradient %gw of @wte : tensor<5x4xf32>
    fcdp.gradient %gaw of @a.weight : tensor<4x4xf32>
    fcdp.gradient %gab of @a.bias : tensor<4xf32>
    fcdp.gradient %gbl of @b.lora : tensor<4x4xf32>
    return
  }
}

//--- types.mlir
// f32 that is used as bf16, bf16 and f16 storage with gradients in these types,
// and f64, some of it used as f32.
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @cast : tensor<4x3xf32> unit "a" trainable names ["cast"]
  fcdp.parameter @half : tensor<3x5xbf16> unit "a" trainable names ["half"]
  fcdp.parameter @small : tensor<5x2xf16> unit "b" trainable names ["small"]
  fcdp.parameter @large : tensor<2x7xf64> unit "b" trainable names ["large"]
  fcdp.parameter @frozen : tensor<2x7xf64> unit "b" names ["frozen"]
  fcdp.input @x : tensor<2x4xbf16> name "x"
  func.func @step() {
    %cast = fcdp.read_parameter @cast : tensor<4x3xf32>
    %half = fcdp.read_parameter @half : tensor<3x5xbf16>
    %small = fcdp.read_parameter @small : tensor<5x2xf16>
    %large = fcdp.read_parameter @large : tensor<2x7xf64>
    %frozen = fcdp.read_parameter @frozen : tensor<2x7xf64>
    %x = fcdp.read_input @x : tensor<2x4xbf16>
    %c = aten.call "aten._to_copy.default"(self = %cast, dtype = bf16) : (tensor<4x3xf32>) -> tensor<4x3xbf16>
    %0 = aten.call "aten.mm.default"(self = %x, mat2 = %c) : (tensor<2x4xbf16>, tensor<4x3xbf16>) -> tensor<2x3xbf16>
    %1 = aten.call "aten.mm.default"(self = %0, mat2 = %half) : (tensor<2x3xbf16>, tensor<3x5xbf16>) -> tensor<2x5xbf16>
    %2 = aten.call "aten._to_copy.default"(self = %1, dtype = f16) : (tensor<2x5xbf16>) -> tensor<2x5xf16>
    %3 = aten.call "aten.mm.default"(self = %2, mat2 = %small) : (tensor<2x5xf16>, tensor<5x2xf16>) -> tensor<2x2xf16>
    %4 = aten.call "aten._to_copy.default"(self = %3, dtype = f64) : (tensor<2x2xf16>) -> tensor<2x2xf64>
    %f = aten.call "aten._to_copy.default"(self = %frozen, dtype = f32) : (tensor<2x7xf64>) -> tensor<2x7xf32>
    %f2 = aten.call "aten._to_copy.default"(self = %f, dtype = f64) : (tensor<2x7xf32>) -> tensor<2x7xf64>
    %w = aten.call "aten.add.Tensor"(self = %large, other = %f2) : (tensor<2x7xf64>, tensor<2x7xf64>) -> tensor<2x7xf64>
    %5 = aten.call "aten.mm.default"(self = %4, mat2 = %w) : (tensor<2x2xf64>, tensor<2x7xf64>) -> tensor<2x7xf64>
    %l = aten.call "aten.sum.default"(self = %5) : (tensor<2x7xf64>) -> tensor<f64>
    %t4 = aten.call "aten.t.default"(self = %4) : (tensor<2x2xf64>) -> tensor<2x2xf64>
    %glarge = aten.call "aten.mm.default"(self = %t4, mat2 = %5) : (tensor<2x2xf64>, tensor<2x7xf64>) -> tensor<2x7xf64>
    %t2 = aten.call "aten.t.default"(self = %2) : (tensor<2x5xf16>) -> tensor<5x2xf16>
    %gsmall = aten.call "aten.mm.default"(self = %t2, mat2 = %3) : (tensor<5x2xf16>, tensor<2x2xf16>) -> tensor<5x2xf16>
    %t1 = aten.call "aten.t.default"(self = %0) : (tensor<2x3xbf16>) -> tensor<3x2xbf16>
    %ghalf = aten.call "aten.mm.default"(self = %t1, mat2 = %1) : (tensor<3x2xbf16>, tensor<2x5xbf16>) -> tensor<3x5xbf16>
    %tx = aten.call "aten.t.default"(self = %x) : (tensor<2x4xbf16>) -> tensor<4x2xbf16>
    %gh = aten.call "aten.t.default"(self = %half) : (tensor<3x5xbf16>) -> tensor<5x3xbf16>
    %g0 = aten.call "aten.mm.default"(self = %1, mat2 = %gh) : (tensor<2x5xbf16>, tensor<5x3xbf16>) -> tensor<2x3xbf16>
    %gc = aten.call "aten.mm.default"(self = %tx, mat2 = %g0) : (tensor<4x2xbf16>, tensor<2x3xbf16>) -> tensor<4x3xbf16>
    %gcast = aten.call "aten._to_copy.default"(self = %gc, dtype = f32) : (tensor<4x3xbf16>) -> tensor<4x3xf32>
    fcdp.loss %l : tensor<f64>
    fcdp.gradient %gcast of @cast : tensor<4x3xf32>
    fcdp.gradient %ghalf of @half : tensor<3x5xbf16>
    fcdp.gradient %gsmall of @small : tensor<5x2xf16>
    fcdp.gradient %glarge of @large : tensor<2x7xf64>
    return
  }
}

//--- corners.mlir
// A parameter that is the loss, one that is another's gradient, one that only
// the backward pass reads, one that an operation reads twice, parts of a
// parameter in a unit that has none on most ranks, an operator that the
// compiler does not know and that keeps a parameter alive through another
// unit's use, a parameter without elements, and a frozen bucket that is the
// first thing a micro-batch loads.
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @loss : tensor<f32> unit "loss" trainable names ["loss"]
  fcdp.parameter @gradient : tensor<4x2xf32> unit "gradient" trainable names ["gradient"]
  fcdp.parameter @backward : tensor<4x2xf32> unit "backward" trainable names ["backward"]
  fcdp.parameter @twice : tensor<4x2xf32> unit "twice" trainable names ["twice"]
  fcdp.parameter @parts : tensor<4x2xf32> unit "parts" names ["parts"]
  fcdp.parameter @kept : tensor<4x2xf32> unit "kept" trainable names ["kept"]
  fcdp.parameter @empty : tensor<0xf32> unit "empty" trainable names ["empty"]
  fcdp.parameter @first : tensor<4x2xf32> unit "first" names ["first"]
  fcdp.input @x : tensor<4x2xf32> name "x"
  func.func @step() {
    %first = fcdp.read_parameter @first : tensor<4x2xf32>
    %f = aten.call "aten.neg.default"(self = %first) : (tensor<4x2xf32>) -> tensor<4x2xf32>
    %x = fcdp.read_input @x : tensor<4x2xf32>
    %loss = fcdp.read_parameter @loss : tensor<f32>
    %gradient = fcdp.read_parameter @gradient : tensor<4x2xf32>
    %backward = fcdp.read_parameter @backward : tensor<4x2xf32>
    %twice = fcdp.read_parameter @twice : tensor<4x2xf32>
    %parts = fcdp.read_parameter @parts : tensor<4x2xf32>
    %kept = fcdp.read_parameter @kept : tensor<4x2xf32>
    %empty = fcdp.read_parameter @empty : tensor<0xf32>
    %alias = aten.call "custom.alias.default"(self = %kept) : (tensor<4x2xf32>) -> tensor<4x2xf32>
    %p:2 = aten.call "aten.split.Tensor"(self = %parts, split_size = 2) : (tensor<4x2xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>)
    %r:2 = aten.call "aten.unbind.int"(self = %p#1) : (tensor<2x2xf32>) -> (tensor<2xf32>, tensor<2xf32>)
    %0 = aten.call "aten.mul.Tensor"(self = %twice, other = %twice) : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
    %1 = aten.call "aten.mul.Tensor"(self = %0, other = %r#1) : (tensor<4x2xf32>, tensor<2xf32>) -> tensor<4x2xf32>
    %2 = aten.call "aten.add.Tensor"(self = %1, other = %f) : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
    %3 = aten.call "aten.mul.Tensor"(self = %2, other = %x) : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
    %4 = aten.call "aten.mul.Tensor"(self = %3, other = %backward) : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
    %5 = aten.call "aten.cat.default"(tensors = [%p#1, %p#0]) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<4x2xf32>
    %6 = aten.call "aten.mul.Tensor"(self = %4, other = %alias) : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
    %7 = aten.call "aten.add.Tensor"(self = %6, other = %5) : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
    %e = aten.call "aten.neg.default"(self = %empty) : (tensor<0xf32>) -> tensor<0xf32>
    %one = aten.call "aten.ones_like.default"(self = %loss) : (tensor<f32>) -> tensor<f32>
    fcdp.loss %loss : tensor<f32>
    fcdp.gradient %one of @loss : tensor<f32>
    fcdp.gradient %backward of @gradient : tensor<4x2xf32>
    fcdp.gradient %x of @backward : tensor<4x2xf32>
    fcdp.gradient %7 of @twice : tensor<4x2xf32>
    fcdp.gradient %alias of @kept : tensor<4x2xf32>
    fcdp.gradient %e of @empty : tensor<0xf32>
    return
  }
}

//--- empty.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.input @x : tensor<f32> name "x"
  func.func @step() {
    %x = fcdp.read_input @x : tensor<f32>
    fcdp.loss %x : tensor<f32>
    return
  }
}
