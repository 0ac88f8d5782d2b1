// Operators that run again may read the parameters of buckets that the backward pass of the
// unit reads anyway. Which parameters of a unit share a bucket depends on options.
// RUN: split-file %s %t

// One bucket: the backward pass gathers the scale, and with it the weight.
// RUN: fcdp-opt %t/alike.mlir --fcdp-decide-remat=remat=unit | FileCheck %s --check-prefix=BOTH
// Two optimizers, two buckets: to compute the first product again would gather the weight once more.
// RUN: fcdp-opt %t/alike.mlir --fcdp-decide-remat="remat=unit optimizer=muon group=scale:optimizer=adamw" | FileCheck %s --check-prefix=SECOND
// Gradients of two types, two buckets, unless both are converted to one for their reduction.
// RUN: fcdp-opt %t/types.mlir --fcdp-decide-remat=remat=unit | FileCheck %s --check-prefix=SECOND
// RUN: fcdp-opt %t/types.mlir --fcdp-decide-remat="remat=unit reduce-dtype=f16" | FileCheck %s --check-prefix=BOTH

// BOTH: fcdp.remat = "unit"
// BOTH-COUNT-2: {fcdp.recompute = true}
// BOTH-NOT: recompute
// SECOND: fcdp.remat = "unit"
// SECOND-NOT: recompute
// SECOND: "aten.mm.default"(self = %[[P:[0-9]+]], mat2 = %{{.*}}) {fcdp.recompute = true}
// SECOND-NOT: recompute

// The pipeline's options reach the pass: no bucket is gathered once more than without.
// RUN: fcdp-opt %t/alike.mlir --fcdp-pipeline="strategy=zero3 nodes=2 optimizer=muon group=scale:optimizer=adamw" | grep -c fcdp.all_gather > %t/without
// RUN: fcdp-opt %t/alike.mlir --fcdp-pipeline="strategy=zero3 nodes=2 optimizer=muon group=scale:optimizer=adamw remat=unit" | grep -c fcdp.all_gather > %t/with
// RUN: diff %t/without %t/with

// Options are checked where they are used.
// RUN: not fcdp-opt %t/alike.mlir --fcdp-decide-remat="remat=unit reduce-dtype=i8" 2>&1 | FileCheck %s --check-prefix=REDUCE
// REDUCE: error: reduce-dtype: expected 'model', 'f32', 'bf16' or 'f16', got 'i8'
// RUN: not fcdp-opt %t/alike.mlir --fcdp-decide-remat="remat=unit group=bias:lr=2" 2>&1 | FileCheck %s --check-prefix=GROUP
// GROUP: error: group: no parameter that is trained has a name like 'bias'

//--- alike.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @weight : tensor<4x4xf32> unit "a" trainable names ["weight"]
  fcdp.parameter @scale : tensor<4x4xf32> unit "a" trainable names ["scale"]
  fcdp.parameter @h : tensor<4x4xf32> unit "h" names ["h"]
  fcdp.input @x : tensor<4x4xf32> name "x"
  func.func @step() {
    %w = fcdp.read_parameter @weight : tensor<4x4xf32>
    %s = fcdp.read_parameter @scale : tensor<4x4xf32>
    %h = fcdp.read_parameter @h : tensor<4x4xf32>
    %x = fcdp.read_input @x : tensor<4x4xf32>
    %p = aten.call "aten.mm.default"(self = %x, mat2 = %w) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %q = aten.call "aten.mm.default"(self = %p, mat2 = %s) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %r = aten.call "aten.neg.default"(self = %q) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %y = aten.call "aten.mm.default"(self = %r, mat2 = %h) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %l = aten.call "aten.sum.default"(self = %y) : (tensor<4x4xf32>) -> tensor<f32>
    %gr = aten.call "aten.mm.default"(self = %y, mat2 = %h) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %gq = aten.call "aten.mul.Tensor"(self = %gr, other = %q) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %gs = aten.call "aten.mm.default"(self = %p, mat2 = %gq) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %gp = aten.call "aten.mm.default"(self = %gq, mat2 = %s) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %gw = aten.call "aten.mm.default"(self = %x, mat2 = %gp) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    fcdp.loss %l : tensor<f32>
    fcdp.gradient %gw of @weight : tensor<4x4xf32>
    fcdp.gradient %gs of @scale : tensor<4x4xf32>
    return
  }
}

//--- types.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @weight : tensor<4x4xf32> unit "a" trainable names ["weight"]
  fcdp.parameter @scale : tensor<4x4xf32> unit "a" trainable names ["scale"]
  fcdp.parameter @h : tensor<4x4xf32> unit "h" names ["h"]
  fcdp.input @x : tensor<4x4xf32> name "x"
  func.func @step() {
    %w = fcdp.read_parameter @weight : tensor<4x4xf32>
    %s = fcdp.read_parameter @scale : tensor<4x4xf32>
    %h = fcdp.read_parameter @h : tensor<4x4xf32>
    %x = fcdp.read_input @x : tensor<4x4xf32>
    %p = aten.call "aten.mm.default"(self = %x, mat2 = %w) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %q = aten.call "aten.mm.default"(self = %p, mat2 = %s) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %r = aten.call "aten.neg.default"(self = %q) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %y = aten.call "aten.mm.default"(self = %r, mat2 = %h) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %l = aten.call "aten.sum.default"(self = %y) : (tensor<4x4xf32>) -> tensor<f32>
    %gr = aten.call "aten.mm.default"(self = %y, mat2 = %h) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %gq = aten.call "aten.mul.Tensor"(self = %gr, other = %q) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %gs = aten.call "aten.mm.default"(self = %p, mat2 = %gq) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %gp = aten.call "aten.mm.default"(self = %gq, mat2 = %s) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %gw = aten.call "aten._to_copy.default"(self = %gp, dtype = bf16) : (tensor<4x4xf32>) -> tensor<4x4xbf16>
    fcdp.loss %l : tensor<f32>
    fcdp.gradient %gw of @weight : tensor<4x4xbf16>
    fcdp.gradient %gs of @scale : tensor<4x4xf32>
    return
  }
}
