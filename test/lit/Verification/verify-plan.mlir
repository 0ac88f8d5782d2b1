// A plan that is broken by hand in one place is refused, with a message that
// names the parameter and both operations.
// RUN: split-file %s %t
// RUN: fcdp-opt %t/step.mlir --fcdp-pipeline="nodes=2 ranks-per-node=2 strategy=fcdp optimizer=sgd" -o %t/one.mlir
// RUN: fcdp-opt %t/step.mlir --fcdp-pipeline="nodes=2 ranks-per-node=2 micro-batches=2 strategy=fcdp optimizer=sgd" -o %t/two.mlir
// RUN: fcdp-opt %t/one.mlir --fcdp-verify-plan | diff %t/one.mlir -

// A bucket of several units has as many live ranges as the uses of others make of it: two here.
// RUN: fcdp-opt %t/merged.mlir --fcdp-pipeline="nodes=2 ranks-per-node=2 strategy=zero3 optimizer=sgd bucket-bytes=4096" -o %t/merged.planned
// RUN: FileCheck %s --check-prefix=MERGED --input-file=%t/merged.planned
// MERGED: fcdp.all_gather %{{.*}} of @bucket.a..b over @world[node] range 1

//===--- Order
// The gather's wait for the gather that feeds it.
// RUN: %edit %t/one.mlir --in only_microbatch --replace "fcdp.wait %3 on intra" "" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=RACE
// RACE: error: 'fcdp.all_gather' op for 'w' of @bucket.a in @only_microbatch: reads bytes [{{[0-9]+}}, {{[0-9]+}}) of the device arena on intra, not ordered with another access to them; expected 'intra' to wait for 'inter'
// RACE: note: the other access, on inter in @only_microbatch for 'w' of @bucket.a
// The wait that orders a load after the store of another function.
// RUN: %edit %t/one.mlir --in only_microbatch --replace "fcdp.wait %7 on h2d" "" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=BOUNDARY
// BOUNDARY: error: 'fcdp.cache_load' op for 'v' of @bucket.b.frozen in @only_microbatch: reads bytes [256, 384) of the host arena on h2d, not ordered with another access to them; expected 'h2d' to wait for 'd2h'
// BOUNDARY: note: the other access, on d2h in @init for 'v' of @bucket.b.frozen
// The same over the end of a step.
// RUN: fcdp-opt %t/step.mlir --fcdp-pipeline="nodes=2 ranks-per-node=2 strategy=zero3 optimizer=sgd" -o %t/zero3.mlir
// RUN: %edit %t/zero3.mlir --in only_microbatch --replace "fcdp.wait %1 on inter" "" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=WRAP
// WRAP: error: 'fcdp.all_gather' op for 'w' of @bucket.a in @only_microbatch: reads bytes [0, 64) of the device arena on inter, not ordered with another access to them; expected 'inter' to wait for 'compute'
// WRAP: note: the other access, on compute in @update for 'w' of @bucket.a
// A gather to bytes that were free for results of operators.
// RUN: %edit %t/zero3.mlir --in only_microbatch --line "range 1 " --replace "offset = 768" "offset = 2048" > %t/free.mlir
// RUN: fcdp-opt %t/free.mlir --fcdp-verify-plan -o /dev/null
// RUN: %edit %t/free.mlir --in only_microbatch --replace "fcdp.wait %15 on inter" "" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=FREE
// FREE: error: 'fcdp.all_gather' op for 'w' of @bucket.a in @only_microbatch: writes bytes [2048, 2304) of the device arena on inter, not ordered with another access to them; expected 'inter' to wait for 'compute'
// FREE: note: results of operators may use these bytes here, on compute in @only_microbatch
// RUN: %edit %t/one.mlir --replace "func @init()" "func @init(%%e: !fcdp.token)" --insert-after "func @init" "fcdp.wait %%e on compute" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=NOTHING
// NOTHING: error: 'fcdp.wait' op in @init: waits for an event that nothing has recorded in this run

