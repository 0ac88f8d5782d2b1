// A plan with outer steps that is broken by hand in one place is refused.
// RUN: split-file %s %t
// RUN: fcdp-opt %t/step.mlir --fcdp-pipeline="nodes=2 ranks-per-node=2 strategy=hsdp optimizer=sgd outer=8" -o %t/one.mlir
// RUN: fcdp-opt %t/one.mlir --fcdp-verify-plan | diff %t/one.mlir -
// RUN: fcdp-opt %t/step.mlir --fcdp-pipeline="nodes=2 ranks-per-node=2 micro-batches=3 strategy=mics accumulate=full optimizer=adamw outer=8,fragments=2,momentum=0 clip-norm=1" | fcdp-opt --fcdp-verify-plan -o /dev/null

//===--- What is synchronized
// RUN: %edit %t/one.mlir --in outer_update --replace "fcdp.outer_update @bucket.a with %4" "fcdp.outer_update @bucket.a with %0" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=OWN
// OWN: error: 'fcdp.outer_update' op for 'w' of @bucket.a in @outer_update: expected the difference of 'w' of @bucket.a since its last update, summed over nodes and gathered
// OWN: note: its input is written here, on compute in @outer_update for 'w' of @bucket.a
// RUN: %edit %t/one.mlir --in outer_update --delete "fcdp.wait %%11 on compute" --replace "fcdp.wait %5 on compute" "fcdp.wait %%5 on compute\nfcdp.wait %%11 on compute" --replace "fcdp.outer_update @bucket.a with %4" "fcdp.outer_update @bucket.a with %10" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=OTHER
// OTHER: error: 'fcdp.outer_update' op for 'w' of @bucket.a in @outer_update: expected the difference of 'w' of @bucket.a since its last update, summed over nodes and gathered
// OTHER: note: its input is written here, on inter in @outer_update for 'u' of @bucket.b
// Sums within the node: each rank of it has other elements.
// RUN: %edit %t/one.mlir --in outer_update --line "fcdp.reduce_scatter %%0" --replace "@world[node]" "@world[local]" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=LOCAL
// LOCAL: error: 'fcdp.all_gather' op for 'w' of @bucket.a in @outer_update: expected the difference of 'w' of @bucket.a since its last update, summed over nodes
// LOCAL: note: its input is written here, on inter_reduce in @outer_update for 'w' of @bucket.a
// RUN: %edit %t/one.mlir --in outer_update --line "fcdp.all_gather %%2" --replace "@world[node]" "@world[local]" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=GATHER
// GATHER: error: 'fcdp.all_gather' op for 'w' of @bucket.a in @outer_update: expected to gather between nodes first, then within them, once each
// A gather of what has not been reduced.
// RUN: %edit %t/one.mlir --in outer_update --line "= fcdp.all_gather %%2" --replace "fcdp.all_gather %2 {{(.*)}}tensor<16xbf16> to tensor<32xbf16>" "fcdp.all_gather %%0 \1tensor<32xbf16> to tensor<64xbf16>" --replace "fcdp.outer_update @bucket.a with %4" "fcdp.outer_update @bucket.a with %%0" --line "offset = 1792" --replace "bytes = 64" "bytes = 128" --replace "fcdp.release %4 : tensor<32xbf16>" "fcdp.release %%4 : tensor<64xbf16>" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=UNREDUCED
// UNREDUCED: error: 'fcdp.all_gather' op for 'w' of @bucket.a in @outer_update: expected the difference of 'w' of @bucket.a since its last update, summed over nodes
// A reduction of another bucket's.
// RUN: %edit %t/one.mlir --in outer_update --replace "fcdp.reduce_scatter %6 of @bucket.b" "fcdp.reduce_scatter %%0 of @bucket.b" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=THIS
// THIS: error: 'fcdp.reduce_scatter' op for 'u' of @bucket.b in @outer_update: expected the difference of 'u' of @bucket.b since its last update, of this node

