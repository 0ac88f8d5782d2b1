// The residencies of gathered copies, on two nodes of two ranks.
// RUN: fcdp-opt %s --fcdp-shard="nodes=2 ranks-per-node=2" --fcdp-bucket --fcdp-two-level -o %t.mlir
// RUN: fcdp-opt %t.mlir --fcdp-decide="strategy=fcdp" --fcdp-cache | FileCheck %s --check-prefix=HOST
// RUN: fcdp-opt %t.mlir --fcdp-decide="strategy=zero3" --fcdp-cache | FileCheck %s --check-prefix=DROP
// RUN: %edit %t.mlir --replace "trainable members" "trainable residency node members" --replace "wire f32 members" "wire f32 residency node members" | fcdp-opt --fcdp-cache | FileCheck %s --check-prefix=NODE
// RUN: %edit %t.mlir --replace "trainable members" "trainable residency full members" --replace "wire f32 members" "wire f32 residency full members" | fcdp-opt --fcdp-cache | FileCheck %s --check-prefix=FULL

// Several micro-batches load what the first stored.
// RUN: fcdp-opt %s --fcdp-shard="nodes=2 ranks-per-node=2 micro-batches=3" --fcdp-bucket --fcdp-decide="strategy=fcdp" --fcdp-two-level --fcdp-cache | FileCheck %s --check-prefix=THREE

// A copy that stays on the device is a state: the first micro-batch fills it, or
// @init if the bucket is frozen.
// RUN: fcdp-opt %s --fcdp-shard="nodes=2 ranks-per-node=2 micro-batches=3" --fcdp-bucket --fcdp-two-level -o %t.three.mlir
// RUN: fcdp-opt %t.three.mlir --fcdp-decide="strategy=zero2" --fcdp-cache | FileCheck %s --check-prefix=RESIDENT
// RESIDENT: fcdp.state @bucket.a.resident resident of @bucket.a in device : tensor<64xf32>
// RESIDENT-LABEL: func.func @init
// RESIDENT: fcdp.all_gather %{{.*}} of @bucket.frozen.frozen over @world[local] range 0 into @bucket.frozen.frozen.resident
// RESIDENT-LABEL: func.func @first_microbatch
// RESIDENT: %[[A:.*]] = fcdp.all_gather %{{.*}} of @bucket.a over @world[local] range 0 into @bucket.a.resident
// RESIDENT-NEXT: fcdp.view_member %[[A]] @a
// RESIDENT: fcdp.read_state @bucket.frozen.frozen.resident
// RESIDENT-NOT: fcdp.all_gather %{{.*}} of @bucket.a
// RESIDENT: fcdp.view_member %[[A]] @a
// RESIDENT-LABEL: func.func @next_microbatch
// RESIDENT-NOT: fcdp.all_gather
// RESIDENT: fcdp.read_state @bucket.a.resident
// RESIDENT-NOT: fcdp.all_gather
// RESIDENT-LABEL: func.func @last_microbatch
// RESIDENT-NOT: fcdp.all_gather
// RESIDENT-LABEL: func.func @update

// RUN: fcdp-opt %t.three.mlir --fcdp-decide="strategy=hpz" --fcdp-cache | FileCheck %s --check-prefix=HPZ
// HPZ: fcdp.state @bucket.a.resident resident of @bucket.a in device : tensor<32xf32>
// HPZ-LABEL: func.func @first_microbatch
// HPZ: %[[A:.*]] = fcdp.all_gather %{{.*}} of @bucket.a over @world[node] range 0 into @bucket.a.resident
// HPZ: fcdp.all_gather %[[A]] of @bucket.a over @world[local] range 1
// HPZ-LABEL: func.func @next_microbatch
// HPZ-NOT: over @world[node] range
// HPZ: %[[A:.*]] = fcdp.read_state @bucket.a.resident
// HPZ: fcdp.all_gather %[[A]] of @bucket.a over @world[local] range 0
// HPZ-LABEL: func.func @update

