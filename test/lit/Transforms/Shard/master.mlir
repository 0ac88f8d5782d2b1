// Masters: the optimizer's copy of parameters that have a narrower type.
// DEFINE: %{shard} = fcdp-opt %s --fcdp-shard="nodes=2 ranks-per-node=2 optimizer=adamw"
// RUN: %{shard} --fcdp-bucket="master=f32" -o %t.once
// RUN: FileCheck %s < %t.once
// RUN: %{shard} --fcdp-bucket="master=f32 sharding=node" | FileCheck %s --check-prefix=NODE
// RUN: %{shard} --fcdp-bucket="master=f32 bucket-bytes=65536" | FileCheck %s --check-prefix=MERGED
// RUN: fcdp-opt %t.once --fcdp-bucket="master=f32" | diff %t.once -
// RUN: %{shard} --fcdp-bucket="master=model" | FileCheck %s --check-prefix=MODEL
// RUN: %{shard} --fcdp-bucket | FileCheck %s --check-prefix=MODEL
// RUN: not %{shard} --fcdp-bucket="master=bf16" 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// The shard and what is gathered and reduced keep their types.
// CHECK: fcdp.bucket @bucket.a unit "a" elements 128 storage bf16 wire bf16 master f32 trainable members [@a.weight at 0]
// CHECK-DAG: fcdp.state @bucket.a.shard shard of @bucket.a in device : tensor<32xbf16>
// CHECK-DAG: fcdp.state @bucket.a.grad grad of @bucket.a in device : tensor<32xf32>
// CHECK-DAG: fcdp.state @bucket.a.master master of @bucket.a in device : tensor<32xf32>
// CHECK-DAG: fcdp.state @bucket.a.exp_avg exp_avg of @bucket.a in device : tensor<32xf32>
// CHECK-DAG: fcdp.state @bucket.a.exp_avg_sq exp_avg_sq of @bucket.a in device : tensor<32xf32>
// CHECK: fcdp.bucket @bucket.b unit "b" elements 128 storage f16 wire f16 master f32 trainable

// DontFrozen: no optimizer updates it.
// CHECK: fcdp.bucket @bucket.a.frozen unit "a" elements 128 storage bf16 wire bf16 members
// CHECK-NEXT: fcdp.state @bucket.a.frozen.shard

// DontWide: the optimizer works on the shard, which is in f32.
// CHECK: fcdp.bucket @bucket.c unit "c" elements 64 storage f32 wire f32 trainable members
// CHECK-NOT: master
// CHECK: func.func @init
// CHECK: fcdp.all_gather %{{.*}} of @bucket.a over {{.*}} : tensor<32xbf16> to tensor<128xbf16>
// CHECK: fcdp.reduce_scatter %{{.*}} of @bucket.a over {{.*}} : tensor<128xbf16> to tensor<32xf32>

// Masters are sharded as the shard is.
// NODE: fcdp.state @bucket.a.master master of @bucket.a in device : tensor<64xf32>

// MERGED: fcdp.bucket @bucket.{{.*}} master f32 trainable

// MODEL-NOT: master
// MODEL: fcdp.state @bucket.a.exp_avg exp_avg of @bucket.a in device : tensor<32xbf16>
// MODEL-NOT: master

// UNKNOWN: error: master: expected 'model' or 'f32', got 'bf16'
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @a.weight : tensor<20xbf16> unit "a" trainable names ["a.weight"]
  fcdp.parameter @b : tensor<20xf16> unit "b" trainable names ["b"]
  fcdp.parameter @a.frozen : tensor<20xbf16> unit "a" names ["a.frozen"]
  fcdp.parameter @c : tensor<20xf32> unit "c" trainable names ["c"]
  func.func @step() {
    %a = fcdp.read_parameter @a.weight : tensor<20xbf16>
    %f = fcdp.read_parameter @a.frozen : tensor<20xbf16>
    %b = fcdp.read_parameter @b : tensor<20xf16>
    %c = fcdp.read_parameter @c : tensor<20xf32>
    %0 = aten.call "aten.mul.Tensor"(self = %a, other = %f) : (tensor<20xbf16>, tensor<20xbf16>) -> tensor<20xbf16>
    %1 = aten.call "aten.mul.Tensor"(self = %b, other = %b) : (tensor<20xf16>, tensor<20xf16>) -> tensor<20xf16>
    %2 = aten.call "aten.mul.Tensor"(self = %c, other = %c) : (tensor<20xf32>, tensor<20xf32>) -> tensor<20xf32>
    %3 = aten.call "aten.sum.default"(self = %2) : (tensor<20xf32>) -> tensor<f32>
    fcdp.loss %3 : tensor<f32>
    fcdp.gradient %0 of @a.weight : tensor<20xbf16>
    fcdp.gradient %1 of @b : tensor<20xf16>
    fcdp.gradient %2 of @c : tensor<20xf32>
    return
  }
}