// A difference from before the bucket's update.
// RUN: %edit %t/one.mlir --in outer_update --repeat "fcdp.outer_update @bucket.a" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=STALE
// STALE: error: 'fcdp.outer_update' op for 'w' of @bucket.a in @outer_update: expected the difference of 'w' of @bucket.a since its last update, summed over nodes and gathered
// STALE: note: its input is written here, on inter in @outer_update for 'w' of @bucket.a
// RUN: %edit %t/one.mlir --in outer_update --delete "fcdp.outer_update @bucket.b" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: error: 'fcdp.bucket' op expected one update of 'u' of @bucket.b in @outer_update, got none
// RUN: %edit %t/one.mlir --line "fcdp.outer_update @bucket.b" --replace "scale {{\S+}}" "scale 1.0" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=SCALE
// SCALE: error: 'fcdp.outer_update' op expected a scale of {{.*}}, 1 / nodes, got {{.*}}

//===--- Order
// RUN: %edit %t/one.mlir --in outer_update --delete "fcdp.wait %%1 on inter_reduce" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=REDUCTION
// REDUCTION: error: 'fcdp.reduce_scatter' op for 'w' of @bucket.a in @outer_update: reads bytes [{{[0-9]+}}, {{[0-9]+}}) of the device arena on inter_reduce, not ordered with another access to them; expected 'inter_reduce' to wait for 'compute'
// REDUCTION: note: the other access, on compute in @outer_update for 'w' of @bucket.a
// RUN: %edit %t/one.mlir --in outer_update --delete "fcdp.wait %%3 on inter" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=SUM
// SUM: error: 'fcdp.all_gather' op for 'w' of @bucket.a in @outer_update: reads bytes {{.*}} on inter, not ordered with another access to them; expected 'inter' to wait for 'inter_reduce'
// RUN: %edit %t/one.mlir --in outer_update --delete "fcdp.wait %%5 on compute" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=UPDATE
// UPDATE: error: 'fcdp.outer_update' op for 'w' of @bucket.a in @outer_update: reads bytes {{.*}} on compute, not ordered with another access to them; expected 'compute' to wait for 'inter'
// RUN: %edit %t/one.mlir --in outer_update --delete "fcdp.release %%4" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=RELEASE
// RELEASE: error: 'fcdp.all_gather' op in @outer_update: expected one release of its result, got none

//===--- Memory
// RUN: %edit %t/one.mlir --in outer_update --line "fcdp.reduce_scatter %%0" --replace "offset = 2048" "offset = 2304" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=SCRATCH
// SCRATCH: error: 'fcdp.reduce_scatter' op for 'w' of @bucket.a in @outer_update: its input, scratch and result overlap
// The difference of the next bucket, where the sum of this one is.
// RUN: %edit %t/one.mlir --in outer_update --line "fcdp.outer_difference @bucket.b" --replace "offset = 1536" "offset = 1792" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=OVER
// OVER: error: 'fcdp.outer_difference' op for 'u' of @bucket.b in @outer_update: writes bytes [1792, 1856) of the device arena on compute, not ordered with another access to them; expected 'compute' to wait for 'inter'
// RUN: %edit %t/one.mlir --in outer_update --line "fcdp.outer_difference @bucket.b" --replace "offset = 1536" "offset = 512" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=SHARD
// SHARD: error: 'fcdp.state' op of 'u' of @bucket.b is overwritten in a step
// SHARD: note: overwritten here, on compute in @outer_update for 'u' of @bucket.b
// RUN: %edit %t/one.mlir --line "fcdp.state @bucket.a.outer_momentum" --replace "offset = 256" "offset = 0" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=STATES
// STATES: error: 'fcdp.state' op of 'w' of @bucket.a: its buffer at 0 overlaps another state
// RUN: %edit %t/one.mlir --line "fcdp.state @bucket.b.outer outer" --replace "local_stride = 1024" "local_stride = 64" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=PARTS
// PARTS: error: 'fcdp.state' op of 'u' of @bucket.b: the parts of a node's ranks overlap: expected a local_stride of at least 896 bytes, got 64

