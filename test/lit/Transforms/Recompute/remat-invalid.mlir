// RUN: split-file %s %t
// RUN: not fcdp-opt %S/../Inputs/blocks.mlir --fcdp-decide-remat=remat=195 2>&1 | FileCheck %s --check-prefix=BUDGET
// BUDGET: blocks.mlir:{{[0-9]+}}:{{[0-9]+}}: error: remat: expected at least 196 bytes, the least that the forward pass can keep for the backward pass, got 195
// RUN: not fcdp-opt %S/../Inputs/blocks.mlir --fcdp-decide-remat=remat=all 2>&1 | FileCheck %s --check-prefix=MODE
// MODE: error: remat: expected 'none', 'unit', 'auto' or a number of bytes, got 'all'
// RUN: not fcdp-opt %S/../Inputs/blocks.mlir --fcdp-pipeline=remat=-1 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// NEGATIVE: error: remat: expected 'none', 'unit', 'auto' or a number of bytes, got '-1'
// RUN: not fcdp-opt %t/phase.mlir --fcdp-decide-remat 2>&1 | FileCheck %s --check-prefix=PHASE
// RUN: not fcdp-opt %t/phase.mlir --fcdp-remat 2>&1 | FileCheck %s --check-prefix=PHASE
// PHASE: error: expected a module in phase 'imported'
// RUN: not fcdp-opt %t/results.mlir --fcdp-remat 2>&1 | FileCheck %s --check-prefix=STEP
// STEP: error: expected a function @step of one block, without arguments or results

// Nothing to compute again: no loss, or one that nothing computes.
// RUN: fcdp-opt %t/no-loss.mlir --fcdp-decide-remat=remat=0 --fcdp-remat | FileCheck %s --check-prefix=EMPTY
// RUN: fcdp-opt %t/input.mlir --fcdp-decide-remat=remat=0 --fcdp-remat | FileCheck %s --check-prefix=EMPTY
// EMPTY: func.func @step

// RUN: fcdp-opt %t/given.mlir --split-input-file --fcdp-remat --verify-diagnostics

//--- phase.mlir
module {}
//--- results.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  func.func @step(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }
}
//--- no-loss.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  func.func @step() { return }
}
//--- input.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.input @x : tensor<f32> name "x"
  func.func @step() {
    %x = fcdp.read_input @x : tensor<f32>
    fcdp.loss %x : tensor<f32>
    return
  }
}

//--- given.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.input @x : tensor<4xf32> name "x"
  func.func @step() {
    %x = fcdp.read_input @x : tensor<4xf32>
    // expected-error@+1 {{cannot run again: it may draw random numbers}}
    %d:2 = aten.call "aten.native_dropout.default"(input = %x, p = 0.5, train = true) {fcdp.recompute = true} : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xi1>)
    %l = aten.call "aten.sum.default"(self = %d#0) : (tensor<4xf32>) -> tensor<f32>
    fcdp.loss %l : tensor<f32>
    return
  }
}

// -----

module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.input @x : tensor<4xf32> name "x"
  func.func @step() {
    %x = fcdp.read_input @x : tensor<4xf32>
    // expected-error@+1 {{cannot run again: its results may be memory of its operands}}
    %e = aten.call "aten.expand_as.default"(self = %x, other = %x) {fcdp.recompute = true} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %l = aten.call "aten.sum.default"(self = %e) : (tensor<4xf32>) -> tensor<f32>
    fcdp.loss %l : tensor<f32>
    return
  }
}

// -----

module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.buffer @mean : tensor<4xf32> name "mean" persistent mutable
  func.func @step() {
    %m = fcdp.read_buffer @mean : tensor<4xf32>
    %v = aten.call "aten.view.default"(self = %m, size = [2, 2]) : (tensor<4xf32>) -> tensor<2x2xf32>
    // expected-error@+1 {{cannot run again: it reads a buffer that the step changes}}
    %n = aten.call "aten.neg.default"(self = %v) {fcdp.recompute = true} : (tensor<2x2xf32>) -> tensor<2x2xf32>
    %l = aten.call "aten.sum.default"(self = %n) : (tensor<2x2xf32>) -> tensor<f32>
    fcdp.loss %l : tensor<f32>
    return
  }
}

// -----

module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.input @x : tensor<4xf32> name "x"
  func.func @step() {
    %x = fcdp.read_input @x : tensor<4xf32>
    // expected-error@+1 {{cannot run again: it computes a result of the step}}
    %l = aten.call "aten.sum.default"(self = %x) {fcdp.recompute = true} : (tensor<4xf32>) -> tensor<f32>
    fcdp.loss %l : tensor<f32>
    return
  }
}

// -----

module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.input @x : tensor<4xf32> name "x"
  func.func @step() {
    %x = fcdp.read_input @x : tensor<4xf32>
    %l = aten.call "aten.sum.default"(self = %x) : (tensor<4xf32>) -> tensor<f32>
    // expected-error@+1 {{cannot run again: expected 'fcdp.recompute' in the forward pass, before the operation that computes the loss}}
    %g = aten.call "aten.neg.default"(self = %x) {fcdp.recompute = true} : (tensor<4xf32>) -> tensor<4xf32>
    fcdp.loss %l : tensor<f32>
    return
  }
}