//===--- Memory
// A cast, in order, where a gathered copy is read later.
// RUN: %edit %t/one.mlir --insert-file-after "wait %%18 on compute" %t/cast.txt | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=OVERWRITTEN
// OVERWRITTEN: error: 'aten.call' op for 'w' of @bucket.a in @only_microbatch: reads a value whose memory, bytes [768, 1024) of the device arena, has been overwritten
// OVERWRITTEN: note: the value is written here, on intra in @only_microbatch for 'w' of @bucket.a
// OVERWRITTEN: note: and overwritten here, on compute in @only_microbatch
// RUN: %edit %t/one.mlir --line "fcdp.pack" --replace "offset = {{[0-9]*}}" "offset = 0" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=INSTATE
// INSTATE: error: 'fcdp.shard_update' op for 'w' of @bucket.a in @update: reads @bucket.a.{{.*}}, which has no valid content: in this run nothing has filled it, or something has overwritten it
// INSTATE: note: last written here, on {{.*}} in @only_microbatch for 'w' of @bucket.a
// INSTATE: note: the state
// State that a checkpoint saves, although no later function reads it.
// RUN: %edit %t/one.mlir --line "fcdp.pack" --replace "offset = {{[0-9]*}}" "offset = 512" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=SAVED
// SAVED: error: 'fcdp.state' op of 'v' of @bucket.b.frozen is overwritten in a step
// SAVED: note: overwritten here, on compute in @only_microbatch for 'w' of @bucket.a
// RUN: %edit %t/one.mlir --line "fcdp.reduce_scatter{{.*}}local" --replace "scratch = #fcdp.buffer<arena = device, offset = {{[0-9]*}}" "scratch = #fcdp.buffer<arena = device, offset = 1024" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=SCRATCH
// SCRATCH: error: 'fcdp.reduce_scatter' op for 'w' of @bucket.a in @only_microbatch: its input, scratch and result overlap
// A gather's input may be inside the result only at its own place.
// RUN: %edit %t/one.mlir --line "fcdp.all_gather{{.*}}node" --replace "local_stride = 128" "local_stride = 64" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=STRIDE
// STRIDE: error: 'fcdp.all_gather' op for 'w' of @bucket.a in @only_microbatch: its input overlaps its result, but is not at its own place inside it
// RUN: %edit %t/one.mlir --line "fcdp.state{{.*}}grad" --replace "offset = 256" "offset = 0" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=STATES
// STATES: error: 'fcdp.state' op of 'w' of @bucket.a: its buffer at 0 overlaps another state
// STATES: note: this one, of 'w' of @bucket.a, ends at 64
// RUN: %edit %t/one.mlir --line "fcdp.state @bucket.a.cache" --replace "local_stride = 512" "local_stride = 256" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=PARTS
// PARTS: error: 'fcdp.state' op of 'w' of @bucket.a: the parts of a node's ranks overlap: expected a local_stride of at least 384 bytes, got 256
// RUN: %edit %t/one.mlir --line "fcdp.state @bucket.b.frozen.cache" --replace "local_stride = 512" "local_stride = 1024" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=UNEQUAL
// UNEQUAL: error: 'fcdp.state' op of 'v' of @bucket.b.frozen: expected the same local_stride as other states on the host, 512, got 1024

//===--- Releases
// RUN: %edit %t/one.mlir --in only_microbatch --delete "fcdp.release %%5" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=RELEASE
// RELEASE: error: 'fcdp.all_gather' op in @only_microbatch: expected one release of its result, got none
// RUN: %edit %t/one.mlir --in only_microbatch --delete "fcdp.wait %%4 on compute" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=EARLY
// EARLY: error: 'fcdp.release' op for 'w' of @bucket.a in @only_microbatch: releases a value before compute has waited for all accesses to it
// EARLY: note: the other access, on d2h in @only_microbatch for 'w' of @bucket.a
// RUN: %edit %t/one.mlir --in only_microbatch --delete "fcdp.release %%5" --insert-after "%%12 = fcdp.view_member" "fcdp.release %%5 : tensor<64xf32>" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=AFTER
// AFTER: error: 'aten.call' op for 'w' of @bucket.a in @only_microbatch: reads a value after its release
// AFTER: note: released here, on compute in @only_microbatch for 'w' of @bucket.a

