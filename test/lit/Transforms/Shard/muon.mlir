// RUN: split-file %s %t

// Matrices of hidden layers are Muon's: neither the embedding, nor the head, nor
// what has another number of dimensions. The rest is AdamW's.
// RUN: fcdp-opt %t/step.mlir --fcdp-shard="optimizer=muon" | FileCheck %s --check-prefix=DEFAULT
// DEFAULT: fcdp.shard_update @embedding scale 1.000000e+00 with #fcdp.adamw<lr = 1.000000e-03 :
// DEFAULT: fcdp.shard_update @in scale 1.000000e+00 with #fcdp.muon<lr = 1.000000e-03 : f64, weight_decay = 1.000000e-01 : f64, momentum = {{0.949.*}} : f64, nesterov = true, ns_a = 3.444500e+00 : f64, ns_b = -4.775000e+00 : f64, ns_c = 2.031500e+00 : f64, eps = {{9.9999.*E-8}} : f64, ns_steps = 5, adjust_lr_fn = original>
// DEFAULT: fcdp.shard_update @bias scale 1.000000e+00 with #fcdp.adamw
// DEFAULT: fcdp.shard_update @kernel scale 1.000000e+00 with #fcdp.adamw
// DEFAULT: fcdp.shard_update @out scale 1.000000e+00 with #fcdp.muon
// DEFAULT: fcdp.shard_update @head scale 1.000000e+00 with #fcdp.adamw
// DEFAULT: fcdp.shard_update @unused scale 1.000000e+00 with #fcdp.muon

// All settings, of both.
// RUN: fcdp-opt %t/step.mlir --fcdp-shard="optimizer=muon,lr=5e-01,weight_decay=0,momentum=2.5e-01,nesterov=0,ns_a=1,ns_b=-2,ns_c=3,eps=0,ns_steps=7,adjust_lr_fn=match_rms_adamw+sgd,lr=1e+1" | FileCheck %s --check-prefix=SET
// SET: fcdp.shard_update @embedding scale 1.000000e+00 with #fcdp.sgd<lr = 1.000000e+01 :
// SET: fcdp.shard_update @in scale 1.000000e+00 with #fcdp.muon<lr = 5.000000e-01 : f64, weight_decay = 0.000000e+00 : f64, momentum = 2.500000e-01 : f64, nesterov = false, ns_a = 1.000000e+00 : f64, ns_b = -2.000000e+00 : f64, ns_c = 3.000000e+00 : f64, eps = 0.000000e+00 : f64, ns_steps = 7, adjust_lr_fn = match_rms_adamw>

// Groups choose, too, and what they leave open is the optimizer's of the parameter.
// RUN: fcdp-opt %t/step.mlir --fcdp-shard="optimizer=muon group=out*:optimizer=adamw;head:optimizer=muon,lr=0.5;in,bias:lr=2" | FileCheck %s --check-prefix=GROUPS
// GROUPS: fcdp.parameter @in {{.*}} group <lr = 2.000000e+00 : f64, weight_decay = 1.000000e-01 : f64>
// GROUPS: fcdp.parameter @bias {{.*}} group <lr = 2.000000e+00 : f64, weight_decay = 1.000000e-02 : f64>
// GROUPS: fcdp.parameter @out {{.*}} names ["out"]{{$}}
// GROUPS: fcdp.parameter @head {{.*}} group <lr = 5.000000e-01 : f64, weight_decay = 1.000000e-01 : f64>
// GROUPS: fcdp.shard_update @out scale 1.000000e+00 with #fcdp.adamw
// GROUPS: fcdp.shard_update @head scale 1.000000e+00 with #fcdp.muon

// Muon's parameters have buckets of their own, of the layout `owned` whatever is
// asked for, and with one moment.
// RUN: fcdp-opt %t/step.mlir --fcdp-shard="nodes=2 ranks-per-node=2 optimizer=muon" --fcdp-bucket | FileCheck %s --check-prefix=BUCKET
// RUN: fcdp-opt %t/step.mlir --fcdp-shard="nodes=2 ranks-per-node=2 optimizer=muon" --fcdp-bucket="layout=ragged<2>" | FileCheck %s --check-prefix=BUCKET
// BUCKET: fcdp.bucket @bucket.block unit "block" {{.*}} members [@embedding at {{[0-9]+}}, @bias at {{[0-9]+}}, @kernel at {{[0-9]+}}, @head at {{[0-9]+}}]
// BUCKET: fcdp.state @bucket.block.grad
// BUCKET-NEXT: fcdp.state @bucket.block.exp_avg
// BUCKET-NEXT: fcdp.state @bucket.block.exp_avg_sq
// BUCKET-NEXT: fcdp.bucket @bucket.block.muon unit "block" elements 256 storage f32 wire f32 trainable layout owned members [@in at 0, @out at 64]
// BUCKET: fcdp.state @bucket.block.muon.grad
// BUCKET-NEXT: fcdp.state @bucket.block.muon.momentum_buffer
// BUCKET-NEXT: fcdp.bucket @bucket.block.unused.muon
// BUCKET: fcdp.shard_update @bucket.block scale {{.*}} with #fcdp.adamw
// BUCKET-NEXT: fcdp.shard_update @bucket.block.muon scale {{.*}} with #fcdp.muon
// BUCKET-NEXT: fcdp.shard_update @bucket.block.unused.muon scale {{.*}} with #fcdp.muon