//===--- Steps
// Between outer updates nodes have parameters and gradients of their own.
// RUN: %edit %t/one.mlir --in only_microbatch --line "fcdp.all_gather %%4 of @bucket.a" --replace "@world[local] range 0 on intra" "@world[node] range 0 on inter" --replace "fcdp.wait %5 on intra" "fcdp.wait %%5 on inter" --replace "%7 = fcdp.record on intra" "%%7 = fcdp.record on inter" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=NODE
// NODE: error: 'fcdp.all_gather' op for 'w' of @bucket.a in @only_microbatch: expected to gather between nodes first, then within them, once each
// RUN: %edit %t/one.mlir --in only_microbatch --replace "fcdp.accumulate %18" "fcdp.accumulate %%sum" --replace "fcdp.release %18 on intra_reduce" "fcdp.release %%sum on intra_reduce" --insert-file-after "%%18 = fcdp.reduce_scatter" %t/sum.txt | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=BOTH
// BOTH: error: 'fcdp.all_gather' op for 'w' of @bucket.a in @only_microbatch: expected gradients of 'w' of @bucket.a that are reduced over all ranks of the node
// BOTH: note: they are written here, on inter_reduce in @only_microbatch for 'w' of @bucket.a

//===--- Bytes
// RUN: fcdp-opt %t/step.mlir --fcdp-pipeline="nodes=2 ranks-per-node=2 strategy=hsdp optimizer=sgd outer=8,wire=int8" -o %t/int8.mlir
// RUN: fcdp-opt %t/int8.mlir --fcdp-verify-plan | diff %t/int8.mlir -
// RUN: %edit %t/int8.mlir --line "fcdp.bucket @bucket.a " --replace "reduce_wire int8" "reduce_wire int4" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=INT8
// INT8: error: 'fcdp.bucket' op expected 'w' of @bucket.a {{.*}} to mean that a rank sends between nodes {{[0-9]+}} bytes in @outer_update, got {{[0-9]+}}
// RUN: fcdp-opt %t/step.mlir --fcdp-pipeline="nodes=2 ranks-per-node=2 strategy=hsdp optimizer=sgd outer=8,wire=coded" -o %t/coded.mlir
// RUN: fcdp-opt %t/coded.mlir --fcdp-verify-plan | diff %t/coded.mlir -
// RUN: %edit %t/coded.mlir --line "fcdp.bucket @bucket.b " --replace "reduce_wire coded" "reduce_wire raw" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=CODED
// CODED: error: 'fcdp.bucket' op expected 'u' of @bucket.b {{.*}} to mean that a rank sends between nodes 64 bytes in @outer_update, got {{[0-9]+}}
// A residual in a message that another one follows.
// RUN: %edit %t/int8.mlir --in outer_update --line "of @bucket.a over" --replace "residual @bucket.a.residual" "residual @bucket.b.residual" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=RESIDUAL
// RESIDUAL: error: 'fcdp.reduce_scatter' op expected 'residual' to be a state of role 'residual' of @bucket.a with 32 elements, got @bucket.b.residual

//--- sum.txt
%reduced = fcdp.record on intra_reduce event 100
fcdp.wait %reduced on inter_reduce
%part = fcdp.reduce_scatter %18 of @bucket.a over @world[node] on inter_reduce {buffer = #fcdp.buffer<arena = device, offset = 8192, bytes = 64>, scratch = #fcdp.buffer<arena = device, offset = 8448, bytes = 128>} : tensor<32xf32> to tensor<16xf32>
%summed = fcdp.record on inter_reduce event 101
fcdp.wait %summed on inter
%sum = fcdp.all_gather %part of @bucket.a over @world[node] on inter {buffer = #fcdp.buffer<arena = device, offset = 8704, bytes = 128>} : tensor<16xf32> to tensor<32xf32>
%gathered = fcdp.record on inter event 102
fcdp.wait %gathered on intra_reduce
fcdp.release %part on intra_reduce : tensor<16xf32>
fcdp.release %18 on intra_reduce : tensor<32xf32>
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
