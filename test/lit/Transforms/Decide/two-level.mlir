// RUN: fcdp-opt %s --fcdp-shard="nodes=2 ranks-per-node=4" --fcdp-bucket --fcdp-two-level | FileCheck %s --check-prefix=BOTH
// RUN: fcdp-opt %s --fcdp-shard="nodes=1 ranks-per-node=4" --fcdp-bucket --fcdp-two-level | FileCheck %s --check-prefix=LOCAL
// RUN: fcdp-opt %s --fcdp-shard="nodes=2 ranks-per-node=1" --fcdp-bucket --fcdp-two-level | FileCheck %s --check-prefix=NODE
// RUN: fcdp-opt %s --fcdp-shard="nodes=1 ranks-per-node=1" --fcdp-bucket --fcdp-two-level | FileCheck %s --check-prefix=ONE
// RUN: not fcdp-opt %s --fcdp-shard="nodes=2 ranks-per-node=4" --fcdp-two-level 2>&1 | FileCheck %s --check-prefix=EARLY

// Twice is once.
// RUN: fcdp-opt %s --fcdp-shard="nodes=2 ranks-per-node=4" --fcdp-bucket --fcdp-two-level -o %t.once
// RUN: fcdp-opt %t.once --fcdp-two-level -o %t.twice
// RUN: diff %t.once %t.twice

// A gather runs between nodes first, a reduction last; only its last step gives
// f32.
// BOTH: %[[S:.*]] = fcdp.read_shard @bucket.root : tensor<32xbf16>
// BOTH-NEXT: %[[SLICE:.*]] = fcdp.all_gather %[[S]] of @bucket.root over @world[node] range 0 : tensor<32xbf16> to tensor<64xbf16>
// BOTH-NEXT: %[[WHOLE:.*]] = fcdp.all_gather %[[SLICE]] of @bucket.root over @world[local] range 0 : tensor<64xbf16> to tensor<256xbf16>
// BOTH-NEXT: fcdp.view_member %[[WHOLE]]
// BOTH: %[[P:.*]] = fcdp.pack
// BOTH-NEXT: %[[PART:.*]] = fcdp.reduce_scatter %[[P]] of @bucket.root over @world[local] : tensor<256xbf16> to tensor<64xbf16>
// BOTH-NEXT: fcdp.reduce_scatter %[[PART]] of @bucket.root over @world[node] : tensor<64xbf16> to tensor<32xf32>

// An axis of one rank has no step.
// LOCAL: func.func @only_microbatch
// LOCAL-NOT: over @world[node]
// LOCAL: over @world[local] range 0 : tensor<32xbf16> to tensor<128xbf16>
// LOCAL-NOT: over @world[node]
// LOCAL: fcdp.reduce_scatter {{.*}} over @world[local] : tensor<128xbf16> to tensor<32xf32>
// LOCAL-NOT: over @world[node]
// LOCAL: func.func @update
// NODE: func.func @only_microbatch
// NODE-NOT: over @world[local]
// NODE: over @world[node] range 0 : tensor<32xbf16> to tensor<64xbf16>
// NODE-NOT: over @world[local]
// NODE: fcdp.reduce_scatter {{.*}} over @world[node] : tensor<64xbf16> to tensor<32xf32>
// NODE-NOT: over @world[local]
// NODE: func.func @update

// One rank reads its shard as it is, and a reduction is left to convert.
// ONE: func.func @only_microbatch
// ONE-NOT: fcdp.all_gather
// ONE: %[[S:.*]] = fcdp.read_shard @bucket.root : tensor<32xbf16>
// ONE-NEXT: fcdp.view_member %[[S]]
// ONE-NOT: fcdp.all_gather
// ONE: fcdp.reduce_scatter {{.*}} over @world[local] : tensor<32xbf16> to tensor<32xf32>
// ONE: func.func @update

// A bucket that has chosen so keeps one step over all ranks, the order of shards
// being that of ranks.
// RUN: fcdp-opt %s --fcdp-shard="nodes=2 ranks-per-node=4" --fcdp-bucket -o %t.laid-out
// RUN: %edit %t.laid-out --replace " trainable members" " trainable collectives flat members" | fcdp-opt --fcdp-two-level -o %t.flat
// RUN: FileCheck %s --check-prefix=FLAT --input-file=%t.flat
// RUN: fcdp-opt %t.flat --fcdp-two-level | diff %t.flat -
// FLAT: func.func @only_microbatch
// FLAT: fcdp.all_gather %{{.*}} of @bucket.root over @world[node, local] range 0 : tensor<32xbf16> to tensor<256xbf16>
// FLAT: fcdp.reduce_scatter %{{.*}} of @bucket.root over @world[node, local] : tensor<256xbf16> to tensor<32xf32>
// FLAT: func.func @update

// Dont: gathers of which a slice is kept, and reductions of which one is summed,
// are split even so.
// RUN: %edit %t.laid-out --replace " trainable members" " trainable residency full carry node collectives flat members" | fcdp-opt --fcdp-two-level | FileCheck %s --check-prefix=KEPT
// KEPT: func.func @only_microbatch
// KEPT: fcdp.all_gather {{.*}} over @world[node] range 0 :
// KEPT: fcdp.all_gather {{.*}} over @world[local] range 0 :
// KEPT: fcdp.reduce_scatter {{.*}} over @world[node, local] :
// RUN: %edit %t.laid-out --replace " trainable members" " trainable residency drop accumulation node collectives flat members" | fcdp-opt --fcdp-two-level | FileCheck %s --check-prefix=SUMMED
// SUMMED: func.func @only_microbatch
// SUMMED: fcdp.all_gather {{.*}} over @world[node, local] range 0 :
// SUMMED: fcdp.reduce_scatter {{.*}} over @world[local] :
// SUMMED: fcdp.reduce_scatter {{.*}} over @world[node] :

// Dont: where an axis has one rank there is one step, whatever was chosen.
// RUN: fcdp-opt %s --fcdp-shard="nodes=2 ranks-per-node=1" --fcdp-bucket | %edit - --replace " trainable members" " trainable collectives flat members" | fcdp-opt --fcdp-two-level | FileCheck %s --check-prefix=NODE

// EARLY: error: expected buckets; run --fcdp-bucket first
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @w : tensor<4xbf16> unit "" trainable names ["w"]
  func.func @step() {
    %w = fcdp.read_parameter @w : tensor<4xbf16>
    %l = aten.call "aten.sum.default"(self = %w) : (tensor<4xbf16>) -> tensor<bf16>
    %g = aten.call "aten.ones_like.default"(self = %w) : (tensor<4xbf16>) -> tensor<4xbf16>
    fcdp.loss %l : tensor<bf16>
    fcdp.gradient %g of @w : tensor<4xbf16>
    return
  }
}