// Merging joins what has one optimizer.
// RUN: fcdp-opt %t/units.mlir --fcdp-shard="nodes=2 optimizer=muon" --fcdp-bucket="bucket-bytes=100000" | FileCheck %s --check-prefix=MERGED
// MERGED: fcdp.bucket @bucket.a..b.muon unit "a..b" {{.*}} layout owned members [@a at {{[0-9]+}}, @b at {{[0-9]+}}]
// MERGED: fcdp.bucket @bucket.a..b unit "a..b" {{.*}} members [@p at {{[0-9]+}}, @q at {{[0-9]+}}]

// A head is one of several losses' last matrices. A value that is computed of a
// matrix alone counts as the matrix.
// RUN: fcdp-opt %t/heads.mlir --fcdp-shard="optimizer=muon" | FileCheck %s --check-prefix=HEADS
// HEADS: fcdp.shard_update @body scale 1.000000e+00 with #fcdp.muon
// HEADS: fcdp.shard_update @one scale 1.000000e+00 with #fcdp.adamw
// HEADS: fcdp.shard_update @two scale 1.000000e+00 with #fcdp.adamw
// HEADS: fcdp.shard_update @twice scale 1.000000e+00 with #fcdp.muon

// RUN: not fcdp-opt %t/step.mlir --fcdp-shard="optimizer=muon group=bias:optimizer=muon" 2>&1 | FileCheck %s --check-prefix=VECTOR
// RUN: not fcdp-opt %t/step.mlir --fcdp-shard="optimizer=muon group=bias:optimizer=sgd" 2>&1 | FileCheck %s --check-prefix=OTHER
// RUN: not fcdp-opt %t/step.mlir --fcdp-shard="optimizer=muon group=*:optimizer=adamw" 2>&1 | FileCheck %s --check-prefix=NOTHING
// VECTOR: error: group: 'muon' cannot update "bias" of type 'tensor<16xf32>'
// OTHER: error: group: expected an optimizer of 'muon', got 'sgd'
// NOTHING: error: optimizer: 'muon' would update nothing: no trained parameter is a matrix of a hidden layer, which embeddings and heads are not; a group may have 'optimizer'

//--- step.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @embedding : tensor<32x16xf32> unit "block" trainable names ["embedding"]
  fcdp.parameter @in : tensor<4x16xf32> unit "block" trainable names ["in"]
  fcdp.parameter @bias : tensor<16xf32> unit "block" trainable names ["bias"]
  fcdp.parameter @kernel : tensor<2x2x16xf32> unit "block" trainable names ["kernel"]
  fcdp.parameter @out : tensor<4x16xf32> unit "block" trainable names ["out"]
  fcdp.parameter @head : tensor<32x16xf32> unit "block" trainable names ["head"]
  fcdp.parameter @unused : tensor<4x4xf32> unit "block" trainable names ["unused"]
  fcdp.input @x : tensor<8xi64> name "x"
  func.func @step() {
    %x = fcdp.read_input @x : tensor<8xi64>
    %e = fcdp.read_parameter @embedding : tensor<32x16xf32>
    %i = fcdp.read_parameter @in : tensor<4x16xf32>
    %b = fcdp.read_parameter @bias : tensor<16xf32>
    %k = fcdp.read_parameter @kernel : tensor<2x2x16xf32>
    %o = fcdp.read_parameter @out : tensor<4x16xf32>
    %h = fcdp.read_parameter @head : tensor<32x16xf32>
    %0 = aten.call "aten.embedding.default"(weight = %e, indices = %x) : (tensor<32x16xf32>, tensor<8xi64>) -> tensor<8x16xf32>
    %it = aten.call "aten.t.default"(self = %i) : (tensor<4x16xf32>) -> tensor<16x4xf32>
    %1 = aten.call "aten.mm.default"(self = %0, mat2 = %it) : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
    %2 = aten.call "aten.addmm.default"(self = %b, mat1 = %1, mat2 = %o) : (tensor<16xf32>, tensor<8x4xf32>, tensor<4x16xf32>) -> tensor<8x16xf32>
    %3 = aten.call "aten.tensordot.default"(self = %2, other = %k) : (tensor<8x16xf32>, tensor<2x2x16xf32>) -> tensor<8x16xf32>
    %ht = aten.call "aten.t.default"(self = %h) : (tensor<32x16xf32>) -> tensor<16x32xf32>
    %4 = aten.call "aten.mm.default"(self = %3, mat2 = %ht) : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
    %l = aten.call "aten.sum.default"(self = %4) : (tensor<8x32xf32>) -> tensor<f32>
    fcdp.loss %l : tensor<f32>
    // The backward pass reads the head in front of the others.
    %5 = aten.call "aten.mm.default"(self = %4, mat2 = %h) : (tensor<8x32xf32>, tensor<32x16xf32>) -> tensor<8x16xf32>
    %6 = aten.call "aten.mm.default"(self = %5, mat2 = %it) : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
    fcdp.gradient %e of @embedding : tensor<32x16xf32>
    fcdp.gradient %i of @in : tensor<4x16xf32>
    fcdp.gradient %b of @bias : tensor<16xf32>
    fcdp.gradient %k of @kernel : tensor<2x2x16xf32>
    fcdp.gradient %o of @out : tensor<4x16xf32>
    fcdp.gradient %h of @head : tensor<32x16xf32>
    return
  }
}

