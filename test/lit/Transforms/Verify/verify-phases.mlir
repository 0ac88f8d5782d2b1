// The phases' requirements beyond their operations' own constraints.
// RUN: split-file %s %t
// RUN: not fcdp-opt %t/two-functions.mlir --fcdp-verify-imported 2>&1 | FileCheck %s --check-prefix=FUNCTIONS
// FUNCTIONS: error: expected one function, @step, of one block
// RUN: fcdp-opt %t/evaluated.mlir --fcdp-verify-imported -o /dev/null
// RUN: %edit %t/evaluated.mlir --replace "%e =" "fcdp.gradient %w of @w : tensor<4xf32> %e =" | not fcdp-opt --fcdp-verify-imported 2>&1 | FileCheck %s --check-prefix=EVALUATED
// EVALUATED: error: 'fcdp.gradient' op may not appear in @evaluate
// RUN: %edit %t/evaluated.mlir --replace "@y : tensor<4xf32> name \"x\" evaluation" "@y : tensor<4xf32> name \"x\"" | not fcdp-opt --fcdp-verify-imported 2>&1 | FileCheck %s --check-prefix=READS
// READS: error: 'fcdp.read_input' op expected an input of @evaluate, got @y
// RUN: fcdp-opt %t/evaluated.mlir --fcdp-shard="nodes=2 micro-batches=2" --fcdp-verify-sharded -o %t/family.mlir
// RUN: FileCheck %s --check-prefix=FAMILY --input-file=%t/family.mlir
// FAMILY-LABEL: func.func @update
// FAMILY-LABEL: func.func @first_evaluation() attributes {fcdp.role = #fcdp.role<first_evaluation>}
// FAMILY: fcdp.all_gather %{{.*}} of @w
// FAMILY-LABEL: func.func @next_evaluation() attributes {fcdp.role = #fcdp.role<next_evaluation>}
// FAMILY: fcdp.all_gather %{{.*}} of @w
// RUN: %edit %t/family.mlir --replace "next_evaluation" "only_microbatch" | not fcdp-opt --fcdp-verify-sharded 2>&1 | FileCheck %s --check-prefix=HALF
// HALF: error: expected @init, @update, {{.*}} both or none of @first_evaluation and @next_evaluation
// RUN: not fcdp-opt %t/no-loss.mlir --fcdp-verify-imported 2>&1 | FileCheck %s --check-prefix=LOSS
// LOSS: error: expected one loss, got 0
// RUN: not fcdp-opt %t/no-gradient.mlir --fcdp-verify-imported 2>&1 | FileCheck %s --check-prefix=GRADIENT
// GRADIENT: error: 'fcdp.parameter' op expected one gradient, got 0
// RUN: not fcdp-opt %t/two-gradients.mlir --fcdp-verify-imported 2>&1 | FileCheck %s --check-prefix=GRADIENTS
// GRADIENTS: error: 'fcdp.parameter' op expected one gradient, got 2
// RUN: not fcdp-opt %t/good.mlir --fcdp-verify-sharded 2>&1 | FileCheck %s --check-prefix=PHASE
// PHASE: error: expected a module in phase 'sharded'
// RUN: not fcdp-opt %t/early.mlir --fcdp-verify-imported 2>&1 | FileCheck %s --check-prefix=EARLY
// EARLY: error: 'fcdp.mesh' op may not appear in phase 'imported'
// RUN: %edit %t/good.mlir --insert-after "aten.sum" "%d = aten.call \"a.b.c\"() : () -> tensor<?xf32>" | not fcdp-opt --fcdp-verify-imported 2>&1 | FileCheck %s --check-prefix=DYNAMIC
// DYNAMIC: error: 'aten.call' op expected results whose bytes are known, got 'tensor<?xf32>'

