// Parameters of equal types that are exchanged are refused, and so is what a
// step states about itself and does otherwise.
// RUN: split-file %s %t
// DEFINE: %{prove} = fcdp-opt --fcdp-verify-plan
// RUN: fcdp-opt %t/step.mlir --fcdp-pipeline="nodes=2 ranks-per-node=2 micro-batches=2 clip-norm=0.5 optimizer=sgd,lr=0.1,momentum=0.9" -o %t/plan.mlir

// The calls have the names of what they read, also through a view, and of the
// gradients that they compute.
// RUN: FileCheck %s --input-file=%t/plan.mlir
// CHECK: fcdp.clip_norm = 5.000000e-01
// CHECK-LABEL: @first_microbatch
// CHECK: "aten.mul.Tensor"{{.*}} {fcdp.parameters = [unit, @w]}
// CHECK: "aten.mm.default"{{.*}} {fcdp.parameters = [unit, @v]}
// CHECK: "aten.twins.default"{{.*}} {fcdp.gradients = {{\[\[}}@w], [@u, @v]]}

//===--- Parameters
// RUN: %edit %t/plan.mlir --in next_microbatch --first --replace "view_member {{(%[0-9]+)}} @w of" "view_member \1 @v of" | not %{prove} 2>&1 | FileCheck %s --check-prefix=PARAMETER
// PARAMETER: error: 'aten.call' op in @next_microbatch: expected @w as operand 1, as its attribute 'fcdp.parameters' names it, got @v
// RUN: %edit %t/plan.mlir --in next_microbatch --line "aten.mul" --replace "fcdp.parameters = [unit, @w]" "" | not %{prove} 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: error: 'aten.call' op in @next_microbatch: expected no parameter as operand 1, as its attribute 'fcdp.parameters' names it, got @w
// RUN: %edit %t/plan.mlir --in next_microbatch --line "aten.mul" --replace "[unit, @w]" "[@w, @w]" | not %{prove} 2>&1 | FileCheck %s --check-prefix=OTHER
// OTHER: error: 'aten.call' op in @next_microbatch: expected @w as operand 0, as its attribute 'fcdp.parameters' names it, got no parameter

//===--- Gradients
// RUN: %edit %t/plan.mlir --in last_microbatch --line "fcdp.pack" --replace "{{(.*) as @v, (.*) as @w}}" "\1 as @w, \2 as @v" | not %{prove} 2>&1 | FileCheck %s --check-prefix=GRADIENT
// GRADIENT: error: 'fcdp.pack' op in @last_microbatch: expected the gradient of @w, got that of @u
// GRADIENT: note: the attribute 'fcdp.gradients' of this call names those that it computes
// RUN: %edit %t/plan.mlir --in last_microbatch --replace "fcdp.gradients = {{.*\]\]}}" "" | not %{prove} 2>&1 | FileCheck %s --check-prefix=UNNAMED
// UNNAMED: error: 'fcdp.pack' op in @last_microbatch: expected the gradient of {{.*}}, got no gradient

// A given attribute stays when buckets are made again.
// RUN: fcdp-opt %t/step.mlir --fcdp-shard=nodes=2 --fcdp-bucket -o %t/sharded.mlir
// RUN: fcdp-opt %t/sharded.mlir --fcdp-bucket | diff %t/sharded.mlir -

