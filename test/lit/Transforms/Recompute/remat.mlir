// The backward pass recomputes values of a block; see Inputs/blocks.mlir.
// RUN: split-file %s %t
// RUN: fcdp-opt %S/../Inputs/blocks.mlir --fcdp-decide-remat=remat=unit -o %t.decided
// RUN: FileCheck %s --input-file=%t.decided --check-prefix=UNIT
// RUN: fcdp-opt %t.decided --fcdp-remat -o %t.remat
// RUN: FileCheck %s --input-file=%t.remat --check-prefix=AGAIN

// Values that the next unit or no unit reads are kept: the sums and the output.
// Values that the backward pass does not read stay as they are: the squares.
// UNIT: fcdp.remat = "unit"
// UNIT-LABEL: func.func @step
// UNIT-NOT: recompute
// UNIT: "aten.mm.default"{{.*}} {fcdp.recompute = true}
// UNIT-NOT: recompute
// UNIT: "aten.mm.default"{{.*}} {fcdp.recompute = true}
// UNIT-NOT: recompute
// UNIT: return

// A remark reports it.
// RUN: fcdp-opt %S/../Inputs/blocks.mlir --fcdp-decide-remat=remat=unit --remarks-filter="fcdp-.*" --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK
// REMARK: remark: {{.*}}remat unit: 2 calls run again in the backward pass, which finds 196 B kept instead of 324 B

// The product of the second block runs again first, right before its use, from
// the block's input; its view goes with it.
// AGAIN-LABEL: func.func @step
// AGAIN: %[[X0:.*]] = aten.call "aten.embedding.default"
// AGAIN: %[[T0:.*]] = aten.call "aten.t.default"
// AGAIN: "aten.mm.default"(self = %[[X0]], mat2 = %[[T0]]) {fcdp.recompute = true}
// AGAIN: %[[X1:.*]] = aten.call "aten.add.Tensor"(self = %[[X0]]
// AGAIN: %[[T1:.*]] = aten.call "aten.t.default"
// AGAIN: "aten.mm.default"(self = %[[X1]], mat2 = %[[T1]]) {fcdp.recompute = true}
// AGAIN: "aten.ones_like.default"
// AGAIN: %[[P1:.*]] = aten.call "aten.mm.default"(self = %[[X1]], mat2 = %[[T1]]) {fcdp.repeated} : (
// AGAIN-NEXT: %[[V1:.*]] = aten.call "aten.view.default"(self = %[[P1]]
// AGAIN-NEXT: "aten.mul.Tensor"(self = %{{.*}}, other = %[[V1]])
// AGAIN: %[[P0:.*]] = aten.call "aten.mm.default"(self = %[[X0]], mat2 = %[[T0]]) {fcdp.repeated} : (
// AGAIN-NEXT: %[[V0:.*]] = aten.call "aten.view.default"(self = %[[P0]]
// AGAIN-NEXT: "aten.mul.Tensor"(self = %{{.*}}, other = %[[V0]])
// AGAIN-NOT: recompute

// Twice is once, and nothing merges the two.
// RUN: fcdp-opt %t.remat --fcdp-decide-remat=remat=unit --fcdp-remat -o %t.twice
// RUN: diff %t.remat %t.twice
// RUN: fcdp-opt %t.remat --canonicalize --cse -o %t.cse
// RUN: FileCheck %s --input-file=%t.cse --check-prefix=AGAIN