// RUN: fcdp-opt %t/good.mlir --fcdp-shard="nodes=2 micro-batches=2" --fcdp-verify-sharded -o %t/sharded.mlir
// RUN: %edit %t/sharded.mlir --delete "fcdp.accumulate" | not fcdp-opt --fcdp-verify-sharded 2>&1 | FileCheck %s --check-prefix=REDUCED
// REDUCED: error: expected one gradient of @w, got 0
// RUN: %edit %t/sharded.mlir --delete "fcdp.shard_update" | not fcdp-opt --fcdp-verify-sharded 2>&1 | FileCheck %s --check-prefix=UPDATED
// UPDATED: error: expected one update of @w, got 0
// RUN: %edit %t/sharded.mlir --line "fcdp.accumulate" --replace "add" "overwrite" | not fcdp-opt --fcdp-verify-sharded 2>&1 | FileCheck %s --check-prefix=ADD
// ADD: error: 'fcdp.accumulate' op expected 'add' in @next_microbatch
// RUN: %edit %t/sharded.mlir --line "fcdp.accumulate" --replace "overwrite" "add" | not fcdp-opt --fcdp-verify-sharded 2>&1 | FileCheck %s --check-prefix=OVERWRITE
// OVERWRITE: error: 'fcdp.accumulate' op expected 'overwrite' in @first_microbatch
// RUN: fcdp-opt %t/good.mlir --fcdp-shard="nodes=2 clip-norm=0.5" --fcdp-verify-sharded -o %t/clipped.mlir
// RUN: FileCheck %s --check-prefix=CLIPPED --input-file=%t/clipped.mlir
// CLIPPED-LABEL: func.func @update
// CLIPPED-NEXT: fcdp.clip_gradients to 5.000000e-01 scale 5.000000e-01
// CLIPPED-NEXT: fcdp.shard_update
// RUN: %edit %t/clipped.mlir --repeat "fcdp.clip_gradients" | not fcdp-opt --fcdp-verify-sharded 2>&1 | FileCheck %s --check-prefix=CLIPTWICE
// CLIPTWICE: error: 'fcdp.clip_gradients' op expected once, before the first update
// RUN: %edit %t/clipped.mlir --insert-after "fcdp.loss" "fcdp.clip_gradients to 1.0 scale 1.0" | not fcdp-opt --fcdp-verify-sharded 2>&1 | FileCheck %s --check-prefix=CLIPEARLY
// CLIPEARLY: error: 'fcdp.clip_gradients' op may appear in @update only
// RUN: not fcdp-opt %t/good.mlir --fcdp-shard="clip-norm=-1" 2>&1 | FileCheck %s --check-prefix=CLIPNORM
// CLIPNORM: error: clip-norm: expected a positive number, got '-1.000000e+00'
// Dont: without a bound nothing is clipped.
// RUN: FileCheck %s --check-prefix=DONTCLIP --input-file=%t/sharded.mlir
// DONTCLIP-NOT: fcdp.clip_gradients
// Gradients are divided by the loss scale once, before they are clipped, if and only if micro-batches scale them.
// RUN: %edit %t/good.mlir --insert-after "aten.sum" "fcdp.read_loss_scale : tensor<f32>" | fcdp-opt --fcdp-shard="nodes=2 micro-batches=2 clip-norm=0.5" --fcdp-verify-sharded -o %t/unscaled.mlir
// RUN: %edit %t/unscaled.mlir --repeat "fcdp.unscale_gradients" | not fcdp-opt --fcdp-verify-sharded 2>&1 | FileCheck %s --check-prefix=UNSCALETWICE
// UNSCALETWICE: error: 'fcdp.unscale_gradients' op expected once, before gradients are clipped or used
// RUN: %edit %t/unscaled.mlir --insert-after "fcdp.clip_gradients" "fcdp.unscale_gradients" | not fcdp-opt --fcdp-verify-sharded 2>&1 | FileCheck %s --check-prefix=UNSCALETWICE
// RUN: %edit %t/unscaled.mlir --delete "fcdp.unscale_gradients" --insert-after "fcdp.clip_gradients" "fcdp.unscale_gradients" | not fcdp-opt --fcdp-verify-sharded 2>&1 | FileCheck %s --check-prefix=UNSCALETWICE
// RUN: %edit %t/sharded.mlir --insert-after "fcdp.loss" "fcdp.unscale_gradients" | not fcdp-opt --fcdp-verify-sharded 2>&1 | FileCheck %s --check-prefix=UNSCALEEARLY
// UNSCALEEARLY: error: 'fcdp.unscale_gradients' op may appear in @update only
// RUN: %edit %t/unscaled.mlir --delete "fcdp.unscale_gradients" | not fcdp-opt --fcdp-verify-sharded 2>&1 | FileCheck %s --check-prefix=SCALED
// SCALED: error: expected no 'fcdp.read_loss_scale', as @update has no 'fcdp.unscale_gradients'
// RUN: %edit %t/clipped.mlir --insert-after "func.func @update" "fcdp.unscale_gradients" | not fcdp-opt --fcdp-verify-sharded 2>&1 | FileCheck %s --check-prefix=UNSCALED
// UNSCALED: error: expected 'fcdp.read_loss_scale', as @update has 'fcdp.unscale_gradients'
// RUN: %edit %t/unscaled.mlir --insert-after "func.func @init" "fcdp.read_loss_scale : tensor<f32>" | not fcdp-opt --fcdp-verify-sharded 2>&1 | FileCheck %s --check-prefix=SCALEINIT
// SCALEINIT: error: expected no 'fcdp.read_loss_scale', as it is no micro-batch
// Micro-batches read the factor of their weight if and only if the module says that losses are weighted.
// RUN: sed 's/module attributes {/module attributes {fcdp.loss_weight = "x", /' %t/sharded.mlir > %t/unweighted.mlir
// RUN: not fcdp-opt %t/unweighted.mlir --fcdp-verify-sharded 2>&1 | FileCheck %s --check-prefix=UNWEIGHTED
// UNWEIGHTED: error: expected 'fcdp.read_loss_weight', as the module has 'fcdp.loss_weight'
// RUN: %edit %t/unweighted.mlir --insert-after "fcdp.loss" "fcdp.read_loss_weight : tensor<f32>" | fcdp-opt --fcdp-verify-sharded -o %t/weighted.mlir
// RUN: sed 's/fcdp.loss_weight = "x", //' %t/weighted.mlir | not fcdp-opt --fcdp-verify-sharded 2>&1 | FileCheck %s --check-prefix=WEIGHTED
// WEIGHTED: error: expected no 'fcdp.read_loss_weight', as the module has no 'fcdp.loss_weight'
// RUN: %edit %t/weighted.mlir --insert-after "func.func @init" "fcdp.read_loss_weight : tensor<f32>" | not fcdp-opt --fcdp-verify-sharded 2>&1 | FileCheck %s --check-prefix=WEIGHTINIT
// WEIGHTINIT: error: expected no 'fcdp.read_loss_weight', as it is no micro-batch
// RUN: %edit %t/sharded.mlir --insert-after "fcdp.loss" "fcdp.read_parameter @w : tensor<4xf32>" | not fcdp-opt --fcdp-verify-sharded 2>&1 | FileCheck %s --check-prefix=LATE
// LATE: error: 'fcdp.read_parameter' op may not appear in phase 'sharded'

