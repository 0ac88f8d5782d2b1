// RUN: fcdp-opt %s --split-input-file --fcdp-shard="nodes=2 ranks-per-node=2 optimizer=adamw" --fcdp-narrow-gathers --fcdp-bucket | FileCheck %s
// RUN: fcdp-opt %s --split-input-file --fcdp-shard="nodes=2 ranks-per-node=2 optimizer=adamw" --fcdp-narrow-gathers --fcdp-bucket -o %t.once
// RUN: fcdp-opt %t.once --split-input-file --fcdp-bucket -o %t.twice
// RUN: diff %t.once %t.twice

// Members start at multiples of 64 bytes (16 f32, 32 bf16), in the order of the
// parameters, not of their uses; the rest pads to four shards of a multiple of
// 64 bytes. Buckets differ by unit, wire type, trainability, and by whether
// anyone reads them; symbols come before functions.
// CHECK-LABEL: module
// CHECK: fcdp.mesh @world(node = 2, local = 2)
// CHECK: fcdp.bucket @bucket.a unit "a" elements 64 storage f32 wire f32 trainable members [@a.weight at 0, @a.bias at 32]
// CHECK-DAG: fcdp.state @bucket.a.shard shard of @bucket.a in device : tensor<16xf32>
// CHECK-DAG: fcdp.state @bucket.a.grad grad of @bucket.a in device : tensor<16xf32>
// CHECK-DAG: fcdp.state @bucket.a.exp_avg exp_avg of @bucket.a in device : tensor<16xf32>
// CHECK-DAG: fcdp.state @bucket.a.exp_avg_sq exp_avg_sq of @bucket.a in device : tensor<16xf32>
// CHECK: fcdp.bucket @bucket.a.frozen unit "a" elements 64 storage f32 wire f32 members [@a.scale at 0]
// CHECK-NEXT: fcdp.state @bucket.a.frozen.shard
// CHECK-NEXT: fcdp.bucket @bucket.a.bf16 unit "a" elements 128 storage f32 wire bf16 trainable members [@a.half at 0, @a.half2 at 32]
// CHECK: fcdp.bucket @bucket.root.unused unit "" elements 64 storage f32 wire f32 members [@unused at 0]
// CHECK-NEXT: fcdp.state @bucket.root.unused.shard
// CHECK-NEXT: func.func @init

// One gather for the live range of each bucket, before the first use.
// CHECK-LABEL: func.func @only_microbatch
// CHECK: %[[S:.*]] = fcdp.read_shard @bucket.a : tensor<16xf32>
// CHECK: %[[A:.*]] = fcdp.all_gather %[[S]] of @bucket.a over @world[node, local] range 0 : tensor<16xf32> to tensor<64xf32>
// CHECK-NEXT: %[[BIAS:.*]] = fcdp.view_member %[[A]] @a.bias of @bucket.a : tensor<64xf32> to tensor<20xf32>
// CHECK-NOT: fcdp.all_gather
// CHECK: fcdp.view_member %[[A]] @a.weight of @bucket.a
// CHECK: %[[H:.*]] = fcdp.read_shard @bucket.a.bf16 : tensor<32xf32>
// CHECK-NEXT: %[[C:.*]] = fcdp.cast_shard %[[H]] : tensor<32xf32> to tensor<32xbf16>
// CHECK-NEXT: fcdp.all_gather %[[C]] of @bucket.a.bf16

// Gradients are packed at the last of them; padding and what is not given is
// zero. The sum before is accumulated in front of the next pack: never more
// than one reduction in flight.
// CHECK: %[[P0:.*]] = fcdp.pack @bucket.a(%{{.*}} as @a.bias, %{{.*}} as @a.weight)
// CHECK-NEXT: %[[R0:.*]] = fcdp.reduce_scatter %[[P0]] of @bucket.a over @world[node, local] : tensor<64xf32> to tensor<16xf32>
// CHECK-NOT: fcdp.pack
// CHECK: fcdp.accumulate %[[R0]] into @bucket.a overwrite
// CHECK-NEXT: %[[P1:.*]] = fcdp.pack @bucket.a.bf16
// CHECK-NEXT: %[[R1:.*]] = fcdp.reduce_scatter %[[P1]]
// CHECK: fcdp.accumulate %[[R1]] into @bucket.a.bf16 overwrite
// CHECK-NEXT: return