//===--- What the step states
// RUN: %edit %t/plan.mlir --delete "fcdp.clip_gradients" | not %{prove} 2>&1 | FileCheck %s --check-prefix=CLIP
// CLIP: error: expected 'fcdp.clip_gradients' to 5.000000e-01, as the module has 'fcdp.clip_norm'
// RUN: %edit %t/plan.mlir --replace "fcdp.clip_gradients to 5.000000e-01" "fcdp.clip_gradients to 5.0" | not %{prove} 2>&1 | FileCheck %s --check-prefix=NORM
// NORM: error: 'fcdp.clip_gradients' op expected to clip to 5.000000e-01, as 'fcdp.clip_norm' of the module says, got 5.000000e+00
// RUN: %edit %t/plan.mlir --replace "fcdp.clip_norm = 5.000000e-01 : f64," "" | not %{prove} 2>&1 | FileCheck %s --check-prefix=NOCLIP
// NOCLIP: error: 'fcdp.clip_gradients' op expected none, as the module has no 'fcdp.clip_norm'
// RUN: %edit %t/plan.mlir --line "fcdp.shard_update" --replace "scale 1.250000e-01" "scale 1.0" | not %{prove} 2>&1 | FileCheck %s --check-prefix=SCALE
// SCALE: error: 'fcdp.shard_update' op expected a scale of 1.250000e-01, 1 / (ranks x micro-batches), got 1.000000e+00; a scale of your own needs the attribute 'fcdp.own_scale'
// RUN: %edit %t/plan.mlir --line "fcdp.shard_update" --replace "scale 1.250000e-01" "scale 1.0" --line "fcdp.shard_update" --replace "{{(>)$}}" "\1 {fcdp.own_scale}" | %{prove} -o /dev/null
// RUN: %edit %t/plan.mlir --line "fcdp.clip_gradients" --replace "scale 1.250000e-01" "scale 1.0" | not %{prove} 2>&1 | FileCheck %s --check-prefix=CLIPSCALE
// CLIPSCALE: error: 'fcdp.clip_gradients' op expected a scale of 1.250000e-01, 1 / (ranks x micro-batches), got 1.000000e+00
// RUN: %edit %t/plan.mlir --replace "fcdp.micro_batches = 2" "fcdp.micro_batches = 1" | not %{prove} 2>&1 | FileCheck %s --check-prefix=ONE
// ONE: error: expected @init, @update, @only_microbatch, and both or none of @first_evaluation and @next_evaluation, as 'fcdp.micro_batches' is 1
// RUN: %edit %t/plan.mlir --replace "fcdp.micro_batches = 2" "fcdp.micro_batches = 3" | not %{prove} 2>&1 | FileCheck %s --check-prefix=THREE
// THREE: error: 'fcdp.clip_gradients' op expected a scale of 8.3{{[0-9]*}}e-02, 1 / (ranks x micro-batches), got 1.250000e-01
// RUN: %edit %t/plan.mlir --delete "fcdp.state @bucket.a.momentum_buffer" | not %{prove} 2>&1 | FileCheck %s --check-prefix=STATE
// STATE: error: 'fcdp.shard_update' op expected a state 'momentum_buffer' of @bucket.a, which 'sgd' keeps
// RUN: %edit %t/plan.mlir --in last_microbatch --repeat "fcdp.loss" | not %{prove} 2>&1 | FileCheck %s --check-prefix=LOSS
// LOSS: error: expected one loss, got 2

//--- step.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @w : tensor<4x4xf32> unit "a" trainable names ["w"]
  fcdp.parameter @v : tensor<4x4xf32> unit "a" trainable names ["v"]
  fcdp.parameter @u : tensor<4x4xf32> unit "a" trainable names ["u"]
  fcdp.input @x : tensor<4x4xf32> name "x"
  func.func @step() {
    %w = fcdp.read_parameter @w : tensor<4x4xf32>
    %v = fcdp.read_parameter @v : tensor<4x4xf32>
    %x = fcdp.read_input @x : tensor<4x4xf32>
    %0 = aten.call "aten.mul.Tensor"(self = %x, other = %w) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %t = aten.call "aten.t.default"(self = %v) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %1 = aten.call "aten.mm.default"(self = %0, mat2 = %t) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %l = aten.call "aten.sum.default"(self = %1) : (tensor<4x4xf32>) -> tensor<f32>
    %g:2 = aten.call "aten.twins.default"(self = %1) : (tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>)
    fcdp.loss %l : tensor<f32>
    fcdp.gradient %g#0 of @w : tensor<4x4xf32>
    fcdp.gradient %g#1 of @v : tensor<4x4xf32>
    fcdp.gradient %g#1 of @u : tensor<4x4xf32>
    return
  }
}
