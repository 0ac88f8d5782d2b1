// States in host memory and in files: the decision, the pieces, the plan and its proof.
// RUN: fcdp-opt %s --fcdp-shard="nodes=2 ranks-per-node=2" --fcdp-bucket --fcdp-decide=strategy=zero3 -o %t.mlir
// RUN: fcdp-opt %t.mlir --fcdp-decide-states="states=host,piece=2048" --fcdp-stream-states --fcdp-two-level --fcdp-verify-sharded -o %t.host
// RUN: FileCheck %s --input-file=%t.host

// 256 elements of two moments have 2,048 bytes.
// CHECK: fcdp.bucket @bucket.a {{.*}} states host piece 256 members
// CHECK: fcdp.state @bucket.a.shard shard of @bucket.a in device : tensor<768xf32>
// CHECK: fcdp.state @bucket.a.exp_avg exp_avg of @bucket.a in host : tensor<768xf32>
// CHECK: fcdp.bucket @bucket.frozen
// CHECK-NOT: states host
// CHECK-SAME: members
// The next piece, also of another bucket, is loaded before one is updated.
// CHECK-LABEL: func.func @update
// CHECK-NEXT: %[[M0:.*]] = fcdp.state_load @bucket.a.exp_avg at 0 : tensor<256xf32>
// CHECK-NEXT: %[[V0:.*]] = fcdp.state_load @bucket.a.exp_avg_sq at 0
// CHECK-NEXT: %[[M1:.*]] = fcdp.state_load @bucket.a.exp_avg at 256
// CHECK-NEXT: fcdp.state_load @bucket.a.exp_avg_sq at 256
// CHECK-NEXT: fcdp.shard_update @bucket.a piece 0 to 256 states(%[[M0]], %[[V0]] : tensor<256xf32>, tensor<256xf32>) scale
// CHECK-NEXT: fcdp.state_store %[[M0]] to @bucket.a.exp_avg at 0
// CHECK-NEXT: fcdp.state_store %[[V0]] to @bucket.a.exp_avg_sq at 0
// CHECK-NEXT: fcdp.state_load @bucket.a.exp_avg at 512
// CHECK: fcdp.shard_update @bucket.a piece 256 to 512 states(%[[M1]],
// CHECK: fcdp.state_load @bucket.b.exp_avg at 0
// CHECK: fcdp.shard_update @bucket.a piece 512 to 768
// CHECK: fcdp.shard_update @bucket.b piece 0 to 256
// CHECK-NOT: fcdp.shard_update @bucket.{{[ab]}} scale

// Twice is once, and a given place stays.
// RUN: fcdp-opt %t.host --fcdp-decide-states="states=host" --fcdp-stream-states --fcdp-two-level --fcdp-verify-sharded | diff %t.host -
// RUN: sed '/fcdp.bucket @bucket.a /s/ members/ states device members/' %t.mlir | fcdp-opt --fcdp-decide-states="states=host" --fcdp-stream-states | FileCheck %s --check-prefix=GIVEN
// GIVEN: fcdp.state @bucket.a.exp_avg exp_avg of @bucket.a in device
// GIVEN: fcdp.state @bucket.b.exp_avg exp_avg of @bucket.b in host
// GIVEN: fcdp.shard_update @bucket.a scale

// DontMove what an option leaves on the device, and states that are not there.
// RUN: fcdp-opt %t.mlir --fcdp-decide-states --fcdp-stream-states | diff %t.mlir -
// RUN: fcdp-opt %s --fcdp-pipeline="nodes=2 ranks-per-node=2 optimizer=sgd states=host" | FileCheck %s --check-prefix=NONE
// NONE-NOT: states host
// NONE: fcdp.shard_update @bucket.a scale

