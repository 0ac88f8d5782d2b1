// A plan that is broken by hand is refused.
// RUN: fcdp-opt %s --fcdp-pipeline="nodes=2 ranks-per-node=2 strategy=fcdp optimizer=sgd" -o %t.mlir
// RUN: fcdp-opt %t.mlir --fcdp-verify-planned -o /dev/null

// RUN: %edit %t.mlir --delete "fcdp.release" | not fcdp-opt --fcdp-verify-planned 2>&1 | FileCheck %s --check-prefix=RELEASE
// RELEASE: error: 'fcdp.{{.*}}' op expected one release of its result, got 0

// RUN: %edit %t.mlir --line "fcdp.pack" --replace "{buffer = {{[^}]*}}}" "" | not fcdp-opt --fcdp-verify-planned 2>&1 | FileCheck %s --check-prefix=BUFFER
// BUFFER: error: 'fcdp.pack' op expected a buffer of 256 bytes

// RUN: %edit %t.mlir --line "fcdp.reduce_scatter" --replace ", scratch = {{[^}]*}}}" "}" | not fcdp-opt --fcdp-verify-planned 2>&1 | FileCheck %s --check-prefix=SCRATCH
// SCRATCH: error: 'fcdp.reduce_scatter' op expected a scratch buffer

// RUN: %edit %t.mlir --line "fcdp.record" --replace " event 0" "" | not fcdp-opt --fcdp-verify-planned 2>&1 | FileCheck %s --check-prefix=EVENT
// EVENT: error: 'fcdp.record' op expected an event
// RUN: %edit %t.mlir --line "fcdp.record" --replace " event 1{{$}}" " event 0" | not fcdp-opt --fcdp-verify-planned 2>&1 | FileCheck %s --check-prefix=SHARED
// SHARED: error: 'fcdp.record' op expected an event of its own, got 0

// RUN: %edit %t.mlir --line "fcdp.state" --replace " at <{{.*}}" "" | not fcdp-opt --fcdp-verify-planned 2>&1 | FileCheck %s --check-prefix=STATE
// STATE: error: 'fcdp.state' op expected a buffer
// RUN: %edit %t.mlir --line "fcdp.pack" --replace "offset = {{[0-9]*}}" "offset = 4100" | not fcdp-opt --fcdp-verify-planned 2>&1 | FileCheck %s --check-prefix=ALIGNED
// ALIGNED: error: 'fcdp.pack' op expected a buffer at a multiple of 64 bytes, got 4100

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