// RUN: fcdp-opt %t/good.mlir --fcdp-shard=nodes=2 --fcdp-bucket --fcdp-two-level --fcdp-schedule --fcdp-verify-scheduled -o %t/scheduled.mlir
// RUN: %edit %t/scheduled.mlir --line "fcdp.reduce_scatter" --replace " on inter_reduce" "" | not fcdp-opt --fcdp-verify-scheduled 2>&1 | FileCheck %s --check-prefix=STREAM
// STREAM: error: 'fcdp.{{.*}}' op expected a stream
// One stream uses a communicator, whatever the function.
// RUN: fcdp-opt %t/good.mlir --fcdp-shard="nodes=2 micro-batches=2" --fcdp-bucket --fcdp-two-level --fcdp-schedule -o %t/communicators.mlir
// RUN: %edit %t/communicators.mlir --first --line fcdp.all_gather --replace " on inter " " on d2h " | not fcdp-opt --fcdp-verify-scheduled 2>&1 | FileCheck %s --check-prefix=GATHERS
// GATHERS: error: 'fcdp.all_gather' op expected stream 'd2h', got 'inter': one stream uses the communicator of all of these over axis 'node'
// GATHERS: note: the first is here
// RUN: %edit %t/communicators.mlir --first --line fcdp.reduce_scatter --replace " on inter_reduce " " on d2h " | not fcdp-opt --fcdp-verify-scheduled 2>&1 | FileCheck %s --check-prefix=REDUCTIONS
// REDUCTIONS: error: 'fcdp.reduce_scatter' op expected stream 'd2h', got 'inter_reduce': one stream uses the communicator of all of these over axis 'node'
// RUN: fcdp-opt %t/good.mlir --fcdp-shard="nodes=2 ranks-per-node=2 micro-batches=2" --fcdp-bucket --fcdp-decide="strategy=zero3 collectives=flat" --fcdp-two-level --fcdp-schedule -o %t/flat.mlir
// RUN: fcdp-opt %t/flat.mlir --fcdp-verify-scheduled -o /dev/null
// RUN: %edit %t/flat.mlir --first --line fcdp.all_gather --replace " on inter " " on d2h " | not fcdp-opt --fcdp-verify-scheduled 2>&1 | FileCheck %s --check-prefix=WORLD
// WORLD: error: 'fcdp.all_gather' op expected stream 'd2h', got 'inter': one stream uses the communicator of all of these over both axes
// A collective stays whole only where its bucket says so.
// RUN: %edit %t/flat.mlir --replace "collectives flat" "" | not fcdp-opt --fcdp-verify-scheduled 2>&1 | FileCheck %s --check-prefix=WHOLE
// WHOLE: error: 'fcdp.all_gather' op expected one axis and flat tensors; run --fcdp-bucket and --fcdp-two-level first
// Dont: one stream may use several.
// RUN: %edit %t/communicators.mlir --replace "inter_reduce" "inter" | fcdp-opt --fcdp-verify-scheduled
// RUN: %edit %t/scheduled.mlir --repeat "fcdp.release" | not fcdp-opt --fcdp-verify-scheduled 2>&1 | FileCheck %s --check-prefix=TWICE
// TWICE: error:
// RUN: %edit %t/scheduled.mlir --delete "fcdp.release" | not fcdp-opt --fcdp-verify-scheduled 2>&1 | FileCheck %s --check-prefix=RELEASE
// RELEASE: op expected one release of its result, got 0