// Refused by name.
// RUN: not fcdp-opt %s --fcdp-pipeline="nodes=2 ranks-per-node=2 strategy=hsdp outer=8 states=file" 2>&1 | FileCheck %s --check-prefix=APART
// APART: error: outer: expected states on the device, got states 'file'
// A GPU's copies to files pass through the end of a rank's part of host memory, four blocks from byte 12,288 on.
// RUN: fcdp-opt %s --fcdp-pipeline="target=cuda nodes=2 ranks-per-node=2 strategy=fcdp states=file" | sed 's/local_stride = 28672/local_stride = 24576/' > %t.window
// RUN: not fcdp-opt %t.window --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=WINDOW
// WINDOW: error: 'fcdp.state' op of 'a' of @bucket.a: the parts of a node's ranks overlap: expected a local_stride of at least 24832 bytes, got 24576
// RUN: not fcdp-opt %s --fcdp-pipeline="states=disk" 2>&1 | FileCheck %s --check-prefix=WORD
// WORD: states: expected 'device', 'host', 'file' or 'auto', got 'disk'
// RUN: not fcdp-opt %s --fcdp-pipeline="states=host,piece=0" 2>&1 | FileCheck %s --check-prefix=PIECE
// PIECE: states: expected 'piece=BYTES' after 'host', 'file' or 'auto', a positive number, got 'host,piece=0'
// RUN: not fcdp-opt %s --fcdp-pipeline="nodes=2 ranks-per-node=2 strategy=hsdp outer=8 states=host" 2>&1 | FileCheck %s --check-prefix=OUTER
// OUTER: error: outer: expected states on the device, got states 'host'
// RUN: not fcdp-opt %t.mlir --fcdp-decide-states=states=auto 2>&1 | FileCheck %s --check-prefix=LIMIT
// LIMIT: error: states 'auto' moves as many bytes as the device's memory demands; give --device-memory or --cluster
// RUN: sed '/fcdp.bucket @bucket.a /s/ members/ states host piece 256 members/' %t.mlir | fcdp-opt --fcdp-two-level | not fcdp-opt --fcdp-verify-sharded 2>&1 | FileCheck %s --check-prefix=WHOLE
// WHOLE: error: 'fcdp.shard_update' op expected a piece of the shard, as the states of @bucket.a are in host memory; run --fcdp-stream-states
// RUN: %edit %t.host --delete "piece 256 to 512" | not fcdp-opt --fcdp-verify-sharded 2>&1 | FileCheck %s --check-prefix=GAP
// GAP: error: 'fcdp.shard_update' op expected the piece that begins at element 256, got 512
// RUN: %edit %t.host --delete "piece 512 to 768" | not fcdp-opt --fcdp-verify-sharded 2>&1 | FileCheck %s --check-prefix=LAST
// LAST: error: expected one update of @bucket.a, got 0

// `auto` moves the states of one bucket, the one whose bytes are enough, and nothing if the plan fits.
// RUN: fcdp-opt %s --fcdp-pipeline="nodes=2 ranks-per-node=2 strategy=zero3 states=auto,piece=2048 device-memory=100000" --remarks-filter=states 2>&1 | FileCheck %s --check-prefix=FITS
// FITS-NOT: states host
// FITS: return
// RUN: fcdp-opt %s --fcdp-pipeline="nodes=2 ranks-per-node=2 strategy=zero3 states=auto,piece=2048 prefetch=0 clip-norm=1 device-memory=64000" | FileCheck %s --check-prefix=SOME
// SOME: fcdp.bucket @bucket.a {{.*}} trainable residency drop members
// SOME: fcdp.bucket @bucket.b {{.*}} states host piece 256 members
// RUN: not fcdp-opt %s --fcdp-pipeline="nodes=2 ranks-per-node=2 strategy=zero3 states=auto device-memory=20000" 2>&1 | FileCheck %s --check-prefix=NEVER
// NEVER: error: the plan needs {{[0-9]+}} bytes of device memory per rank, expected at most 20000

// The device keeps shards and gradient accumulators. The pieces fit in memory that activations use before: the plan is
// smaller by all states, 8 bytes for each of 1,024 elements of a rank.
// RUN: not fcdp-opt %s --fcdp-pipeline="nodes=2 ranks-per-node=2 strategy=zero3 prefetch=0 device-memory=65791" 2>&1 | FileCheck %s --check-prefix=ALL
// ALL: error: the plan needs 65792 bytes of device memory
// RUN: not fcdp-opt %s --fcdp-pipeline="nodes=2 ranks-per-node=2 strategy=zero3 prefetch=0 clip-norm=1 states=host,piece=2048 device-memory=57599" 2>&1 | FileCheck %s --check-prefix=LESS
// LESS: error: the plan needs 57600 bytes of device memory

// The whole way.
// RUN: fcdp-opt %s --fcdp-pipeline="nodes=2 ranks-per-node=2 strategy=zero3 clip-norm=1 states=host,piece=2048 prefetch=0" -o %t.planned
// RUN: FileCheck %s --check-prefix=PLANNED --input-file=%t.planned
// PLANNED: fcdp.state @bucket.b.grad grad of @bucket.b in device : tensor<256xf32> at <arena = device, offset = [[#SHARD:]], bytes = 1024
// PLANNED-LABEL: func.func @update
// PLANNED: fcdp.state_load @bucket.a.exp_avg at 0 on h2d
// PLANNED: fcdp.clip_gradients
// PLANNED: %[[STORED:.*]] = fcdp.record on d2h