// Full within a micro-batch, in host memory between them.
// RUN: %edit %t.three.mlir --replace "trainable members" "trainable residency full carry host members" --replace "wire f32 members" "wire f32 residency drop members" | fcdp-opt --fcdp-cache | FileCheck %s --check-prefix=BOTH
// BOTH-NOT: resident of
// BOTH-LABEL: func.func @first_microbatch
// BOTH: fcdp.cache_store %{{.*}} to @bucket.a.cache
// BOTH-NOT: fcdp.cache_load @bucket.a.cache
// BOTH-LABEL: func.func @next_microbatch
// BOTH: fcdp.cache_load @bucket.a.cache
// BOTH: fcdp.all_gather %{{.*}} of @bucket.a over @world[local] range 0
// BOTH-NOT: fcdp.all_gather %{{.*}} of @bucket.a
// BOTH-LABEL: func.func @last_microbatch

// With one micro-batch nothing is carried.
// RUN: %edit %t.mlir --replace "trainable members" "trainable residency drop carry full members" --replace "wire f32 members" "wire f32 residency drop members" | fcdp-opt --fcdp-cache | FileCheck %s --check-prefix=DONTCARRY
// DONTCARRY-NOT: resident of
// DONTCARRY: of @bucket.a over @world[node] range 1

// A node of its own has nothing to save.
// RUN: fcdp-opt %s --fcdp-shard="nodes=1 ranks-per-node=4" --fcdp-bucket --fcdp-decide="strategy=fcdp" --fcdp-two-level --fcdp-cache | FileCheck %s --check-prefix=DROP

// Twice is once.
// RUN: fcdp-opt %t.mlir --fcdp-decide="strategy=fcdp" --fcdp-cache -o %t.once
// RUN: fcdp-opt %t.once --fcdp-cache -o %t.twice
// RUN: diff %t.once %t.twice

// RUN: not fcdp-opt %t.mlir --fcdp-cache 2>&1 | FileCheck %s --check-prefix=UNDECIDED
// UNDECIDED: error: expected a residency; run --fcdp-decide first

// The trained bucket is stored once, by the first gather between nodes, and
// loaded in the backward pass. @head, used once, is not cached. The frozen
// bucket is stored in @init and only loaded.
// HOST: fcdp.bucket @bucket.a unit
// HOST-NEXT: fcdp.state @bucket.a.cache cache of @bucket.a in host : tensor<32xf32>
// HOST: fcdp.bucket @bucket.frozen.frozen unit
// HOST-NEXT: fcdp.state @bucket.frozen.frozen.cache cache
// HOST-NOT: fcdp.state @bucket.head.cache
// HOST-LABEL: func.func @init
// HOST-NEXT: %[[S:.*]] = fcdp.read_shard @bucket.frozen.frozen
// HOST-NEXT: %[[SLICE:.*]] = fcdp.all_gather %[[S]] of @bucket.frozen.frozen over @world[node] range 0
// HOST-NEXT: fcdp.cache_store %[[SLICE]] to @bucket.frozen.frozen.cache
// HOST-NEXT: return
// HOST-LABEL: func.func @only_microbatch
// HOST: %[[A:.*]] = fcdp.all_gather %{{.*}} of @bucket.a over @world[node] range 0
// HOST-NEXT: fcdp.cache_store %[[A]] to @bucket.a.cache
// HOST-NEXT: fcdp.all_gather %[[A]] of @bucket.a over @world[local] range 0
// HOST: %[[F:.*]] = fcdp.cache_load @bucket.frozen.frozen.cache
// HOST-NEXT: fcdp.all_gather %[[F]] of @bucket.frozen.frozen over @world[local] range 0
// HOST: fcdp.all_gather %{{.*}} of @bucket.head over @world[node]
// HOST-NOT: fcdp.cache_store
// HOST: %[[F1:.*]] = fcdp.cache_load @bucket.frozen.frozen.cache
// HOST-NEXT: fcdp.all_gather %[[F1]] of @bucket.frozen.frozen over @world[local] range 1
// HOST: %[[A1:.*]] = fcdp.cache_load @bucket.a.cache
// HOST-NEXT: fcdp.all_gather %[[A1]] of @bucket.a over @world[local] range 1
// HOST-NOT: fcdp.cache_store
// HOST: return

