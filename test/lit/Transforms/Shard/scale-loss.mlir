// The backward pass begins with the loss scale, and the update divides by it.
// RUN: split-file %s %t
// RUN: fcdp-opt %t/f16.mlir --fcdp-scale-loss=loss-scale=on -o %t/scaled.mlir
// RUN: FileCheck %s --check-prefix=F16 --input-file=%t/scaled.mlir
// RUN: fcdp-opt %t/f32.mlir --fcdp-scale-loss=loss-scale=on | FileCheck %s --check-prefix=F32
// RUN: fcdp-opt %t/shape.mlir --fcdp-scale-loss=loss-scale=on | FileCheck %s --check-prefix=SHAPE

// F16: %[[L:.*]] = aten.call "aten.sum.default"
// F16-NEXT: %[[S:.*]] = fcdp.read_loss_scale : tensor<f32>
// F16-NEXT: %[[SEED:.*]] = aten.call "aten._to_copy.default"(self = %[[S]], dtype = f16) : (tensor<f32>) -> tensor<f16>
// F16-NEXT: aten.call "aten.expand.default"(self = %[[SEED]]
// The loss itself is not scaled.
// F16: fcdp.loss %[[L]] : tensor<f16>
// F16-NOT: aten.ones_like

// Dont: a loss in f32 needs no cast.
// F32: %[[S:.*]] = fcdp.read_loss_scale : tensor<f32>
// F32-NEXT: aten.call "aten.expand.default"(self = %[[S]]

// SHAPE: %[[S:.*]] = fcdp.read_loss_scale : tensor<f32>
// SHAPE-NEXT: %[[V:.*]] = aten.call "aten.view.default"(self = %[[S]], size = [1, 1]) : (tensor<f32>) -> tensor<1x1xf32>
// SHAPE-NEXT: aten.call "aten.expand.default"(self = %[[V]]

// Running it again changes nothing. Without the option nothing changes, either.
// RUN: fcdp-opt %t/scaled.mlir --fcdp-scale-loss=loss-scale=on | diff %t/scaled.mlir -
// RUN: fcdp-opt %t/f16.mlir -o %t/plain.mlir
// RUN: fcdp-opt %t/f16.mlir --fcdp-scale-loss | diff %t/plain.mlir -
// RUN: fcdp-opt %t/f16.mlir --fcdp-scale-loss=loss-scale=off | diff %t/plain.mlir -

// Gradients are divided before they are clipped and used.
// RUN: fcdp-opt %t/scaled.mlir --fcdp-shard="nodes=2 micro-batches=2 clip-norm=1" --fcdp-verify-sharded | FileCheck %s --check-prefix=UPDATE
// UPDATE: func.func @first_microbatch
// UPDATE: fcdp.read_loss_scale
// UPDATE: func.func @next_microbatch
// UPDATE: fcdp.read_loss_scale
// UPDATE: func.func @last_microbatch
// UPDATE: fcdp.read_loss_scale
// UPDATE-LABEL: func.func @update
// UPDATE-NEXT: fcdp.unscale_gradients
// UPDATE-NEXT: fcdp.clip_gradients to 1.000000e+00 scale 2.500000e-01
// UPDATE-NEXT: fcdp.shard_update @w scale 2.500000e-01
// RUN: fcdp-opt %t/plain.mlir --fcdp-shard --fcdp-verify-sharded | FileCheck %s --check-prefix=DONTUPDATE
// DONTUPDATE-NOT: loss_scale
// DONTUPDATE-NOT: unscale

// The whole pipeline, with its proofs.
// RUN: fcdp-opt %t/f16.mlir --fcdp-pipeline="nodes=2 ranks-per-node=2 micro-batches=2 loss-scale=on master=f32 clip-norm=1" | FileCheck %s --check-prefix=PLANNED
// PLANNED: func.func @next_microbatch
// PLANNED: fcdp.read_loss_scale
// PLANNED-LABEL: func.func @update
// PLANNED: fcdp.unscale_gradients
// PLANNED: fcdp.clip_gradients
// PLANNED: fcdp.shard_update

// RUN: not fcdp-opt %t/f16.mlir --fcdp-scale-loss=loss-scale=maybe 2>&1 | FileCheck %s --check-prefix=VALUE
// VALUE: error: loss-scale: expected 'off' or 'on', got 'maybe'
// RUN: not fcdp-opt %t/phase.mlir --fcdp-scale-loss=loss-scale=on 2>&1 | FileCheck %s --check-prefix=PHASE
// PHASE: error: expected a module in phase 'imported'
// RUN: fcdp-opt %t/wrong.mlir --split-input-file --fcdp-scale-loss=loss-scale=on --verify-diagnostics