// A budget is met with as little as does: nothing, one block, both. Three
// values of 64 bytes and the loss pass between units.
// RUN: fcdp-opt %S/../Inputs/blocks.mlir --fcdp-decide-remat=remat=324 | FileCheck %s --check-prefix=NOTHING
// RUN: fcdp-opt %S/../Inputs/blocks.mlir --fcdp-decide-remat=remat=323 | grep -c 'recompute = true' | FileCheck %s --check-prefix=ONE
// RUN: fcdp-opt %S/../Inputs/blocks.mlir --fcdp-decide-remat=remat=260 | grep -c 'recompute = true' | FileCheck %s --check-prefix=ONE
// RUN: fcdp-opt %S/../Inputs/blocks.mlir --fcdp-decide-remat=remat=259 | grep -c 'recompute = true' | FileCheck %s --check-prefix=TWO
// RUN: fcdp-opt %S/../Inputs/blocks.mlir --fcdp-decide-remat=remat=196 | grep -c 'recompute = true' | FileCheck %s --check-prefix=TWO
// NOTHING: fcdp.remat = "324"
// NOTHING-NOT: recompute
// ONE: {{^}}1
// TWO: {{^}}2

// One of two values of a size is kept, and the loss. A product is computed again sooner than a
// selection on the device that is assumed, later on one that multiplies slowly.
// RUN: fcdp-opt %t/cost.mlir --fcdp-decide-remat=remat=16388 | FileCheck %s --check-prefix=PRODUCT
// PRODUCT: "aten.mm.default"{{.*}} {fcdp.recompute = true}
// PRODUCT-NOT: recompute
// RUN: fcdp-opt %t/cost.mlir --fcdp-decide-remat="remat=16388 cluster=%S/../../tools/fcdp-sim/Inputs/slow.yaml" | FileCheck %s --check-prefix=SELECTION
// SELECTION-NOT: recompute = true
// SELECTION: "aten.where.self"{{.*}} {fcdp.recompute = true}
// SELECTION-NOT: recompute = true
// RUN: not fcdp-opt %t/cost.mlir --fcdp-decide-remat="remat=16388 cluster=%t/absent.yaml" 2>&1 | FileCheck %s --check-prefix=ABSENT
// ABSENT: error: cluster: {{.*}}absent.yaml

// A gather serves what runs again, too: each block is gathered twice.
// RUN: fcdp-opt %t.remat --fcdp-shard="nodes=2 ranks-per-node=2" | FileCheck %s --check-prefix=GATHERS
// GATHERS-LABEL: func.func @only_microbatch
// GATHERS: fcdp.all_gather %{{.*}} of @a over {{.*}} range 0
// GATHERS: fcdp.all_gather %{{.*}} of @b over {{.*}} range 0
// GATHERS: fcdp.all_gather %{{.*}} of @h over {{.*}} range 0
// GATHERS-NOT: fcdp.all_gather
// GATHERS: fcdp.all_gather %{{.*}} of @b over {{.*}} range 1
// GATHERS-NOT: fcdp.all_gather
// GATHERS: fcdp.all_gather %{{.*}} of @a over {{.*}} range 1
// GATHERS-NOT: fcdp.all_gather
// GATHERS-LABEL: func.func @update

// RUN: fcdp-opt %t/choices.mlir --split-input-file --fcdp-decide-remat=remat=unit | FileCheck %s
// RUN: fcdp-opt %t/choices.mlir --split-input-file -o %t.plain
// RUN: fcdp-opt %t/choices.mlir --split-input-file --fcdp-decide-remat=remat=none -o %t.none
// RUN: diff %t.plain %t.none
// RUN: fcdp-opt %t/given.mlir --split-input-file --fcdp-remat | FileCheck %s --check-prefix=GIVEN