// The proof: each of these changes is refused.
// RUN: %edit %t.planned --in update --first --line "to @bucket.a.exp_avg at 0" --replace "on d2h" "on intra" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=RACE
// RACE: error: 'fcdp.state_store' op for 'a' of @bucket.a in @update: reads bytes [{{[0-9]+}}, {{[0-9]+}}) of the device arena on intra, not ordered with another access to them; expected 'intra' to wait for '{{compute|h2d}}'
// RUN: %edit %t.planned --in update --first --line "@bucket.a.exp_avg at 512" --replace "on h2d" "on intra" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=LOAD
// LOAD: error: 'fcdp.state_load' op for 'a' of @bucket.a in @update: writes bytes [{{[0-9]+}}, {{[0-9]+}}) of the device arena on intra, not ordered with another access to them; expected 'intra' to wait for 'compute'
// The last store is done before the next step.
// RUN: %edit %t.planned --in update --line "on compute" --delete "fcdp.wait" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=STEP
// STEP: error: {{.*}} not ordered with another access to them; expected 'compute' to wait for '{{.*}}'
// RUN: %edit %t.planned --in update --first --delete "fcdp.state_store %{{.*}} to @bucket.a.exp_avg at 0" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=LOST
// LOST: error: 'fcdp.state' op of 'a' of @bucket.a is overwritten in a step
// RUN: %edit %t.planned --in update --first --line "fcdp.state_store %{{.*}} to @bucket.a.exp_avg at 256" --replace "at 256" "at 0" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=PLACE
// PLACE: error: 'fcdp.state_store' op for 'a' of @bucket.a in @update: expected elements 0 to 256 of @bucket.a.exp_avg from this update, got other elements
// RUN: %edit %t.planned --in update --first --line "fcdp.state_load @bucket.a.exp_avg at 256" --replace "at 256" "at 0" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=AGAIN
// AGAIN: error: 'fcdp.state_store' op for 'a' of @bucket.a in @update: writes bytes [0, 1024) of the host arena on d2h, not ordered with another access to them; expected 'd2h' to wait for 'h2d'
// The moments are exchanged.
// RUN: %edit %t.planned --in update --first --line "fcdp.shard_update @bucket.a piece 0 to 256" --replace "states({{(%%[0-9]+)}}, {{(%%[0-9]+)}}" "states(\2, \1" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=ORDER
// ORDER: error: 'fcdp.shard_update' op for 'a' of @bucket.a in @update: expected elements 0 to 256 of @bucket.a.exp_avg from the last update, got something else

// In files, states and pieces are whole blocks of 4,096 bytes. The device has the same pieces.
// RUN: fcdp-opt %s --fcdp-pipeline="nodes=1 ranks-per-node=2 strategy=zero3 clip-norm=1 states=file,piece=8192 prefetch=0" -o %t.files
// RUN: FileCheck %s --check-prefix=FILES --input-file=%t.files
// FILES: fcdp.bucket @bucket.a {{.*}} states file piece 1024 members
// FILES: fcdp.state @bucket.a.exp_avg exp_avg of @bucket.a in file : tensor<1536xf32> at <arena = file, offset = 0, bytes = 6144>
// FILES: fcdp.state @bucket.a.exp_avg_sq exp_avg_sq of @bucket.a in file : tensor<1536xf32> at <arena = file, offset = 8192, bytes = 6144>
// FILES: fcdp.state @bucket.b.exp_avg exp_avg of @bucket.b in file : tensor<512xf32> at <arena = file, offset = 16384, bytes = 2048>
// FILES-LABEL: func.func @update
// FILES: fcdp.state_load @bucket.a.exp_avg at 0 on h2d
// FILES: fcdp.shard_update @bucket.a piece 0 to 1024
// FILES: fcdp.shard_update @bucket.a piece 1024 to 1536
// RUN: not fcdp-opt %s --fcdp-pipeline="nodes=2 ranks-per-node=2 strategy=zero3 prefetch=0 clip-norm=1 states=file,piece=2048 device-memory=57599" 2>&1 | FileCheck %s --check-prefix=LESS
// RUN: sed 's/arena = file, offset = 8192/arena = file, offset = 6208/' %t.files | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=BLOCKS
// BLOCKS: error: 'fcdp.state_load' op for 'a' of @bucket.a in @update: expected a piece of whole blocks of 4096 bytes in a file, got bytes 6208 to 10304

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
