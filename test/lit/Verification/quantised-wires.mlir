// Reductions keep the values that their messages leave out where only they write.
// RUN: split-file %s %t
// RUN: fcdp-opt %t/step.mlir --fcdp-pipeline="nodes=2 ranks-per-node=2 micro-batches=2 strategy=fcdp optimizer=sgd reduce-wire=int8" -o %t/two.mlir
// RUN: fcdp-opt %t/two.mlir --fcdp-verify-plan | diff %t/two.mlir -

// Another state on top of it.
// RUN: %edit %t/two.mlir --line "fcdp.state @bucket.a.cache" --replace "offset = {{[0-9]*}}" "offset = 0" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=OVERLAP
// OVERLAP: error: 'fcdp.state' op of 'w' of @bucket.a: its buffer at {{[0-9]+}} overlaps another state

// The size of messages is exact.
// RUN: %edit %t/two.mlir --line "fcdp.bucket @bucket.a " --replace "reduce_wire int8" "reduce_wire int4" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=BYTES
// BYTES: error: 'fcdp.bucket' op expected 'w' of @bucket.a with residency 'host' and 2 live ranges to mean that a rank sends between nodes {{[0-9]+}} bytes in @first_microbatch, got {{[0-9]+}}

// Two messages of a bucket use one residual, so a stream or a wait orders them.
// RUN: %edit %t/two.mlir --in first_microbatch --replace "{{(fcdp.wait %\w+) on +inter_reduce}}" "\1 on inter_reduce\n \1 on inter" --replace "{{(.*)%(\w+) = (fcdp.reduce_scatter .* residual .*) on +inter_reduce (.*)offset = (\d+)(.*)offset = (\d+)(.*)}}" "\1%\2 = \3 on inter_reduce \4offset = \5\6offset = \7\8\n %%again = \3 on inter \4offset = 4096\6offset = 8192\8" > %t/race.mlir
// RUN: not fcdp-opt %t/race.mlir --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=RACE
// RACE: error: 'fcdp.reduce_scatter' op for 'w' of @bucket.a in @first_microbatch: reads bytes [0, {{[0-9]+}}) of the host arena on inter, not ordered with another access to them; expected 'inter' to wait for 'inter_reduce'
// RACE: note: the other access, on inter_reduce in @first_microbatch for 'w' of @bucket.a

// A message that has no residual, or names a residual that is not there.
// RUN: %edit %t/two.mlir --in last_microbatch --replace "residual @bucket.a.residual" "" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: error: 'fcdp.reduce_scatter' op expected 'residual' with the codes 'int8' and 'int4', and no others
// RUN: %edit %t/two.mlir --delete "fcdp.state @bucket.a.residual" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=MISSING
// MISSING: error: 'fcdp.reduce_scatter' op expected 'residual' to be a state of role 'residual' of @bucket.a with 32 elements, got @bucket.a.residual

// The residual of another bucket.
// RUN: sed 's/@v : tensor<4xf32> unit "b"/@v : tensor<64xf32> unit "b" trainable/; s/tensor<4xf32>/tensor<64xf32>/; s/fcdp.loss/fcdp.gradient %%v of @v : tensor<64xf32>\n fcdp.loss/' %t/step.mlir > %t/trained.mlir
// RUN: fcdp-opt %t/trained.mlir --fcdp-pipeline="nodes=2 ranks-per-node=2 strategy=fcdp optimizer=sgd reduce-wire=int8" -o %t/both.mlir
// RUN: %edit %t/both.mlir --line "of @bucket.a over" --replace "residual @bucket.a.residual" "residual @bucket.b.residual" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=OTHER
// OTHER: error: 'fcdp.reduce_scatter' op expected 'residual' to be a state of role 'residual' of @bucket.a with 32 elements, got @bucket.b.residual

// The ranks of a node have slices of their own.
// RUN: %edit %t/two.mlir --line "fcdp.state @bucket.a.residual" --replace "local_stride = {{\d+}}" "local_stride = 64" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=PARTS
// PARTS: error: 'fcdp.state' op of 'w' of @bucket.a: the parts of a node's ranks overlap: expected a local_stride of at least 640 bytes, got 64

//--- step.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @w : tensor<64xf32> unit "a" trainable names ["w"]
  fcdp.parameter @v : tensor<4xf32> unit "b" names ["v"]
  func.func @step() {
    %w = fcdp.read_parameter @w : tensor<64xf32>
    %v = fcdp.read_parameter @v : tensor<4xf32>
    %0 = aten.call "aten.neg.default"(self = %w) : (tensor<64xf32>) -> tensor<64xf32>
    %l = aten.call "aten.sum.default"(self = %v) : (tensor<4xf32>) -> tensor<f32>
    %1 = aten.call "aten.mul.Tensor"(self = %0, other = %w) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    fcdp.loss %l : tensor<f32>
    fcdp.gradient %1 of @w : tensor<64xf32>
    return
  }
}