//--- choices.mlir
// A module path takes precedence over the order of calls: calls of the second
// block before its first parameter belong to it.
// CHECK-LABEL: fcdp.parameter @Paths
// CHECK: "aten.neg.default"
// CHECK-SAME: {fcdp.recompute = true}
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @Paths : tensor<4xf32> unit "blocks.0" names ["a"]
  fcdp.parameter @b : tensor<4xf32> unit "blocks.1" trainable names ["b"]
  func.func @step() {
    %a = fcdp.read_parameter @Paths : tensor<4xf32>
    %b = fcdp.read_parameter @b : tensor<4xf32>
    %x = aten.call "aten.abs.default"(self = %a) : (tensor<4xf32>) -> tensor<4xf32> loc("blocks.0"("m.py":1:1))
    %n = aten.call "aten.neg.default"(self = %x) : (tensor<4xf32>) -> tensor<4xf32> loc("blocks.1.act"("m.py":2:1))
    %y = aten.call "aten.mul.Tensor"(self = %n, other = %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("blocks.1"("m.py":2:1))
    %l = aten.call "aten.sum.default"(self = %y) : (tensor<4xf32>) -> tensor<f32>
    %g = aten.call "aten.mul.Tensor"(self = %n, other = %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    fcdp.loss %l : tensor<f32>
    fcdp.gradient %g of @b : tensor<4xf32>
    return
  }
}

// -----

// Without paths it belongs to the block before, and passes from one to the other.
// CHECK-LABEL: fcdp.parameter @DontPassBorders
// CHECK-NOT: fcdp.recompute
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @DontPassBorders : tensor<4xf32> unit "blocks.0" names ["a"]
  fcdp.parameter @b : tensor<4xf32> unit "blocks.1" trainable names ["b"]
  func.func @step() {
    %a = fcdp.read_parameter @DontPassBorders : tensor<4xf32>
    %b = fcdp.read_parameter @b : tensor<4xf32>
    %x = aten.call "aten.abs.default"(self = %a) : (tensor<4xf32>) -> tensor<4xf32>
    %n = aten.call "aten.neg.default"(self = %x) : (tensor<4xf32>) -> tensor<4xf32>
    %y = aten.call "aten.mul.Tensor"(self = %n, other = %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %l = aten.call "aten.sum.default"(self = %y) : (tensor<4xf32>) -> tensor<f32>
    %g = aten.call "aten.mul.Tensor"(self = %n, other = %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    fcdp.loss %l : tensor<f32>
    fcdp.gradient %g of @b : tensor<4xf32>
    return
  }
}

// -----

// A value computed after all units, such as a loss, is needed soon and is kept.
// CHECK-LABEL: fcdp.parameter @DontRepeatTheLoss
// CHECK: "aten.mul.Tensor"
// CHECK-SAME: {fcdp.recompute = true}
// CHECK-NEXT: "aten.neg.default"
// CHECK-SAME: {fcdp.recompute = true}
// CHECK-NOT: fcdp.recompute
// CHECK: return
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @DontRepeatTheLoss : tensor<4xf32> unit "a" trainable names ["a"]
  fcdp.input @x : tensor<4xf32> name "x"
  func.func @step() {
    %a = fcdp.read_parameter @DontRepeatTheLoss : tensor<4xf32>
    %x = fcdp.read_input @x : tensor<4xf32>
    %m = aten.call "aten.mul.Tensor"(self = %x, other = %a) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %n = aten.call "aten.neg.default"(self = %m) : (tensor<4xf32>) -> tensor<4xf32>
    %y = aten.call "aten.mul.Tensor"(self = %n, other = %a) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %z = aten.call "aten.exp.default"(self = %y) : (tensor<4xf32>) -> tensor<4xf32>
    %l = aten.call "aten.sum.default"(self = %z) : (tensor<4xf32>) -> tensor<f32>
    %g0 = aten.call "aten.mul.Tensor"(self = %z, other = %m) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %g1 = aten.call "aten.mul.Tensor"(self = %g0, other = %n) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    fcdp.loss %l : tensor<f32>
    fcdp.gradient %g1 of @DontRepeatTheLoss : tensor<4xf32>
    return
  }
}

// -----

// A mask is drawn once. Values that are made of it may be made again, from the
// results of the dropout.
// CHECK-LABEL: fcdp.parameter @DontDrawTwice
// CHECK: "aten.native_dropout.default"
// CHECK-NOT: fcdp.recompute
// CHECK: "aten.neg.default"
// CHECK-SAME: {fcdp.recompute = true}
// CHECK-NOT: fcdp.recompute
// CHECK: "custom.noise.default"
// CHECK-NOT: fcdp.recompute
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @DontDrawTwice : tensor<4xf32> unit "a" trainable names ["a"]
  func.func @step() {
    %a = fcdp.read_parameter @DontDrawTwice : tensor<4xf32>
    %d:2 = aten.call "aten.native_dropout.default"(input = %a, p = 0.5, train = true) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xi1>)
    %n = aten.call "aten.neg.default"(self = %d#0) : (tensor<4xf32>) -> tensor<4xf32>
    %u = aten.call "custom.noise.default"(self = %n) : (tensor<4xf32>) -> tensor<4xf32>
    %y = aten.call "aten.mul.Tensor"(self = %u, other = %a) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %l = aten.call "aten.sum.default"(self = %y) : (tensor<4xf32>) -> tensor<f32>
    %g0 = aten.call "aten.mul.Tensor"(self = %n, other = %a) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %g1 = aten.call "aten.mul.Tensor"(self = %g0, other = %d#0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %g2 = aten.call "aten.mul.Tensor"(self = %g1, other = %u) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    fcdp.loss %l : tensor<f32>
    fcdp.gradient %g2 of @DontDrawTwice : tensor<4xf32>
    return
  }
}

// -----

// Statistics that the step changes are read and written once. Statistics that it
// does not change may be read again.
// CHECK-LABEL: fcdp.parameter @DontCountTwice
// CHECK-NOT: fcdp.recompute
// CHECK: "aten.div.Tensor"
// CHECK-SAME: {fcdp.recompute = true}
// CHECK-NOT: fcdp.recompute
// CHECK: return
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @DontCountTwice : tensor<4xf32> unit "a" trainable names ["a"]
  fcdp.buffer @mean : tensor<4xf32> name "mean" persistent mutable
  fcdp.buffer @table : tensor<4xf32> name "table" persistent
  func.func @step() {
    %a = fcdp.read_parameter @DontCountTwice : tensor<4xf32>
    %m = fcdp.read_buffer @mean : tensor<4xf32>
    %t = fcdp.read_buffer @table : tensor<4xf32>
    %x = aten.call "aten.mul.Tensor"(self = %a, other = %m) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %w = aten.call "aten.add.Tensor"(self = %a, other = %t) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %z = aten.call "aten.div.Tensor"(self = %x, other = %t) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %y = aten.call "aten.mul.Tensor"(self = %z, other = %a) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %l = aten.call "aten.sum.default"(self = %y) : (tensor<4xf32>) -> tensor<f32>
    %g0 = aten.call "aten.mul.Tensor"(self = %z, other = %a) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %g1 = aten.call "aten.mul.Tensor"(self = %g0, other = %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %g2 = aten.call "aten.mul.Tensor"(self = %g1, other = %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    fcdp.loss %l : tensor<f32>
    fcdp.gradient %g2 of @DontCountTwice : tensor<4xf32>
    fcdp.write_buffer %w to @mean : tensor<4xf32>
    return
  }
}

// -----

// The backward pass does not read the block's frozen parameter, so it is not
// gathered there; the trained one is.
// CHECK-LABEL: fcdp.parameter @DontGatherAgain
// CHECK-NOT: fcdp.recompute
// CHECK: "aten.mm.default"
// CHECK-NOT: fcdp.recompute
// CHECK: "aten.mm.default"
// CHECK-SAME: {fcdp.recompute = true}
// CHECK-NOT: fcdp.recompute
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @DontGatherAgain : tensor<4x4xf32> unit "a" names ["a.base"]
  fcdp.parameter @scale : tensor<4x4xf32> unit "a" trainable names ["a.scale"]
  fcdp.parameter @h : tensor<4x4xf32> unit "h" names ["h"]
  fcdp.input @x : tensor<4x4xf32> name "x"
  func.func @step() {
    %w = fcdp.read_parameter @DontGatherAgain : tensor<4x4xf32>
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
    %gp = aten.call "aten.mm.default"(self = %gs, mat2 = %s) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    fcdp.loss %l : tensor<f32>
    fcdp.gradient %gp of @scale : tensor<4x4xf32>
    return
  }
}

// -----

// A given choice wins: the one that costs a gather, and the one to keep.
// CHECK-LABEL: fcdp.parameter @Given
// CHECK: "aten.neg.default"
// CHECK-SAME: {fcdp.recompute = false}
// CHECK: "aten.abs.default"
// CHECK-SAME: {fcdp.recompute = true}
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @Given : tensor<4xf32> unit "a" trainable names ["a"]
  func.func @step() {
    %a = fcdp.read_parameter @Given : tensor<4xf32>
    %n = aten.call "aten.neg.default"(self = %a) {fcdp.recompute = false} : (tensor<4xf32>) -> tensor<4xf32>
    %x = aten.call "aten.abs.default"(self = %n) {fcdp.recompute = true} : (tensor<4xf32>) -> tensor<4xf32>
    %y = aten.call "aten.mul.Tensor"(self = %x, other = %a) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %l = aten.call "aten.sum.default"(self = %y) : (tensor<4xf32>) -> tensor<f32>
    %g = aten.call "aten.mul.Tensor"(self = %n, other = %a) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    fcdp.loss %l : tensor<f32>
    fcdp.gradient %g of @Given : tensor<4xf32>
    return
  }
}

