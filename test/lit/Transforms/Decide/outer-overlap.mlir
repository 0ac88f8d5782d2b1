// Outer updates within the last micro-batch of a step.
// RUN: split-file %s %t
// RUN: fcdp-opt %t/step.mlir --fcdp-shard="nodes=2 ranks-per-node=2 optimizer=sgd" --fcdp-bucket=sharding=node --fcdp-decide=strategy=hsdp -o %t/one.mlir
// RUN: fcdp-opt %t/one.mlir --fcdp-outer-steps=outer=8,overlap=on --fcdp-verify-sharded -o %t/outer.mlir
// RUN: FileCheck %s --input-file=%t/outer.mlir --implicit-check-not=@outer_update

// CHECK: fcdp.outer = #fcdp.outer<every = 8, {{.*}}, fragments = 1, overlap = true>
// CHECK-LABEL: func.func @only_microbatch
// CHECK-NOT: fcdp.outer
// CHECK-LABEL: func.func @update
// CHECK-LABEL: func.func @only_outer_microbatch() attributes {fcdp.role = #fcdp.role<only_outer_microbatch>}
// Differences are taken after the first fetch begins, which runs meanwhile.
// CHECK: fcdp.all_gather {{.*}} of @bucket.b over @world[local]
// CHECK-NEXT: %[[A:.*]] = fcdp.outer_difference @bucket.a : tensor<32xbf16>
// CHECK-NEXT: %[[AR:.*]] = fcdp.reduce_scatter %[[A]] of @bucket.a over @world[node] : tensor<32xbf16> to tensor<16xbf16>
// CHECK-NEXT: %[[AS:.*]] = fcdp.all_gather %[[AR]] of @bucket.a over @world[node] : tensor<16xbf16> to tensor<32xbf16>
// CHECK-NEXT: fcdp.outer_difference @bucket.b : tensor<32xbf16>
// CHECK-NEXT: fcdp.reduce_scatter
// CHECK-NEXT: %[[BS:.*]] = fcdp.all_gather
// CHECK-NEXT: fcdp.view_member
// CHECK: fcdp.accumulate {{.*}} into @bucket.a
// CHECK: fcdp.accumulate {{.*}} into @bucket.b
// CHECK: fcdp.outer_update @bucket.a with %[[AS]] scale 5.000000e-01 : tensor<32xbf16>
// CHECK-NEXT: fcdp.outer_update @bucket.b with %[[BS]] scale 5.000000e-01 : tensor<32xbf16>
// CHECK-NEXT: return
// RUN: fcdp-opt %t/outer.mlir --fcdp-outer-steps=outer=8 | diff %t/outer.mlir -

// Each fragment has a micro-batch of its own, of several the last one.
// RUN: fcdp-opt %t/step.mlir --fcdp-shard="nodes=2 ranks-per-node=2 micro-batches=3 optimizer=sgd" --fcdp-bucket=sharding=node --fcdp-decide=strategy=hsdp --fcdp-outer-steps=outer=8,fragments=2,overlap=on --fcdp-verify-sharded | FileCheck %s --check-prefix=TWO --implicit-check-not=only_outer
// TWO: func.func @last_microbatch
// TWO-NOT: fcdp.outer_
// TWO: func.func @last_outer_microbatch.0() attributes {fcdp.role = #fcdp.role<last_outer_microbatch>, fcdp.variant = 0 : i64}
// TWO: fcdp.accumulate {{.*}} into @bucket.a add
// TWO-NOT: fcdp.outer_update @bucket.b
// TWO: fcdp.outer_update @bucket.a
// TWO-NEXT: return
// TWO: func.func @last_outer_microbatch.1() attributes {fcdp.role = #fcdp.role<last_outer_microbatch>, fcdp.variant = 1 : i64}
// TWO-NOT: fcdp.outer_update @bucket.a
// TWO: fcdp.outer_update @bucket.b
// TWO-NEXT: return

// Gathers are prefetched into it, and sums run on after it, as with the micro-batch that it replaces.
// RUN: fcdp-opt %t/step.mlir --fcdp-pipeline="nodes=2 ranks-per-node=2 micro-batches=3 strategy=hsdp optimizer=sgd outer=8,overlap=on" -o %t/planned.mlir
// RUN: FileCheck %s --check-prefix=ACROSS --input-file=%t/planned.mlir
// ACROSS: func.func @last_microbatch(%{{.*}}: !fcdp.token {{.*}}) -> (!fcdp.token, !fcdp.token)
// ACROSS: fcdp.read_state @bucket.b.prefetched
// ACROSS: func.func @last_outer_microbatch(%{{.*}}: !fcdp.token {{.*}}) -> (!fcdp.token, !fcdp.token)
// ACROSS: fcdp.read_state @bucket.b.prefetched
// ACROSS: fcdp.accumulate {{.*}} into @bucket.b add late on intra_reduce
// The exchange runs on streams of its own until the end.
// ACROSS: fcdp.wait {{.*}} on compute
// ACROSS-NEXT: fcdp.outer_update @bucket.a
// RUN: fcdp-opt %t/planned.mlir --fcdp-verify-plan | diff %t/planned.mlir -

// A step of several shapes has other micro-batches for each.
// RUN: not fcdp-opt %t/shapes.mlir --fcdp-pipeline="nodes=2 ranks-per-node=2 strategy=hsdp optimizer=sgd outer=8,overlap=on" 2>&1 | FileCheck %s --check-prefix=SHAPES
// SHAPES: error: outer: expected a step of one shape, with which 'overlap=on' works, got 2 shapes
// RUN: not fcdp-opt %t/one.mlir --fcdp-outer-steps=outer=8,overlap=1 2>&1 | FileCheck %s --check-prefix=WORD
// WORD: error: outer: expected 'overlap' to be one of off, on

// The family of functions is one or the other.
// RUN: %edit %t/outer.mlir --replace ", overlap = true" "" | not fcdp-opt --fcdp-verify-sharded 2>&1 | FileCheck %s --check-prefix=ALONE
// ALONE: error: expected @init, @update, @only_microbatch, {{.*}}; and @outer_update of each fragment of 'fcdp.outer'
// RUN: fcdp-opt %t/one.mlir --fcdp-outer-steps=outer=8 | %edit - --replace "fragments = 1" "fragments = 1, overlap = true" | not fcdp-opt --fcdp-verify-sharded 2>&1 | FileCheck %s --check-prefix=WITHIN
// WITHIN: error: expected @init, @update, @only_microbatch, {{.*}}; and @only_outer_microbatch of each fragment of 'fcdp.outer'
// RUN: %edit %t/outer.mlir --in only_outer_microbatch --delete "fcdp.outer_update @bucket.b" | not fcdp-opt --fcdp-verify-sharded 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: error: expected one outer update of @bucket.b, got 0

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
//--- shapes.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @w : tensor<64xf32> unit "a" trainable names ["w"]
  func.func @step() attributes {fcdp.variant = 0 : i64} {
    %w = fcdp.read_parameter @w : tensor<64xf32>
    %l = aten.call "aten.sum.default"(self = %w) : (tensor<64xf32>) -> tensor<f32>
    fcdp.loss %l : tensor<f32>
    fcdp.gradient %w of @w : tensor<64xf32>
    return
  }
  func.func @step.1() attributes {fcdp.variant = 1 : i64} {
    %w = fcdp.read_parameter @w : tensor<64xf32>
    %l = aten.call "aten.sum.default"(self = %w) : (tensor<64xf32>) -> tensor<f32>
    fcdp.loss %l : tensor<f32>
    fcdp.gradient %w of @w : tensor<64xf32>
    return
  }
}