// CHECK-LABEL: func.func @update
// CHECK-NEXT: fcdp.shard_update @bucket.a scale 2.5
// CHECK-NEXT: fcdp.shard_update @bucket.a.bf16 scale 2.5
// CHECK-NEXT: return
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @a.weight : tensor<20xf32> unit "a" trainable names ["a.weight"]
  fcdp.parameter @a.scale : tensor<20xf32> unit "a" names ["a.scale"]
  fcdp.parameter @a.half : tensor<20xf32> unit "a" trainable names ["a.half"]
  fcdp.parameter @a.bias : tensor<20xf32> unit "a" trainable names ["a.bias"]
  fcdp.parameter @unused : tensor<3xf32> unit "" names ["unused"]
  fcdp.parameter @a.half2 : tensor<20xf32> unit "a" trainable names ["a.half2"]
  func.func @step() {
    %w = fcdp.read_parameter @a.weight : tensor<20xf32>
    %s = fcdp.read_parameter @a.scale : tensor<20xf32>
    %b = fcdp.read_parameter @a.bias : tensor<20xf32>
    %h = fcdp.read_parameter @a.half : tensor<20xf32>
    %h2 = fcdp.read_parameter @a.half2 : tensor<20xf32>
    %0 = aten.call "aten.add.Tensor"(self = %b, other = %w) : (tensor<20xf32>, tensor<20xf32>) -> tensor<20xf32>
    %1 = aten.call "aten.mul.Tensor"(self = %0, other = %s) : (tensor<20xf32>, tensor<20xf32>) -> tensor<20xf32>
    %c = aten.call "aten._to_copy.default"(self = %h, dtype = bf16) : (tensor<20xf32>) -> tensor<20xbf16>
    %c2 = aten.call "aten._to_copy.default"(self = %h2, dtype = bf16) : (tensor<20xf32>) -> tensor<20xbf16>
    %2 = aten.call "aten.mul.Tensor"(self = %c, other = %c2) : (tensor<20xbf16>, tensor<20xbf16>) -> tensor<20xbf16>
    %l = aten.call "aten.sum.default"(self = %1) : (tensor<20xf32>) -> tensor<f32>
    %g = aten.call "aten.neg.default"(self = %1) : (tensor<20xf32>) -> tensor<20xf32>
    %gh = aten.call "aten.abs.default"(self = %1) : (tensor<20xf32>) -> tensor<20xf32>
    fcdp.loss %l : tensor<f32>
    fcdp.gradient %1 of @a.bias : tensor<20xf32>
    fcdp.gradient %g of @a.weight : tensor<20xf32>
    fcdp.gradient %gh of @a.half : tensor<20xf32>
    fcdp.gradient %gh of @a.half2 : tensor<20xf32>
    return
  }
}

// -----

// Gradients of two types are two buckets; equal names are told apart; a
// gradient that nothing else is read for makes a bucket without gathers; a
// bucket may have no elements.
// CHECK-LABEL: module
// CHECK: fcdp.bucket @bucket.root unit "root" elements 64 storage f32 wire f32 trainable members [@a at 0]
// CHECK: fcdp.bucket @[[SECOND:bucket.root_[0-9]+]] unit "root" elements 64 storage f32 wire f32 trainable members [@b at 0]
// CHECK: fcdp.bucket @bucket.root.unused unit "" elements 64 storage f32 wire f32 trainable members [@unread at 0]
// CHECK: fcdp.state @bucket.root.unused.grad
// CHECK: fcdp.bucket @bucket.empty unit "empty" elements 0 storage f32 wire f32 trainable members [@empty at 0, @empty2 at 0]
// CHECK: func.func @only_microbatch
// CHECK-DAG: fcdp.pack @bucket.root(%{{.*}} as @a) : (tensor<4xf32>) -> tensor<64xf32>
// CHECK-DAG: fcdp.pack @[[SECOND]](%{{.*}} as @b) : (tensor<4xbf16>) -> tensor<64xbf16>
// CHECK: return
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @a : tensor<4xf32> unit "root" trainable names ["a"]
  fcdp.parameter @b : tensor<4xf32> unit "root" trainable names ["b"]
  fcdp.parameter @unread : tensor<4xf32> unit "" trainable names ["unread"]
  fcdp.parameter @empty : tensor<0xf32> unit "empty" trainable names ["empty"]
  fcdp.parameter @empty2 : tensor<4x0xf32> unit "empty" trainable names ["empty2"]
  func.func @step() {
    %a = fcdp.read_parameter @a : tensor<4xf32>
    %b = fcdp.read_parameter @b : tensor<4xf32>
    %e = fcdp.read_parameter @empty : tensor<0xf32>
    %e2 = fcdp.read_parameter @empty2 : tensor<4x0xf32>
    %0 = aten.call "aten.mul.Tensor"(self = %a, other = %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %h = aten.call "aten._to_copy.default"(self = %0, dtype = bf16) : (tensor<4xf32>) -> tensor<4xbf16>
    %l = aten.call "aten.sum.default"(self = %0) : (tensor<4xf32>) -> tensor<f32>
    %ge = aten.call "aten.neg.default"(self = %e) : (tensor<0xf32>) -> tensor<0xf32>
    %ge2 = aten.call "aten.neg.default"(self = %e2) : (tensor<4x0xf32>) -> tensor<4x0xf32>
    fcdp.loss %l : tensor<f32>
    fcdp.gradient %0 of @a : tensor<4xf32>
    fcdp.gradient %h of @b : tensor<4xbf16>
    fcdp.gradient %0 of @unread : tensor<4xf32>
    fcdp.gradient %ge of @empty : tensor<0xf32>
    fcdp.gradient %ge2 of @empty2 : tensor<4x0xf32>
    return
  }
}
