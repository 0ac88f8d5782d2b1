// Updates of states in host memory on the node's processors: the decision, the pieces, the plan and its proof.
// RUN: fcdp-opt %s --fcdp-shard="nodes=2 ranks-per-node=2" --fcdp-bucket --fcdp-decide=strategy=zero3 -o %t.mlir
// RUN: fcdp-opt %t.mlir --fcdp-decide-states="states=host,piece=2048 update=host" --fcdp-stream-states --fcdp-two-level --fcdp-verify-sharded -o %t.host
// RUN: FileCheck %s --input-file=%t.host

// CHECK: fcdp.bucket @bucket.a {{.*}} states host piece 256 update host members
// CHECK: fcdp.bucket @bucket.frozen
// CHECK-NOT: update host
// CHECK-SAME: members
// Three pieces are in flight. The fourth is stored when the first is loaded.
// CHECK-LABEL: func.func @update
// CHECK-NEXT: %[[G0:.*]] = fcdp.store_gradient @bucket.a piece 0 to 256 shard : <tensor<256xf32>>
// CHECK-NEXT: %[[G1:.*]] = fcdp.store_gradient @bucket.a piece 256 to 512 shard
// CHECK-NEXT: %[[G2:.*]] = fcdp.store_gradient @bucket.a piece 512 to 768 shard
// CHECK-NEXT: %[[S0:.*]] = fcdp.host_update %[[G0]] : <tensor<256xf32>> of @bucket.a piece 0 to 256 scale 2.500000e-01 with #fcdp.adamw
// CHECK-NEXT: fcdp.load_shard %[[S0]] to @bucket.a at 0 : <tensor<256xf32>>
// CHECK-NEXT: %[[G3:.*]] = fcdp.store_gradient @bucket.b piece 0 to 256 shard
// CHECK-NEXT: fcdp.host_update %[[G1]]
// CHECK-NOT: {{fcdp.shard_update|fcdp.state_}}

// Twice is once, and a given place stays.
// RUN: fcdp-opt %t.host --fcdp-decide-states="states=host update=host" --fcdp-stream-states --fcdp-two-level --fcdp-verify-sharded | diff %t.host -
// RUN: sed '/fcdp.bucket @bucket.a /s/ members/ states host piece 256 members/' %t.mlir | fcdp-opt --fcdp-decide-states="states=host update=host" --fcdp-stream-states | FileCheck %s --check-prefix=GIVEN
// GIVEN: fcdp.shard_update @bucket.a piece 0 to 256
// GIVEN: fcdp.host_update %{{.*}} of @bucket.b piece

// DontUpdateOnHost what is faster on the device; `auto` compares predicted times.
// RUN: fcdp-opt %t.mlir --fcdp-decide-states="states=host,piece=2048 update=auto cluster=%S/Inputs/slow-processors.yaml" --fcdp-stream-states | FileCheck %s --check-prefix=STREAM
// STREAM-NOT: update host
// STREAM: fcdp.shard_update @bucket.a piece 0 to 256
// RUN: sed 's/update_rate: .*/update_rate: 1e12/' %S/Inputs/slow-processors.yaml > %t.yaml
// RUN: fcdp-opt %t.mlir --fcdp-decide-states="states=host,piece=2048 update=auto cluster=%t.yaml" --remarks-filter="fcdp-.*" --remark-format=emitRemark -o %t.faster 2>&1 | FileCheck %s --check-prefix=REMARK
// REMARK: remark: [Passed] update | Category:fcdp-decide-states | Remark="bucket bucket.a: states are updated on the host"
// RUN: FileCheck %s --check-prefix=FASTER --input-file=%t.faster
// FASTER: fcdp.bucket @bucket.a {{.*}} states host piece 256 update host

// Refused by name.
// RUN: not fcdp-opt %s --fcdp-pipeline="states=host update=gpu" 2>&1 | FileCheck %s --check-prefix=WORD
// WORD: update: expected 'device', 'host' or 'auto', got 'gpu'
// RUN: not fcdp-opt %t.mlir --fcdp-decide-states="update=host" 2>&1 | FileCheck %s --check-prefix=DEVICE
// DEVICE: error: update: expected states in host memory for 'host'; give --states=host or --states=auto
// RUN: not fcdp-opt %t.mlir --fcdp-decide-states="states=host update=auto" 2>&1 | FileCheck %s --check-prefix=CLUSTER
// CLUSTER: error: update: 'auto' compares predicted times; give --cluster
// RUN: not fcdp-opt %s --fcdp-pipeline="nodes=2 ranks-per-node=2 optimizer=adafactor states=host update=host" 2>&1 | FileCheck %s --check-prefix=PARAMETER
// PARAMETER: error: update: expected an optimizer that updates elements for 'host', got 'adafactor', which updates whole parameters; use 'device' or 'auto'
// RUN: not fcdp-opt %s --fcdp-pipeline="nodes=2 ranks-per-node=2 states=file update=host" 2>&1 | FileCheck %s --check-prefix=FILE
// FILE: error: update: expected 'device' for states in files, got 'host'
// RUN: %edit %t.host --delete "fcdp.load_shard %{{.*}} at 256" | not fcdp-opt --fcdp-verify-sharded 2>&1 | FileCheck %s --check-prefix=LOST
// LOST: error: 'fcdp.host_update' op expected one load of the piece that it updates, got 0