//--- good.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @w : tensor<4xf32> unit "" trainable names ["w"]
  func.func @step() {
    %w = fcdp.read_parameter @w : tensor<4xf32>
    %l = aten.call "aten.sum.default"(self = %w) : (tensor<4xf32>) -> tensor<f32>
    fcdp.loss %l : tensor<f32>
    fcdp.gradient %w of @w : tensor<4xf32>
    return
  }
}
//--- evaluated.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @w : tensor<4xf32> unit "" trainable names ["w"]
  fcdp.input @y : tensor<4xf32> name "x" evaluation
  func.func @step() {
    %w = fcdp.read_parameter @w : tensor<4xf32>
    %l = aten.call "aten.sum.default"(self = %w) : (tensor<4xf32>) -> tensor<f32>
    fcdp.loss %l : tensor<f32>
    fcdp.gradient %w of @w : tensor<4xf32>
    return
  }
  func.func @evaluate() {
    %w = fcdp.read_parameter @w : tensor<4xf32>
    %y = fcdp.read_input @y : tensor<4xf32>
    %e = aten.call "aten.dot.default"(self = %w, tensor = %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<f32>
    fcdp.loss %e : tensor<f32>
    return
  }
}
//--- two-functions.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  func.func @step() { return }
  func.func @more() { return }
}
//--- no-loss.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  func.func @step() { return }
}
//--- no-gradient.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @w : tensor<f32> unit "" trainable names ["w"]
  func.func @step() {
    %w = fcdp.read_parameter @w : tensor<f32>
    fcdp.loss %w : tensor<f32>
    return
  }
}
//--- two-gradients.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @w : tensor<f32> unit "" trainable names ["w"]
  func.func @step() {
    %w = fcdp.read_parameter @w : tensor<f32>
    fcdp.loss %w : tensor<f32>
    fcdp.gradient %w of @w : tensor<f32>
    fcdp.gradient %w of @w : tensor<f32>
    return
  }
}
//--- early.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.mesh @world(node = 1, local = 1)
  func.func @step() { return }
}