//--- f16.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @w : tensor<4x4xf16> unit "fc" trainable names ["w"]
  func.func @step() {
    %w = fcdp.read_parameter @w : tensor<4x4xf16>
    %l = aten.call "aten.sum.default"(self = %w) : (tensor<4x4xf16>) -> tensor<f16>
    %one = aten.call "aten.ones_like.default"(self = %l) : (tensor<f16>) -> tensor<f16>
    %g = aten.call "aten.expand.default"(self = %one, size = [4, 4]) : (tensor<f16>) -> tensor<4x4xf16>
    fcdp.loss %l : tensor<f16>
    fcdp.gradient %g of @w : tensor<4x4xf16>
    return
  }
}
//--- f32.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @w : tensor<4x4xf32> unit "fc" trainable names ["w"]
  func.func @step() {
    %w = fcdp.read_parameter @w : tensor<4x4xf32>
    %l = aten.call "aten.sum.default"(self = %w) : (tensor<4x4xf32>) -> tensor<f32>
    %one = aten.call "aten.ones_like.default"(self = %l) : (tensor<f32>) -> tensor<f32>
    %g = aten.call "aten.expand.default"(self = %one, size = [4, 4]) : (tensor<f32>) -> tensor<4x4xf32>
    fcdp.loss %l : tensor<f32>
    fcdp.gradient %g of @w : tensor<4x4xf32>
    return
  }
}
//--- shape.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @w : tensor<4x4xf32> unit "fc" trainable names ["w"]
  func.func @step() {
    %w = fcdp.read_parameter @w : tensor<4x4xf32>
    %l = aten.call "aten.sum.dim_IntList"(self = %w, dim = [0, 1], keepdim = true) : (tensor<4x4xf32>) -> tensor<1x1xf32>
    %one = aten.call "aten.ones_like.default"(self = %l) : (tensor<1x1xf32>) -> tensor<1x1xf32>
    %g = aten.call "aten.expand.default"(self = %one, size = [4, 4]) : (tensor<1x1xf32>) -> tensor<4x4xf32>
    fcdp.loss %l : tensor<1x1xf32>
    fcdp.gradient %g of @w : tensor<4x4xf32>
    return
  }
}
//--- phase.mlir
module {}
//--- wrong.mlir
// A step that trains nothing has no backward pass.
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @w : tensor<4x4xf32> unit "fc" names ["w"]
  func.func @step() {
    %w = fcdp.read_parameter @w : tensor<4x4xf32>
    %l = aten.call "aten.sum.default"(self = %w) : (tensor<4x4xf32>) -> tensor<f32>
    // expected-error@+1 {{'fcdp.loss' op expected one 'aten.ones_like.default' of its value, with which the backward pass begins, got 0; a step that trains nothing has no loss to scale or weight}}
    fcdp.loss %l : tensor<f32>
    return
  }
}

// -----

module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @w : tensor<4x4xf32> unit "fc" trainable names ["w"]
  func.func @step() {
    %w = fcdp.read_parameter @w : tensor<4x4xf32>
    %l = aten.call "aten.sum.default"(self = %w) : (tensor<4x4xf32>) -> tensor<f32>
    // expected-note@+1 {{here}}
    %one = aten.call "aten.ones_like.default"(self = %l) : (tensor<f32>) -> tensor<f32>
    // expected-note@+1 {{here}}
    %two = aten.call "aten.ones_like.default"(self = %l) : (tensor<f32>) -> tensor<f32>
    %sum = aten.call "aten.add.Tensor"(self = %one, other = %two) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %g = aten.call "aten.expand.default"(self = %sum, size = [4, 4]) : (tensor<f32>) -> tensor<4x4xf32>
    // expected-error@+1 {{'fcdp.loss' op expected one 'aten.ones_like.default' of its value, with which the backward pass begins, got 2}}
    fcdp.loss %l : tensor<f32>
    fcdp.gradient %g of @w : tensor<4x4xf32>
    return
  }
}

// -----

module attributes {fcdp.phase = #fcdp.phase<imported>} {
  // expected-error@+1 {{expected one loss, got 0}}
  func.func @step() {
    return
  }
}
