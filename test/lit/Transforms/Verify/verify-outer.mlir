// Phases require this of outer steps beyond their operations' own constraints.
// RUN: split-file %s %t
// RUN: fcdp-opt %t/step.mlir --fcdp-shard="nodes=2 ranks-per-node=2 optimizer=sgd" --fcdp-bucket=sharding=node --fcdp-decide=strategy=hsdp --fcdp-outer-steps=outer=8 --fcdp-verify-sharded -o %t/one.mlir
// RUN: fcdp-opt %t/step.mlir --fcdp-shard="nodes=2 ranks-per-node=2 optimizer=sgd" --fcdp-bucket=sharding=node --fcdp-decide=strategy=hsdp --fcdp-outer-steps=outer=8,fragments=2 --fcdp-verify-sharded -o %t/two.mlir

//===--- Functions
// RUN: %edit %t/one.mlir --replace "@outer_update()" "@outer()" | not fcdp-opt --fcdp-verify-sharded 2>&1 | FileCheck %s --check-prefix=NAME
// NAME: error: expected a role that is the function's name
// RUN: %edit %t/two.mlir --replace "@outer_update.1()" "@outer_update.2()" | not fcdp-opt --fcdp-verify-sharded 2>&1 | FileCheck %s --check-prefix=FRAGMENT
// FRAGMENT: error: expected a role, and a variant of a micro-batch or a fragment, that are the function's name
// RUN: %edit %t/two.mlir --replace ", fcdp.variant = 1 : i64" "" | not fcdp-opt --fcdp-verify-sharded 2>&1 | FileCheck %s --check-prefix=FRAGMENT
// RUN: %edit %t/one.mlir --replace "#fcdp.role<outer_update>" "#fcdp.role<outer_update>, fcdp.variant = 0 : i64" | not fcdp-opt --fcdp-verify-sharded 2>&1 | FileCheck %s --check-prefix=NAME
// A fragment that has no outer update.
// RUN: sed 's/fragments = 1/fragments = 2/' %t/one.mlir > %t/more.mlir
// RUN: not fcdp-opt %t/more.mlir --fcdp-verify-sharded 2>&1 | FileCheck %s --check-prefix=FRAGMENT
// RUN: %edit %t/more.mlir --replace "@outer_update() attributes {fcdp.role = #fcdp.role<outer_update>" "@outer_update.0() attributes {fcdp.role = #fcdp.role<outer_update>, fcdp.variant = 0 : i64" | not fcdp-opt --fcdp-verify-sharded 2>&1 | FileCheck %s --check-prefix=MISSING
// MISSING: error: expected @init, @update, {{.*}}; and @outer_update of each fragment of 'fcdp.outer'
// RUN: sed '/func.func @outer_update/,/^  }/d' %t/one.mlir | not fcdp-opt --fcdp-verify-sharded 2>&1 | FileCheck %s --check-prefix=MISSING
// RUN: sed 's/fcdp.outer = #fcdp.outer<[^>]*>, //; s/ outer 0 members/ members/; /outer of\|outer_momentum of\|outer_difference\|outer_update @/d; /func.func @outer_update/,/^  }/{/all_gather\|reduce_scatter/d}' %t/one.mlir | not fcdp-opt --fcdp-verify-sharded 2>&1 | FileCheck %s --check-prefix=NEEDLESS
// NEEDLESS: error: expected @init, @update, {{.*}}as 'fcdp.micro_batches' is 1
// Dont: fragments are no variants of the step.
// RUN: fcdp-opt %t/two.mlir --fcdp-verify-sharded -o /dev/null