//===--- Parameters
// RUN: %edit %t/one.mlir --delete "cache_store %%2 to @bucket.a.cache" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=LOAD
// LOAD: error: 'fcdp.cache_load' op for 'w' of @bucket.a in @only_microbatch: reads @bucket.a.cache, which has no valid content
// LOAD: note: the state
// Stored once per job: the first step is right, the second loads a dirty copy.
// RUN: %edit %t/one.mlir --delete "cache_store %%2 to @bucket.a.cache" --insert-file-after "func @init" %t/fill.txt | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=DIRTY
// DIRTY: error: 'fcdp.cache_load' op for 'w' of @bucket.a in @only_microbatch: reads a dirty copy of 'w' of @bucket.a, from before its update
// DIRTY: note: the copy was made here, on d2h in @init for 'w' of @bucket.a
// DIRTY: note: updated here, on compute in @update for 'w' of @bucket.a
// RUN: %edit %t/one.mlir --replace "fcdp.all_gather %%8 of @bucket.b.frozen" "fcdp.all_gather %%8 of @bucket.a" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=OTHER
// OTHER: error: 'fcdp.all_gather' op for 'w' of @bucket.a in @only_microbatch: expected a part of 'w' of @bucket.a as its input, got something else
// OTHER: note: it is written here, on h2d in @only_microbatch for 'v' of @bucket.b.frozen
// RUN: %edit %t/one.mlir --line "%%5 = fcdp.all_gather" --replace "@world[local" "@world[node" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=GATHER
// GATHER: error: 'fcdp.all_gather' op for 'w' of @bucket.a in @only_microbatch: expected to gather between nodes first, then within them, once each
// GATHER: note: its input is written here
// RUN: %edit %t/one.mlir --insert-after "fcdp.parameter @v" 'fcdp.parameter @z : tensor<4xf32> unit "z" trainable names ["z"]' | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=NOBUCKET
// NOBUCKET: error: 'fcdp.parameter' op expected to be in a bucket
// RUN: %edit %t/one.mlir --insert-file-after "fcdp.mesh" %t/again.txt | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=AGAIN
// AGAIN: error: 'fcdp.bucket' op its member @v is in another bucket, too
// AGAIN: note: this one

//===--- Gradients
// RUN: %edit %t/one.mlir --in only_microbatch --line "pack @bucket.a" --replace "(tensor<64xf32>) ->" "() ->" --replace "pack @bucket.a(%%22 as @w)" "pack @bucket.a()" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=PACK
// PACK: error: 'fcdp.pack' op for 'w' of @bucket.a in @only_microbatch: expected a gradient of @w
// RUN: %edit %t/one.mlir --line "fcdp.reduce_scatter" --replace "@world[node" "@world[local" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=REDUCE
// REDUCE: error: 'fcdp.reduce_scatter' op for 'w' of @bucket.a in @only_microbatch: expected to reduce within nodes first, then between them, once each
// RUN: %edit %t/one.mlir --line "fcdp.reduce_scatter{{.*}}local" --replace "of @bucket.a" "of @bucket.b.frozen" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=SUM
// SUM: error: 'fcdp.reduce_scatter' op for 'v' of @bucket.b.frozen in @only_microbatch: expected gradients of 'v' of @bucket.b.frozen as its input, got something else
// SUM: note: it is written here, on compute in @only_microbatch for 'w' of @bucket.a
// RUN: %edit %t/two.mlir --in last_microbatch --delete "fcdp.accumulate" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=LAST
// LAST: error: 'fcdp.shard_update' op for 'w' of @bucket.a in @update: gradients of 'w' of @bucket.a lack those of the last micro-batch
// LAST: note: the sum is written here, on {{.*}} in @{{first|next}}_microbatch for 'w' of @bucket.a
// RUN: %edit %t/two.mlir --in last_microbatch --replace " add late" " overwrite late" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=LOST
// LOST: error: 'fcdp.shard_update' op for 'w' of @bucket.a in @update: gradients of 'w' of @bucket.a lack those of all micro-batches but the last
// LOST: note: the sum is written here, on inter_reduce in @last_microbatch for 'w' of @bucket.a
// RUN: %edit %t/two.mlir --in last_microbatch --repeat "fcdp.accumulate" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=TWICE
// TWICE: error: 'fcdp.accumulate' op for 'w' of @bucket.a in @last_microbatch: adds to @bucket.a.grad twice in one micro-batch
// TWICE: note: the sum is written here
// RUN: %edit %t/two.mlir --in first_microbatch --replace " overwrite late" " add late" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=ONTO
// ONTO: error: 'fcdp.accumulate' op for 'w' of @bucket.a in @first_microbatch: its value overlaps the sum
// RUN: %edit %t/two.mlir --in next_microbatch --delete "fcdp.accumulate" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=GAP
// GAP: error: 'fcdp.accumulate' op for 'w' of @bucket.a in @last_microbatch: adds to @bucket.a.grad, which lacks earlier micro-batches
// RUN: fcdp-opt %t/step.mlir --fcdp-pipeline="nodes=2 ranks-per-node=2 micro-batches=3 strategy=fcdp accumulate=node_host optimizer=sgd" -o %t/host.mlir
// RUN: %edit %t/host.mlir --in first_microbatch --delete "cache_store {{.*}} to @bucket.a.host_grad" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=UNSTORED
// UNSTORED: error: 'fcdp.cache_load' op for 'w' of @bucket.a in @{{next|last}}_microbatch: reads @bucket.a.host_grad, which has no valid content
// RUN: %edit %t/host.mlir --in next_microbatch --delete "cache_store {{.*}} to @bucket.a.host_grad" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=SKIPPED
// SKIPPED: error: 'fcdp.add' op for 'w' of @bucket.a in @{{next|last}}_microbatch: adds to a sum from host memory, which lacks earlier micro-batches
// RUN: %edit %t/host.mlir --replace "fcdp.add {{(%%[0-9]*), (%%[0-9]*)}}" "fcdp.add \2, \1" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=ORDER
// ORDER: error: 'fcdp.add' op for 'w' of @bucket.a in @{{next|last}}_microbatch: adds to a sum from host memory twice in one micro-batch
// RUN: %edit %t/host.mlir --replace "fcdp.add {{(%%[0-9]*), %%[0-9]*}}" "fcdp.add \1, \1" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=SAME
// SAME: error: 'fcdp.add' op for 'w' of @bucket.a in @{{next|last}}_microbatch: expected the values of two buffers or states
// RUN: %edit %t/host.mlir --line "fcdp.add" --replace "offset = {{[0-9]*}}" "offset = 1792" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=INPLACE
// INPLACE: error: 'fcdp.add' op for 'w' of @bucket.a in @{{next|last}}_microbatch: its operands overlap its result
// RUN: %edit %t/one.mlir --repeat "shard_update" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=DOUBLE
// DOUBLE: error: 'fcdp.shard_update' op for 'w' of @bucket.a in @update: expected gradients of 'w' of @bucket.a as its input, got some that an update has used
// DOUBLE: note: used here, on compute in @update for 'w' of @bucket.a
// RUN: %edit %t/one.mlir --delete "shard_update" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=UPDATE
// UPDATE: error: 'fcdp.bucket' op expected one update of 'w' of @bucket.a in @update, got none