//--- units.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @a : tensor<16x16xf32> unit "a" trainable names ["a"]
  fcdp.parameter @p : tensor<16xf32> unit "a" trainable names ["p"]
  fcdp.parameter @b : tensor<16x16xf32> unit "b" trainable names ["b"]
  fcdp.parameter @q : tensor<16xf32> unit "b" trainable names ["q"]
  fcdp.parameter @head : tensor<16x16xf32> unit "head" names ["head"]
  fcdp.input @x : tensor<16x16xf32> name "x"
  func.func @step() {
    %x = fcdp.read_input @x : tensor<16x16xf32>
    %a = fcdp.read_parameter @a : tensor<16x16xf32>
    %p = fcdp.read_parameter @p : tensor<16xf32>
    %b = fcdp.read_parameter @b : tensor<16x16xf32>
    %q = fcdp.read_parameter @q : tensor<16xf32>
    %h = fcdp.read_parameter @head : tensor<16x16xf32>
    %0 = aten.call "aten.addmm.default"(self = %p, mat1 = %x, mat2 = %a) : (tensor<16xf32>, tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %1 = aten.call "aten.addmm.default"(self = %q, mat1 = %0, mat2 = %b) : (tensor<16xf32>, tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %2 = aten.call "aten.mm.default"(self = %1, mat2 = %h) : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %l = aten.call "aten.sum.default"(self = %2) : (tensor<16x16xf32>) -> tensor<f32>
    fcdp.loss %l : tensor<f32>
    fcdp.gradient %0 of @a : tensor<16x16xf32>
    fcdp.gradient %p of @p : tensor<16xf32>
    fcdp.gradient %1 of @b : tensor<16x16xf32>
    fcdp.gradient %q of @q : tensor<16xf32>
    return
  }
}

//--- heads.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @body : tensor<16x16xf32> unit "" trainable names ["body"]
  fcdp.parameter @one : tensor<16x16xf32> unit "" trainable names ["one"]
  fcdp.parameter @two : tensor<16x16xf32> unit "" trainable names ["two"]
  fcdp.parameter @twice : tensor<16x16xf32> unit "" trainable names ["twice"]
  fcdp.input @x : tensor<16x16xf32> name "x"
  func.func @step() {
    %x = fcdp.read_input @x : tensor<16x16xf32>
    %b = fcdp.read_parameter @body : tensor<16x16xf32>
    %o = fcdp.read_parameter @one : tensor<16x16xf32>
    %t = fcdp.read_parameter @two : tensor<16x16xf32>
    %w = fcdp.read_parameter @twice : tensor<16x16xf32>
    %0 = aten.call "aten.mm.default"(self = %x, mat2 = %b) : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %1 = aten.call "aten.mm.default"(self = %0, mat2 = %w) : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %2 = aten.call "aten.mm.default"(self = %1, mat2 = %w) : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %3 = aten.call "aten.mul.Tensor"(self = %o, other = %o) : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %4 = aten.call "aten.mm.default"(self = %2, mat2 = %3) : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %5 = aten.call "aten.mm.default"(self = %2, mat2 = %t) : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %6 = aten.call "aten.add.Tensor"(self = %4, other = %5) : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %l = aten.call "aten.sum.default"(self = %6) : (tensor<16x16xf32>) -> tensor<f32>
    fcdp.loss %l : tensor<f32>
    fcdp.gradient %b of @body : tensor<16x16xf32>
    fcdp.gradient %o of @one : tensor<16x16xf32>
    fcdp.gradient %t of @two : tensor<16x16xf32>
    fcdp.gradient %w of @twice : tensor<16x16xf32>
    return
  }
}
