// What messages of reductions leave out stays where only they write.
// RUN: split-file %s %t
// RUN: fcdp-opt %t/step.mlir --fcdp-pipeline="nodes=2 ranks-per-node=2 micro-batches=2 strategy=fcdp optimizer=sgd reduce-wire=int8" -o %t/two.mlir
// RUN: fcdp-opt %t/two.mlir --fcdp-verify-plan | diff %t/two.mlir -

// Another state on top of it.
// RUN: %edit %t/two.mlir --line "fcdp.state @bucket.a.cache" --replace "offset = {{[0-9]*}}" "offset = 0" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=OVERLAP
// OVERLAP: error: 'fcdp.state' op of 'w' of @bucket.a: its buffer at {{[0-9]+}} overlaps another state

// The size of messages is exact.
// RUN: %edit %t/two.mlir --line "fcdp.bucket @bucket.a " --replace "reduce_wire int8" "reduce_wire int4" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=BYTES
// BYTES: error: 'fcdp.bucket' op expected 'w' of @bucket.a with residency 'host' and 2 live ranges to mean that a rank sends between nodes {{[0-9]+}} bytes in @first_microbatch, got {{[0-9]+}}

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