//===--- Bytes
// RUN: not fcdp-opt %t/one.mlir --fcdp-verify-plan=device-memory=1024 2>&1 | FileCheck %s --check-prefix=DEVICE
// DEVICE: error: the plan needs {{[0-9]+}} bytes of device memory per rank, expected at most 1024; raise the limit or choose other residencies
// DEVICE: note: states use 192 bytes; the largest is this one, of 'w' of @bucket.a, with 64 bytes
// DEVICE: note: at the peak, in @only_microbatch, 'fcdp.cache_load' uses 256 bytes
// DEVICE: note: at the peak, in @only_microbatch, 'fcdp.all_gather' uses 256 bytes
// RUN: not fcdp-opt %t/one.mlir --fcdp-verify-plan=host-memory=800 2>&1 | FileCheck %s --check-prefix=HOST
// HOST: error: the plan needs {{[0-9]+}} bytes of host memory per node, expected at most 800; raise the limit or choose other residencies
// HOST: note: states use
// RUN: not fcdp-opt %t/one.mlir --fcdp-verify-plan=host-memory=-1 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// NEGATIVE: error: host-memory: expected a positive number, got '-1'
// RUN: %edit %t/one.mlir --line "fcdp.bucket @bucket.a " --replace "residency host" "residency drop" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=FORMS
// FORMS: error: 'fcdp.bucket' op expected 'w' of @bucket.a with residency 'drop' and 2 live ranges to mean that a rank sends between nodes 192 bytes in @only_microbatch, got 128
// FORMS: note: for one, here
// RUN: %edit %t/two.mlir --line "fcdp.bucket @bucket.a " --replace "residency host" "residency host accumulation full" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=SUMS
// SUMS: error: 'fcdp.bucket' op expected 'w' of @bucket.a with residency 'host', accumulation 'full' and 2 live ranges to mean that a rank sends between nodes 64 bytes in @first_microbatch, got 128

// In one step over all ranks each part goes to the two ranks of the other node
// and to one of this node.
// RUN: fcdp-opt %t/step.mlir --fcdp-pipeline="nodes=2 ranks-per-node=2 strategy=zero3 collectives=flat optimizer=sgd" -o %t/flat.mlir
// RUN: %edit %t/flat.mlir --line "fcdp.bucket @bucket.a " --replace "residency drop" "residency full" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=FLAT
// FLAT: error: 'fcdp.bucket' op expected 'w' of @bucket.a with residency 'full', collectives 'flat' and 2 live ranges to mean that a rank sends between nodes 256 bytes in @only_microbatch, got 384

// RUN: not fcdp-opt %t/step.mlir --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=PHASE
// PHASE: error: expected a module in phase 'planned'

