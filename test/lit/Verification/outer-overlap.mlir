// A plan whose outer updates are in micro-batches, broken by hand in one place, is refused.
// RUN: split-file %s %t
// RUN: fcdp-opt %t/step.mlir --fcdp-pipeline="nodes=2 ranks-per-node=2 strategy=hsdp optimizer=sgd outer=8,overlap=on" -o %t/one.mlir
// RUN: fcdp-opt %t/one.mlir --fcdp-verify-plan | diff %t/one.mlir -
// RUN: fcdp-opt %t/step.mlir --fcdp-pipeline="nodes=2 ranks-per-node=2 micro-batches=3 strategy=mics accumulate=full optimizer=adamw outer=8,fragments=2,momentum=0,overlap=on clip-norm=1" | fcdp-opt --fcdp-verify-plan -o /dev/null
// RUN: fcdp-opt %t/step.mlir --fcdp-pipeline="nodes=2 ranks-per-node=2 micro-batches=2 strategy=hsdp prefetch=3 optimizer=sgd outer=8,fragments=2,overlap=on,wire=int8" | fcdp-opt --fcdp-verify-plan -o /dev/null

// In front of the last gather of its bucket.
// RUN: %edit %t/one.mlir --in only_outer_microbatch --delete "fcdp.outer_update @bucket.b" --replace "{{(.*fcdp.release %2 .*)}}" "\1\nfcdp.wait %%19 on compute\nfcdp.outer_update @bucket.b with %%18 scale 0.5 : tensor<32xbf16>" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=GATHER
// GATHER: error: 'fcdp.all_gather' op for 'u' of @bucket.b in @only_outer_microbatch: reads 'u' of @bucket.b after its outer update; a micro-batch computes with the parameters from before the update
// GATHER: note: updated here, on compute in @only_outer_microbatch for 'u' of @bucket.b
// In front of the last use of a gathered copy.
// RUN: %edit %t/one.mlir --in only_outer_microbatch --delete "fcdp.outer_update @bucket.a" --replace "{{(.*fcdp.wait %7 on +compute)}}" "\1\nfcdp.wait %%13 on compute\nfcdp.outer_update @bucket.a with %%12 scale 0.5 : tensor<32xbf16>" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=USE
// USE: error: 'fcdp.view_member' op for 'w' of @bucket.a in @only_outer_microbatch: reads a dirty copy of 'w' of @bucket.a, from before its update
// While a gather may still read the shard.
// RUN: %edit %t/one.mlir --in only_outer_microbatch --delete "fcdp.outer_update @bucket.a" --replace "{{(.*fcdp.release %2 .*)}}" "\1\nfcdp.wait %%13 on compute\nfcdp.outer_update @bucket.a with %%12 scale 0.5 : tensor<32xbf16>" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=RACE
// RACE: error: 'fcdp.outer_update' op for 'w' of @bucket.a in @only_outer_microbatch: writes bytes {{.*}} of the device arena on compute, not ordered with another access to them; expected 'compute' to wait for 'intra'

// Not once.
// RUN: %edit %t/one.mlir --in only_outer_microbatch --delete "fcdp.outer_update @bucket.b" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: error: 'fcdp.bucket' op expected one update of 'u' of @bucket.b in @only_outer_microbatch, got none
// RUN: %edit %t/one.mlir --in only_outer_microbatch --repeat "fcdp.outer_update @bucket.b" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=TWICE
// TWICE: error: 'fcdp.outer_update' op for 'u' of @bucket.b in @only_outer_microbatch: expected the difference of 'u' of @bucket.b since its last update

// The sum has not come.
// RUN: %edit %t/one.mlir --in only_outer_microbatch --delete "fcdp.wait %%19 on compute" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=SUM
// SUM: error: 'fcdp.outer_update' op for 'u' of @bucket.b in @only_outer_microbatch: reads bytes {{.*}} on compute, not ordered with another access to them; expected 'compute' to wait for 'inter'
// Operators compute in its memory meanwhile.
// RUN: %edit %t/one.mlir --in only_outer_microbatch --line "fcdp.all_gather %%16" --replace "offset = {{\d+}}" "offset = 1536" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=MEMORY
// MEMORY: error: 'fcdp.all_gather' op for 'u' of @bucket.b in @only_outer_microbatch: writes bytes [1536, {{[0-9]+}}) of the device arena on intra, not ordered with another access to them; expected 'intra' to wait for 'inter'

// One step in eight sends more than the others, and the exchange is counted.
// RUN: %edit %t/one.mlir --line "fcdp.bucket @bucket.b" --replace "outer 0" "reduce_wire coded outer 0" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=BYTES
// BYTES: error: 'fcdp.bucket' op expected 'u' of @bucket.b {{.*}} to mean that a rank sends between nodes {{[0-9]+}} bytes in @only_outer_microbatch, got 64

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