// DROP: module
// DROP-NOT: fcdp.cache_
// DROP-NOT: cache of
// DROP: func.func @only_microbatch
// DROP-DAG: of @bucket.a over @world[local] range 0
// DROP-DAG: of @bucket.a over @world[local] range 1
// DROP-NOT: fcdp.cache_
// DROP: func.func @update

// NODE: func.func @only_microbatch
// NODE: %[[SLICE:.*]] = fcdp.all_gather %{{.*}} of @bucket.a over @world[node] range 0
// NODE-NEXT: fcdp.all_gather %[[SLICE]] of @bucket.a over @world[local] range 0
// NODE-NOT: of @bucket.a over @world[node]
// NODE: fcdp.all_gather %[[SLICE]] of @bucket.a over @world[local] range 1
// NODE-NOT: of @bucket.a over @world[node] range
// NODE: return

// FULL: func.func @only_microbatch
// FULL: fcdp.all_gather %{{.*}} of @bucket.a over @world[node] range 0
// FULL-NEXT: %[[WHOLE:.*]] = fcdp.all_gather %{{.*}} of @bucket.a over @world[local] range 0
// FULL-NOT: fcdp.all_gather %{{.*}} of @bucket.a
// FULL: fcdp.view_member %[[WHOLE]] @a of @bucket.a
// FULL-NOT: fcdp.all_gather %{{.*}} of @bucket.a
// FULL: fcdp.view_member %[[WHOLE]] @a of @bucket.a
// FULL: return

// THREE: fcdp.state @bucket.head.cache
// THREE-LABEL: func.func @first_microbatch
// THREE: fcdp.cache_store %{{.*}} to @bucket.a.cache
// THREE: fcdp.cache_store %{{.*}} to @bucket.head.cache
// THREE: fcdp.cache_load @bucket.a.cache
// THREE-LABEL: func.func @next_microbatch
// THREE-NOT: over @world[node] range
// THREE-NOT: fcdp.cache_store
// THREE-LABEL: func.func @last_microbatch
// THREE-NOT: over @world[node] range
// THREE-NOT: fcdp.cache_store
// THREE-LABEL: func.func @update
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @a : tensor<64xf32> unit "a" trainable names ["a"]
  fcdp.parameter @frozen : tensor<64xf32> unit "frozen" names ["frozen"]
  fcdp.parameter @head : tensor<64xf32> unit "head" trainable names ["head"]
  func.func @step() {
    %a = fcdp.read_parameter @a : tensor<64xf32>
    %f = fcdp.read_parameter @frozen : tensor<64xf32>
    %h = fcdp.read_parameter @head : tensor<64xf32>
    %0 = aten.call "aten.neg.default"(self = %a) : (tensor<64xf32>) -> tensor<64xf32>
    %1 = aten.call "aten.mul.Tensor"(self = %0, other = %f) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    %2 = aten.call "aten.mul.Tensor"(self = %1, other = %h) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    %l = aten.call "aten.sum.default"(self = %2) : (tensor<64xf32>) -> tensor<f32>
    %3 = aten.call "aten.neg.default"(self = %h) : (tensor<64xf32>) -> tensor<64xf32>
    %4 = aten.call "aten.mul.Tensor"(self = %3, other = %f) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    %5 = aten.call "aten.mul.Tensor"(self = %4, other = %a) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    fcdp.loss %l : tensor<f32>
    fcdp.gradient %1 of @head : tensor<64xf32>
    fcdp.gradient %5 of @a : tensor<64xf32>
    return
  }
}
