// Fetches are issued ahead of their use.
// DEFINE: %{prefetch} =
// DEFINE: %{fetches} = fcdp-opt %s --fcdp-shard="nodes=2 ranks-per-node=2" --fcdp-bucket --fcdp-two-level --fcdp-decide="strategy=fcdp %{prefetch}" --fcdp-cache
// RUN: %{fetches} -o %t.mlir
// RUN: fcdp-opt %t.mlir --fcdp-prefetch | FileCheck %s --check-prefix=ONE
// RUN: fcdp-opt %t.mlir --fcdp-prefetch --remarks-filter=fcdp-prefetch -o %t.ahead 2>&1 | FileCheck %s --check-prefix=REMARK
// REMARK: 4 of 5 copies are fetched ahead of their use, at the prefetch distance 1 that the strategy or --prefetch gives
// REDEFINE: %{prefetch} = prefetch=9
// RUN: %{fetches} --fcdp-prefetch | FileCheck %s --check-prefix=ALL

// Twice is once.
// RUN: fcdp-opt %t.mlir --fcdp-prefetch -o %t.once
// RUN: fcdp-opt %t.once --fcdp-prefetch -o %t.twice
// RUN: diff %t.once %t.twice

// Distance 0 leaves the program as it is.
// REDEFINE: %{prefetch} = prefetch=0
// RUN: %{fetches} --fcdp-prefetch --remarks-filter=fcdp-prefetch -o %t.inplace 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: 0 of 5 copies are fetched ahead of their use, at the prefetch distance 0
// RUN: %{fetches} -o %t.plain
// RUN: fcdp-opt %t.plain --fcdp-prefetch | %edit - --replace "fcdp.prefetched, " "" > %t.same
// RUN: diff %t.plain %t.same

// REDEFINE: %{prefetch} = prefetch=-1
// RUN: not %{fetches} 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// NEGATIVE: error: prefetch: expected 0 or more, got '-1'
// RUN: not fcdp-opt %s --fcdp-prefetch 2>&1 | FileCheck %s --check-prefix=PHASE
// PHASE: error: expected a module in phase 'sharded'

// Each fetch is before the use of the one before it, as a whole: the
// gathers, and the store between them.
// ONE-LABEL: func.func @only_microbatch
// ONE: fcdp.all_gather %{{.*}} of @bucket.a over @world[node] range 0
// ONE-NEXT: fcdp.cache_store %{{.*}} to @bucket.a.cache
// ONE-NEXT: fcdp.all_gather %{{.*}} of @bucket.a over @world[local] range 0
// ONE-NEXT: fcdp.read_shard @bucket.b
// ONE-NEXT: fcdp.all_gather %{{.*}} of @bucket.b over @world[node] range 0
// ONE-NEXT: fcdp.cache_store %{{.*}} to @bucket.b.cache
// ONE-NEXT: fcdp.all_gather %{{.*}} of @bucket.b over @world[local] range 0
// ONE-NEXT: fcdp.view_member {{.*}} @a of
// ONE-NEXT: aten.call
// ONE-NEXT: fcdp.read_shard @bucket.c
// ONE: of @bucket.c over @world[local] range 0
// ONE-NEXT: fcdp.view_member {{.*}} @b of
// ONE: fcdp.cache_load @bucket.b.cache
// ONE-NEXT: of @bucket.b over @world[local] range 1
// ONE-NEXT: fcdp.view_member {{.*}} @c of
// ONE: fcdp.cache_load @bucket.a.cache
// ONE-NEXT: of @bucket.a over @world[local] range 1
// ONE-NEXT: fcdp.view_member {{.*}} @b of

// Dont: a load is never before its store.
// ALL-LABEL: func.func @only_microbatch
// ALL: fcdp.cache_store %{{.*}} to @bucket.a.cache
// ALL: fcdp.cache_store %{{.*}} to @bucket.b.cache
// ALL: of @bucket.c over @world[local] range 0
// ALL-NEXT: fcdp.cache_load @bucket.b.cache
// ALL-NEXT: of @bucket.b over @world[local] range 1
// ALL-NEXT: fcdp.cache_load @bucket.a.cache
// ALL-NEXT: of @bucket.a over @world[local] range 1
// ALL-NEXT: fcdp.view_member {{.*}} @a of
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @a : tensor<64xf32> unit "a" trainable names ["a"]
  fcdp.parameter @b : tensor<64xf32> unit "b" trainable names ["b"]
  fcdp.parameter @c : tensor<64xf32> unit "c" trainable names ["c"]
  func.func @step() {
    %a = fcdp.read_parameter @a : tensor<64xf32>
    %b = fcdp.read_parameter @b : tensor<64xf32>
    %c = fcdp.read_parameter @c : tensor<64xf32>
    %0 = aten.call "aten.neg.default"(self = %a) : (tensor<64xf32>) -> tensor<64xf32>
    %1 = aten.call "aten.mul.Tensor"(self = %0, other = %b) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    %2 = aten.call "aten.mul.Tensor"(self = %1, other = %c) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    %l = aten.call "aten.sum.default"(self = %2) : (tensor<64xf32>) -> tensor<f32>
    %3 = aten.call "aten.mul.Tensor"(self = %2, other = %c) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    %4 = aten.call "aten.mul.Tensor"(self = %3, other = %b) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    %5 = aten.call "aten.mul.Tensor"(self = %4, other = %a) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    fcdp.loss %l : tensor<f32>
    fcdp.gradient %2 of @c : tensor<64xf32>
    fcdp.gradient %3 of @b : tensor<64xf32>
    fcdp.gradient %4 of @a : tensor<64xf32>
    return
  }
}