// The whole way. The device has shards and accumulators and, unlike an update that streams states, no pieces of states:
// the plan is smaller by all states, 8 bytes for each of 1,024 elements of a rank.
// RUN: not fcdp-opt %s --fcdp-pipeline="nodes=2 ranks-per-node=2 strategy=zero3 prefetch=0 clip-norm=1 states=host,piece=2048 update=host device-memory=57599" 2>&1 | FileCheck %s --check-prefix=LESS
// LESS: error: the plan needs 57600 bytes of device memory
// RUN: fcdp-opt %s --fcdp-pipeline="nodes=2 ranks-per-node=2 strategy=zero3 clip-norm=1 states=host,piece=2048 update=host prefetch=0" -o %t.planned
// RUN: FileCheck %s --check-prefix=PLANNED --input-file=%t.planned
// Each rank's part has 8,192 bytes of states and three windows of 1,024 bytes of gradients and 1,024 of shards.
// PLANNED-LABEL: func.func @update
// PLANNED: fcdp.clip_gradients
// PLANNED: fcdp.store_gradient @bucket.a piece 0 to 256 shard on d2h {place = #fcdp.buffer<arena = host, offset = 8192, bytes = 2048, local_stride = 14336>}
// PLANNED: fcdp.store_gradient @bucket.a piece 256 to 512 shard on d2h {place = #fcdp.buffer<arena = host, offset = 10240,
// PLANNED: fcdp.store_gradient @bucket.a piece 512 to 768 shard on d2h {place = #fcdp.buffer<arena = host, offset = 12288,
// PLANNED: fcdp.host_update {{.*}} piece 0 to 256 on host scale
// PLANNED: %[[UPDATED:.*]] = fcdp.record on host
// PLANNED: fcdp.wait %[[UPDATED]] on h2d
// PLANNED: fcdp.load_shard {{.*}} at 0 on h2d
// PLANNED: %[[LOADED:.*]] = fcdp.record on h2d
// PLANNED: fcdp.wait %[[LOADED]] on d2h
// PLANNED: fcdp.store_gradient @bucket.b piece 0 to 256 shard on d2h {place = #fcdp.buffer<arena = host, offset = 8192,

// The proof: each of these changes is refused.
// The gradient is clipped before it is stored, and stored before it is read.
// RUN: %edit %t.planned --in update --first --line "on d2h" --delete "fcdp.wait" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=EARLY
// EARLY: error: 'fcdp.store_gradient' op for 'a' of @bucket.a in @update: reads bytes [3072, 6144) of the device arena on d2h, not ordered with another access to them; expected 'd2h' to wait for 'compute'
// RUN: %edit %t.planned --in update --first --line "on host" --delete "fcdp.wait" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=GRADIENT
// GRADIENT: error: 'fcdp.host_update' op for 'a' of @bucket.a in @update: reads bytes [8192, 10240) of the host arena on host, not ordered with another access to them; expected 'host' to wait for 'd2h'
// The shard is loaded when it is updated.
// RUN: %edit %t.planned --in update --first --line "on h2d" --delete "fcdp.wait" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=SHARD
// SHARD: error: 'fcdp.load_shard' op for 'a' of @bucket.a in @update: reads bytes [8192, 10240) of the host arena on h2d, not ordered with another access to them; expected 'h2d' to wait for 'host'
// A window is used again when its shard is loaded.
// RUN: %edit %t.planned --in update --first --line "fcdp.store_gradient @bucket.b" --replace "offset = 8192" "offset = 10240" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=WINDOW
// WINDOW: error: 'fcdp.host_update' op for 'a' of @bucket.a in @update: reads bytes [10240, 12288) of the host arena on host, not ordered with another access to them; expected 'host' to wait for 'd2h'
// The last shard is loaded before the next step gathers it.
// RUN: %edit %t.planned --in update --line "on compute" --delete "fcdp.wait" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=STEP
// STEP: error: 'fcdp.all_gather' op for 'a' of @bucket.a in @only_microbatch: {{.*}}; expected 'inter' to wait for 'h2d'

module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @a : tensor<3072xf32> unit "a" trainable names ["a"]
  fcdp.parameter @frozen : tensor<64xf32> unit "frozen" names ["frozen"]
  fcdp.parameter @b : tensor<1024xf32> unit "b" trainable names ["b"]
  func.func @step() {
    %a = fcdp.read_parameter @a : tensor<3072xf32>
    %f = fcdp.read_parameter @frozen : tensor<64xf32>
    %b = fcdp.read_parameter @b : tensor<1024xf32>
    %0 = aten.call "aten.sum.default"(self = %a) : (tensor<3072xf32>) -> tensor<f32>
    %1 = aten.call "aten.mul.Tensor"(self = %b, other = %0) : (tensor<1024xf32>, tensor<f32>) -> tensor<1024xf32>
    %2 = aten.call "aten.sum.default"(self = %1) : (tensor<1024xf32>) -> tensor<f32>
    %3 = aten.call "aten.sum.default"(self = %f) : (tensor<64xf32>) -> tensor<f32>
    %4 = aten.call "aten.mul.Tensor"(self = %2, other = %3) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    fcdp.loss %4 : tensor<f32>
    %5 = aten.call "aten.mul.Tensor"(self = %b, other = %4) : (tensor<1024xf32>, tensor<f32>) -> tensor<1024xf32>
    fcdp.gradient %5 of @b : tensor<1024xf32>
    %6 = aten.call "aten.mul.Tensor"(self = %a, other = %4) : (tensor<3072xf32>, tensor<f32>) -> tensor<3072xf32>
    fcdp.gradient %6 of @a : tensor<3072xf32>
    return
  }
}
