// A plan with values in host memory that is broken by hand in one place is refused.
// RUN: split-file %s %t
// RUN: fcdp-opt %t/step.mlir --fcdp-pipeline="nodes=1 ranks-per-node=2 strategy=zero3 optimizer=sgd cluster=cpu" -o %t/planned.mlir
// RUN: fcdp-opt %t/planned.mlir --fcdp-verify-planned --fcdp-verify-plan | diff %t/planned.mlir -
// RUN: FileCheck %s --input-file=%t/planned.mlir --check-prefix=PLAN
// Both ranks have a part of the same layout. The second value has other memory, since both are there at once.
// PLAN-LABEL: func.func @only_microbatch
// PLAN: %[[P:.*]] = aten.call "aten.mm.default"{{.*}}on_host
// PLAN: %[[T:.*]] = fcdp.record on compute
// PLAN: fcdp.wait %[[T]] on d2h
// PLAN: %[[S:.*]] = fcdp.store_value %[[P]] on d2h {place = #fcdp.buffer<arena = host, offset = [[A:[0-9]+]], bytes = 16384, local_stride = 32768>}
// PLAN: fcdp.store_value %{{.*}} on d2h {place = #fcdp.buffer<arena = host, offset = {{[0-9]+}}, bytes = 16384, local_stride = 32768>}
// PLAN: fcdp.drop_value %[[P]] stored %[[S]]
// PLAN: fcdp.load_value %[[S]] on h2d {buffer = #fcdp.buffer<arena = device,

// DEFINE: %{broken} = not fcdp-opt --fcdp-verify-plan
// The wait of the store for the call.
// RUN: %edit %t/planned.mlir --in only_microbatch --replace "fcdp.wait {{.*}} on d2h" "" | %{broken} 2>&1 | FileCheck %s --check-prefix=MADE
// MADE: error: 'fcdp.store_value' op {{.*}}in @only_microbatch: stores a value before 'd2h' has waited for compute, which makes it
// MADE: note: made here, on compute in @only_microbatch
// The waits of compute for the stores.
// RUN: %python %S/Inputs/drop_waits.py %t/planned.mlir d2h compute | %{broken} 2>&1 | FileCheck %s --check-prefix=DROPPED
// DROPPED: error: 'fcdp.drop_value' op {{.*}}in @only_microbatch: drops a value before compute has waited for the copy to host memory
// DROPPED: note: stored here, on d2h in @only_microbatch
// The waits of loads for stores and for compute, which has waited for them.
// RUN: %python %S/Inputs/drop_waits.py %t/planned.mlir d2h,compute h2d | %{broken} 2>&1 | FileCheck %s --check-prefix=LOADED
// LOADED: error: 'fcdp.load_value' op {{.*}}in @only_microbatch: reads bytes [{{[0-9]+}}, {{[0-9]+}}) of the host arena on h2d, not ordered with another access to them; expected 'h2d' to wait for 'd2h'
// The waits of compute for loads.
// RUN: %python %S/Inputs/drop_waits.py %t/planned.mlir h2d compute | %{broken} 2>&1 | FileCheck %s --check-prefix=READ
// READ: error: 'aten.call' op {{.*}}in @only_microbatch: reads bytes {{.*}} of the device arena on compute, not ordered with another access to them; expected 'compute' to wait for 'h2d'
// Two values at one place.
// RUN: %edit %t/planned.mlir --line "store_value" --replace "arena = host, offset = {{[0-9]+}}" "arena = host, offset = 0" | %{broken} 2>&1 | FileCheck %s --check-prefix=PLACE
// PLACE: error: 'fcdp.load_value' op {{.*}}in @only_microbatch: loads a value whose host memory, bytes [0, 16384), has been overwritten
// PLACE: note: the value is written here, on d2h in @only_microbatch
// PLACE: note: and overwritten here, on d2h in @only_microbatch
// The parts of the ranks.
// RUN: %edit %t/planned.mlir --first --line "store_value" --replace "local_stride = 32768" "local_stride = 65536" | %{broken} 2>&1 | FileCheck %s --check-prefix=PARTS
// PARTS: error: 'fcdp.store_value' op expected a local_stride of at least 32768 bytes, the same as of all places on the host, got

// A plan without places is not complete.
// RUN: %edit %t/planned.mlir --line "store_value" --replace "{place = {{.*}}>}" "" | not fcdp-opt --fcdp-verify-planned 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: error: 'fcdp.store_value' op expected a place

// Every micro-batch has the copies, in the same memory; an update has none.
// RUN: fcdp-opt %t/step.mlir --fcdp-pipeline="nodes=2 ranks-per-node=2 micro-batches=3 strategy=fcdp optimizer=sgd cluster=cpu" -o %t/three.mlir
// RUN: grep -c fcdp.store_value %t/three.mlir | FileCheck %s --check-prefix=SIX
// RUN: grep -c fcdp.load_value %t/three.mlir | FileCheck %s --check-prefix=SIX
// SIX: {{^}}6
// RUN: fcdp-opt %t/three.mlir --fcdp-verify-plan -o /dev/null

//--- step.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @w : tensor<64x64xf32> unit "a" trainable names ["w"]
  fcdp.parameter @v : tensor<64x64xf32> unit "b" trainable names ["v"]
  fcdp.input @x : tensor<64x64xf32> name "x"
  func.func @step() {
    %x = fcdp.read_input @x : tensor<64x64xf32>
    %w = fcdp.read_parameter @w : tensor<64x64xf32>
    %v = fcdp.read_parameter @v : tensor<64x64xf32>
    %0 = aten.call "aten.mm.default"(self = %x, mat2 = %w) {fcdp.on_host = array<i64: 0>} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %1 = aten.call "aten.mul.Tensor"(self = %0, other = %0) {fcdp.on_host = array<i64: 0>} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %2 = aten.call "aten.mm.default"(self = %1, mat2 = %v) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %3 = aten.call "aten.sum.default"(self = %2) : (tensor<64x64xf32>) -> tensor<f32>
    fcdp.loss %3 : tensor<f32>
    %4 = aten.call "aten.ones_like.default"(self = %2) : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %5 = aten.call "aten.mm.default"(self = %4, mat2 = %v) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %6 = aten.call "aten.mm.default"(self = %1, mat2 = %4) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    fcdp.gradient %6 of @v : tensor<64x64xf32>
    %7 = aten.call "aten.mul.Tensor"(self = %5, other = %0) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %8 = aten.call "aten.mm.default"(self = %x, mat2 = %7) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    fcdp.gradient %8 of @w : tensor<64x64xf32>
    return
  }
}
