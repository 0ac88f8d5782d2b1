// A variant of the step may use a copy once that another one uses again.
// RUN: fcdp-opt %s --fcdp-shard="nodes=2 ranks-per-node=2" --fcdp-bucket --fcdp-two-level --fcdp-decide="strategy=fcdp" --fcdp-cache | FileCheck %s
// The whole compilation proves the bytes of both.
// RUN: fcdp-opt %s --fcdp-pipeline="nodes=2 ranks-per-node=2 strategy=fcdp optimizer=sgd" -o /dev/null

// CHECK-LABEL: func.func @only_microbatch.0
// CHECK: fcdp.all_gather %{{.*}} of @bucket.a over @world[node]
// CHECK-NOT: fcdp.cache_store
// CHECK-NOT: fcdp.all_gather %{{.*}} of @bucket.a over @world[node]
// CHECK-LABEL: func.func @only_microbatch.1
// CHECK: %[[SLICE:.*]] = fcdp.all_gather %{{.*}} of @bucket.a over @world[node]
// CHECK-NEXT: fcdp.cache_store %[[SLICE]] to @bucket.a.cache
// CHECK: fcdp.cache_load @bucket.a.cache
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @a : tensor<64xf32> unit "a" trainable names ["a"]
  fcdp.parameter @head : tensor<64xf32> unit "head" trainable names ["head"]
  func.func @step() attributes {fcdp.variant = 0 : i64} {
    %a = fcdp.read_parameter @a : tensor<64xf32>
    %h = fcdp.read_parameter @head : tensor<64xf32>
    %0 = aten.call "aten.neg.default"(self = %a) : (tensor<64xf32>) -> tensor<64xf32>
    %1 = aten.call "aten.mul.Tensor"(self = %0, other = %h) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    %l = aten.call "aten.sum.default"(self = %1) : (tensor<64xf32>) -> tensor<f32>
    %2 = aten.call "aten.neg.default"(self = %h) : (tensor<64xf32>) -> tensor<64xf32>
    fcdp.loss %l : tensor<f32>
    fcdp.gradient %0 of @head : tensor<64xf32>
    fcdp.gradient %2 of @a : tensor<64xf32>
    return
  }
  func.func @step.1() attributes {fcdp.variant = 1 : i64} {
    %a = fcdp.read_parameter @a : tensor<64xf32>
    %h = fcdp.read_parameter @head : tensor<64xf32>
    %0 = aten.call "aten.neg.default"(self = %a) : (tensor<64xf32>) -> tensor<64xf32>
    %1 = aten.call "aten.mul.Tensor"(self = %0, other = %h) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    %l = aten.call "aten.sum.default"(self = %1) : (tensor<64xf32>) -> tensor<f32>
    %2 = aten.call "aten.mul.Tensor"(self = %h, other = %a) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    fcdp.loss %l : tensor<f32>
    fcdp.gradient %0 of @head : tensor<64xf32>
    fcdp.gradient %2 of @a : tensor<64xf32>
    return
  }
}
