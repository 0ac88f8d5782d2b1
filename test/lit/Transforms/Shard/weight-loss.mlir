// The backward pass begins with the factor of the micro-batch's weight, times the loss scale.
// RUN: split-file %s %t
// RUN: fcdp-opt %t/f32.mlir --fcdp-scale-loss=loss-weight=mask -o %t/weighted.mlir
// RUN: FileCheck %s --check-prefix=F32 --input-file=%t/weighted.mlir
// RUN: fcdp-opt %t/f16.mlir --fcdp-scale-loss="loss-weight=count loss-scale=on" | FileCheck %s --check-prefix=BOTH
// RUN: fcdp-opt %t/f16.mlir --fcdp-scale-loss=loss-weight=count | FileCheck %s --check-prefix=F16

// F32: fcdp.loss_weight = "mask"
// F32: %[[L:.*]] = aten.call "aten.sum.default"
// F32-NEXT: %[[F:.*]] = fcdp.read_loss_weight : tensor<f32>
// F32-NEXT: aten.call "aten.expand.default"(self = %[[F]]
// The loss itself stays as it is: the program weights it.
// F32: fcdp.loss %[[L]] : tensor<f32>
// F32-NOT: aten.ones_like
// F32-NOT: read_loss_scale

// BOTH: fcdp.loss_weight = "count"
// BOTH: %[[F:.*]] = fcdp.read_loss_weight : tensor<f32>
// BOTH-NEXT: %[[S:.*]] = fcdp.read_loss_scale : tensor<f32>
// BOTH-NEXT: %[[P:.*]] = aten.call "aten.mul.Tensor"(self = %[[F]], other = %[[S]]) : (tensor<f32>, tensor<f32>) -> tensor<f32>
// BOTH-NEXT: %[[SEED:.*]] = aten.call "aten._to_copy.default"(self = %[[P]], dtype = f16) : (tensor<f32>) -> tensor<f16>
// BOTH-NEXT: aten.call "aten.expand.default"(self = %[[SEED]]
// BOTH-NOT: aten.ones_like

// F16: %[[F:.*]] = fcdp.read_loss_weight : tensor<f32>
// F16-NEXT: %[[SEED:.*]] = aten.call "aten._to_copy.default"(self = %[[F]], dtype = f16) : (tensor<f32>) -> tensor<f16>
// F16-NEXT: aten.call "aten.expand.default"(self = %[[SEED]]

// Running it again changes nothing, also without the option.
// RUN: fcdp-opt %t/weighted.mlir --fcdp-scale-loss=loss-weight=mask | diff %t/weighted.mlir -
// RUN: fcdp-opt %t/weighted.mlir --fcdp-scale-loss | diff %t/weighted.mlir -
// RUN: fcdp-opt %t/f32.mlir -o %t/plain.mlir
// RUN: fcdp-opt %t/f32.mlir --fcdp-scale-loss | diff %t/plain.mlir -

// The whole pipeline, with its proofs. Nothing else differs from a step that does not weight its losses.
// RUN: fcdp-opt %t/f32.mlir --fcdp-pipeline="nodes=2 ranks-per-node=2 micro-batches=3 loss-weight=mask clip-norm=1" -o %t/planned.mlir
// RUN: FileCheck %s --check-prefix=PLANNED --input-file=%t/planned.mlir
// PLANNED: fcdp.loss_weight = "mask"
// PLANNED-LABEL: func.func @first_microbatch
// PLANNED: fcdp.read_loss_weight
// PLANNED-LABEL: func.func @next_microbatch
// PLANNED: fcdp.read_loss_weight
// PLANNED-LABEL: func.func @last_microbatch
// PLANNED: fcdp.read_loss_weight
// PLANNED-LABEL: func.func @update
// PLANNED-NOT: fcdp.unscale_gradients
// PLANNED: fcdp.clip_gradients to 1.000000e+00 scale 0.083333
// PLANNED: fcdp.shard_update