//--- cost.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @w : tensor<64x64xf32> unit "a" trainable names ["w"]
  fcdp.input @x : tensor<64x64xf32> name "x"
  fcdp.input @c : tensor<64x64xi1> name "c"
  func.func @step() {
    %w = fcdp.read_parameter @w : tensor<64x64xf32>
    %x = fcdp.read_input @x : tensor<64x64xf32>
    %c = fcdp.read_input @c : tensor<64x64xi1>
    %p = aten.call "aten.mm.default"(self = %x, mat2 = %w) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %s = aten.call "aten.where.self"(condition = %c, self = %x, other = %x) : (tensor<64x64xi1>, tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %q = aten.call "aten.mul.Tensor"(self = %p, other = %s) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %r = aten.call "aten.mul.Tensor"(self = %q, other = %w) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %l = aten.call "aten.sum.default"(self = %r) : (tensor<64x64xf32>) -> tensor<f32>
    %g = aten.call "aten.mul.Tensor"(self = %p, other = %s) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    fcdp.loss %l : tensor<f32>
    fcdp.gradient %g of @w : tensor<64x64xf32>
    return
  }
}

//--- given.mlir
// A call of the forward pass that only the backward pass needs, for example of a
// mask, moves there.
// GIVEN-LABEL: func.func @step
// GIVEN: fcdp.read_parameter
// GIVEN-NEXT: "aten.sum.default"
// GIVEN-NEXT: %[[N:.*]] = aten.call "aten.neg.default"
// GIVEN-NEXT: "aten.abs.default"(self = %[[N]])
// GIVEN-NOT: aten.call
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @a : tensor<4xf32> unit "a" trainable names ["a"]
  func.func @step() {
    %a = fcdp.read_parameter @a : tensor<4xf32>
    %n = aten.call "aten.neg.default"(self = %a) {fcdp.recompute = true} : (tensor<4xf32>) -> tensor<4xf32>
    %l = aten.call "aten.sum.default"(self = %a) : (tensor<4xf32>) -> tensor<f32>
    %g = aten.call "aten.abs.default"(self = %n) : (tensor<4xf32>) -> tensor<4xf32>
    fcdp.loss %l : tensor<f32>
    fcdp.gradient %g of @a : tensor<4xf32>
    return
  }
}