//===--- Operations
// RUN: %edit %t/one.mlir --delete "fcdp.outer_update @bucket.b" | not fcdp-opt --fcdp-verify-sharded 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: error: expected one outer update of @bucket.b, got 0
// RUN: %edit %t/one.mlir --repeat "fcdp.outer_update @bucket.b" | not fcdp-opt --fcdp-verify-sharded 2>&1 | FileCheck %s --check-prefix=TWICE
// TWICE: error: expected one outer update of @bucket.b, got 2
// The update of another fragment's bucket.
// RUN: %edit %t/two.mlir --replace "outer 1 members" "outer 0 members" | not fcdp-opt --fcdp-verify-sharded 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: %edit %t/one.mlir --insert-after "func.func @update" "fcdp.outer_difference @bucket.a : tensor<32xf32>" | not fcdp-opt --fcdp-verify-sharded 2>&1 | FileCheck %s --check-prefix=DIFFERENCE
// DIFFERENCE: error: 'fcdp.outer_difference' op may not appear in @update
// RUN: %edit %t/one.mlir --insert-after "%0 = fcdp.read_shard" "fcdp.outer_update @bucket.a with %%0 scale 0.5 : tensor<32xf32>" | not fcdp-opt --fcdp-verify-sharded 2>&1 | FileCheck %s --check-prefix=UPDATE
// UPDATE: error: 'fcdp.outer_update' op may not appear in @only_microbatch
// RUN: %edit %t/one.mlir --insert-after "func.func @outer_update" "fcdp.read_shard @bucket.a : tensor<32xf32>" | not fcdp-opt --fcdp-verify-sharded 2>&1 | FileCheck %s --check-prefix=FOREIGN
// FOREIGN: error: 'fcdp.read_shard' op may not appear in @outer_update
// RUN: %edit %t/one.mlir --line "fcdp.outer_update @bucket.a" --replace "scale {{\S+}}" "scale 1.0" | not fcdp-opt --fcdp-verify-sharded 2>&1 | FileCheck %s --check-prefix=SCALE
// SCALE: error: 'fcdp.outer_update' op expected a scale of {{.*}}, 1 / nodes, got {{.*}}
// Gradients are the mean over the ranks of a node, not over all.
// RUN: %edit %t/one.mlir --line "fcdp.shard_update @bucket.a" --replace "scale {{\S+}}" "scale 0.25" | not fcdp-opt --fcdp-verify-sharded 2>&1 | FileCheck %s --check-prefix=MEAN
// MEAN: error: 'fcdp.shard_update' op expected a scale of {{.*}}, 1 / (ranks of a node x micro-batches), got {{.*}}

//===--- States
// RUN: %edit %t/one.mlir --delete "fcdp.state @bucket.a.outer outer" | not fcdp-opt --fcdp-verify-sharded 2>&1 | FileCheck %s --check-prefix=OUTER
// OUTER: error: 'fcdp.bucket' op expected a state 'outer' of it
// RUN: %edit %t/one.mlir --delete "fcdp.state @bucket.b.outer_momentum" | not fcdp-opt --fcdp-verify-sharded 2>&1 | FileCheck %s --check-prefix=MOMENTUM
// MOMENTUM: error: 'fcdp.bucket' op expected a state 'outer_momentum' of it
// RUN: %edit %t/one.mlir --first --replace " outer 0 members" " outer 1 members" | not fcdp-opt --fcdp-verify-sharded 2>&1 | FileCheck %s --check-prefix=RANGE
// RANGE: error: 'fcdp.bucket' op expected 'outer' below the 1 fragments of 'fcdp.outer', got 1
// RUN: sed 's/fcdp.outer = #fcdp.outer<[^>]*>, //; /func.func @outer_update/,/^  }/d' %t/one.mlir | not fcdp-opt --fcdp-verify-sharded 2>&1 | FileCheck %s --check-prefix=ATTRIBUTE
// ATTRIBUTE: error: 'fcdp.bucket' op expected no 'outer', unless the module has 'fcdp.outer'
// RUN: %edit %t/one.mlir --line "@bucket.b unit" --replace " outer 0 members" " members" --delete "of @bucket.b in host" --delete "outer_update @bucket.b" --delete "outer_difference @bucket.b" --in outer_update --delete "of @bucket.b over" | not fcdp-opt --fcdp-verify-sharded 2>&1 | FileCheck %s --check-prefix=BUCKET
// BUCKET: error: 'fcdp.bucket' op expected a fragment 'outer', as the module has 'fcdp.outer'

//===--- Memory
// RUN: fcdp-opt %t/step.mlir --fcdp-pipeline="nodes=2 ranks-per-node=2 strategy=hsdp optimizer=sgd outer=8" -o %t/planned.mlir
// RUN: %edit %t/planned.mlir --line "fcdp.outer_difference @bucket.a" --replace " {buffer = {{.*}}>}" "" | not fcdp-opt --fcdp-verify-planned 2>&1 | FileCheck %s --check-prefix=PLACE
// PLACE: error: 'fcdp.outer_difference' op expected

//--- step.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @w : tensor<64xf32> unit "a" trainable names ["w"]
  fcdp.parameter @u : tensor<64xf32> unit "b" trainable names ["u"]
  func.func @step() {
    %w = fcdp.read_parameter @w : tensor<64xf32>
    %u = fcdp.read_parameter @u : tensor<64xf32>
    %l = aten.call "aten.sum.default"(self = %u) : (tensor<64xf32>) -> tensor<f32>
    %0 = aten.call "aten.neg.default"(self = %w) : (tensor<64xf32>) -> tensor<64xf32>
    %1 = aten.call "aten.neg.default"(self = %u) : (tensor<64xf32>) -> tensor<64xf32>
    fcdp.loss %l : tensor<f32>
    fcdp.gradient %0 of @w : tensor<64xf32>
    fcdp.gradient %1 of @u : tensor<64xf32>
    return
  }
}