// The plan has the input, the factor and each pack as a whole, and without the option none of them.
// RUN: %if fcdp-compile %{ fcdp-compile %t/f32.mlir --nodes=2 --loss-weight=mask --emit=plan-json | FileCheck %s --check-prefix=PLAN %}
// PLAN-DAG: "kind": "loss_weight"
// PLAN-DAG: "whole": {
// PLAN-DAG: "loss_weight": "mask"
// RUN: %if fcdp-compile %{ fcdp-compile %t/f32.mlir --nodes=2 --emit=plan-json | FileCheck %s --check-prefix=DONTPLAN %}
// DONTPLAN-NOT: loss_weight
// DONTPLAN-NOT: whole

// An evaluation has the input, too. Its function, which has no backward pass, stays as it is.
// RUN: fcdp-opt %t/evaluated.mlir --fcdp-scale-loss=loss-weight=mask | FileCheck %s --check-prefix=EVALUATED
// EVALUATED-LABEL: func.func @step
// EVALUATED: fcdp.read_loss_weight
// EVALUATED-LABEL: func.func @evaluate
// EVALUATED-NOT: fcdp.read_loss_weight
// RUN: fcdp-opt %t/alone.mlir --fcdp-scale-loss=loss-weight=mask | FileCheck %s --check-prefix=ALONE
// ALONE: fcdp.loss_weight = "mask"
// ALONE-NOT: fcdp.read_loss_weight

// RUN: not fcdp-opt %t/f32.mlir --fcdp-scale-loss=loss-weight=tokens 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// UNKNOWN: error: loss-weight: expected an input of the step, got 'tokens'; its inputs are: 'mask', 'z'
// RUN: not fcdp-opt %t/f32.mlir --fcdp-scale-loss=loss-weight=z 2>&1 | FileCheck %s --check-prefix=COMPLEX
// COMPLEX: error: loss-weight: expected an input of integers, bools or floats, got 'z' of type 'tensor<4xcomplex<f32>>'
// RUN: not fcdp-opt %t/evaluated.mlir --fcdp-scale-loss=loss-weight=only 2>&1 | FileCheck %s --check-prefix=EVALUATION
// EVALUATION: error: loss-weight: expected an input of the evaluation, got 'only'; its inputs are: 'mask'
// RUN: not fcdp-opt %t/weighted.mlir --fcdp-scale-loss=loss-weight=z 2>&1 | FileCheck %s --check-prefix=OTHER
// OTHER: error: loss-weight: expected 'mask', by which the module's losses are weighted, got 'z'
// RUN: not fcdp-opt %t/weighted.mlir --fcdp-scale-loss=loss-scale=on 2>&1 | FileCheck %s --check-prefix=LATE
// LATE: error: 'fcdp.loss' op expected one 'aten.ones_like.default' of its value, with which the backward pass begins, got 0; a step that trains nothing has no loss to scale or weight

//--- f32.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.input @mask : tensor<2x4xi1> name "mask"
  fcdp.input @z : tensor<4xcomplex<f32>> name "z"
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
//--- f16.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.input @count : tensor<i64> name "count"
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
//--- evaluated.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.input @mask : tensor<2x4xi1> name "mask"
  fcdp.input @only : tensor<2xf32> name "only"
  fcdp.input @evaluation.mask : tensor<8x4xi1> name "mask" evaluation
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
  func.func @evaluate() {
    %w = fcdp.read_parameter @w : tensor<4x4xf32>
    %l = aten.call "aten.sum.default"(self = %w) : (tensor<4x4xf32>) -> tensor<f32>
    fcdp.loss %l : tensor<f32>
    return
  }
}
//--- alone.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.input @mask : tensor<8x4xi1> name "mask" evaluation
  fcdp.parameter @w : tensor<4x4xf32> unit "fc" names ["w"]
  func.func @step() {
    return
  }
  func.func @evaluate() {
    %w = fcdp.read_parameter @w : tensor<4x4xf32>
    %l = aten.call "aten.sum.default"(self = %w) : (tensor<4x4xf32>) -> tensor<f32>
    fcdp.loss %l : tensor<f32>
    return
  }
}