// RUN: %edit %t/one.mlir --line "fcdp.pack" --replace "{buffer = {{[^}]*}}}" "" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=BUFFER
// BUFFER: error: 'fcdp.pack' op expected a buffer; run --fcdp-verify-planned
// RUN: %edit %t/one.mlir --line "fcdp.state @bucket.a.cache" --replace " at <{{.*}}" "" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=STATE
// STATE: error: 'fcdp.state' op expected a bucket and a buffer; run --fcdp-verify-planned

//===--- Dont refuse harmless changes: waits twice, a release later, records
// without a wait, memory that is just enough.
// RUN: %edit %t/one.mlir --repeat "fcdp.wait" | fcdp-opt --fcdp-verify-plan -o /dev/null
// RUN: %edit %t/one.mlir --in only_microbatch --delete "fcdp.release %%5" --insert-after "fcdp.release %%8 " "fcdp.release %%5 : tensor<64xf32>" | fcdp-opt --fcdp-verify-plan -o /dev/null
// RUN: %edit %t/one.mlir --insert-before "fcdp.loss" "%%n = fcdp.record on h2d event 99" | fcdp-opt --fcdp-verify-plan -o /dev/null
// RUN: fcdp-opt %t/one.mlir --fcdp-verify-plan="device-memory=2432 host-memory=896" -o /dev/null
// An operator that the compiler does not know may show the copy that it reads.
// Operators that read its result must find the copy, too.
// RUN: %edit %t/one.mlir --in only_microbatch --replace "aten.neg.default" "custom.alias.default" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=ALIAS
// ALIAS: error: 'aten.call' op for 'w' of @bucket.a in @only_microbatch: reads a value after its release
// ALIAS: note: released here
// RUN: %edit %t/step.mlir --replace "aten.neg.default" "custom.alias.default" | fcdp-opt --fcdp-pipeline="nodes=2 ranks-per-node=2 strategy=fcdp optimizer=sgd" -o /dev/null

//--- cast.txt
    %s = fcdp.read_shard @bucket.a : tensor<16xf32>
    %c = fcdp.cast_shard %s {buffer = #fcdp.buffer<arena = device, offset = 768, bytes = 32>} : tensor<16xf32> to tensor<16xbf16>
    fcdp.release %c : tensor<16xbf16>
//--- fill.txt
    %a = fcdp.read_shard @bucket.a : tensor<16xf32>
    %b = fcdp.all_gather %a of @bucket.a over @world[node] range 0 on inter {buffer = #fcdp.buffer<arena = device, offset = 1024, bytes = 128>} : tensor<16xf32> to tensor<32xf32>
    %c = fcdp.record on inter event 7
    fcdp.wait %c on d2h
    fcdp.cache_store %b to @bucket.a.cache on d2h : tensor<32xf32>
    %d = fcdp.record on d2h event 8
    fcdp.wait %d on compute
    fcdp.release %b : tensor<32xf32>
//--- again.txt
    fcdp.bucket @again unit "b" elements 64 storage f32 wire f32 residency host members [@v at 0]
    fcdp.state @again.shard shard of @again in device : tensor<16xf32> at <arena = device, offset = 8192, bytes = 64>
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

//--- merged.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @a : tensor<64xf32> unit "a" trainable names ["a"]
  fcdp.parameter @c : tensor<64xbf16> unit "c" names ["c"]
  fcdp.parameter @b : tensor<64xf32> unit "b" trainable names ["b"]
  fcdp.input @x : tensor<64xf32> name "x"
  func.func @step() {
    %a = fcdp.read_parameter @a : tensor<64xf32>
    %b = fcdp.read_parameter @b : tensor<64xf32>
    %c = fcdp.read_parameter @c : tensor<64xbf16>
    %x = fcdp.read_input @x : tensor<64xf32>
    %0 = aten.call "aten.mul.Tensor"(self = %x, other = %a) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    %1 = aten.call "aten.mul.Tensor"(self = %0, other = %b) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    %2 = aten.call "aten._to_copy.default"(self = %c, dtype = f32) : (tensor<64xbf16>) -> tensor<64xf32>
    %3 = aten.call "aten.mul.Tensor"(self = %1, other = %2) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    %l = aten.call "aten.sum.default"(self = %3) : (tensor<64xf32>) -> tensor<f32>
    %4 = aten.call "aten.mul.Tensor"(self = %0, other = %b) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    %5 = aten.call "aten.mul.Tensor"(self = %x, other = %a) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    fcdp.loss %l : tensor<f32>
    fcdp.gradient %4 of @b : tensor<64xf32>
    fcdp.gradient %5 of @a : tensor<64xf32>
    return
  }
}
