// RUN: split-file %s %t
// RUN: fcdp-opt %t/adapters.mlir --fcdp-shard="nodes=2 ranks-per-node=2" --fcdp-bucket="bucket-bytes=128" -o %t/merged.mlir
// RUN: FileCheck %s --input-file=%t/merged.mlir
// A remark reports it.
// RUN: fcdp-opt %t/adapters.mlir --fcdp-shard="nodes=2 ranks-per-node=2" --fcdp-bucket="bucket-bytes=128" --remarks-filter="fcdp-.*" --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK
// REMARK: remark: {{.*}}merged {{[0-9]+}} buckets into {{[0-9]+}} of up to 128 B
// It does not if nothing was merged.
// RUN: fcdp-opt %t/adapters.mlir --fcdp-shard="nodes=2 ranks-per-node=2" --fcdp-bucket --remarks-filter="fcdp-.*" --remark-format=emitRemark -o /dev/null 2>&1 | count 0
// Twice is once, whatever the options.
// RUN: fcdp-opt %t/merged.mlir --fcdp-bucket -o %t/twice.mlir && diff %t/merged.mlir %t/twice.mlir
// Two adapters take more than this.
// RUN: fcdp-opt %t/adapters.mlir --fcdp-shard="nodes=2 ranks-per-node=2" --fcdp-bucket="bucket-bytes=64" | FileCheck %s --check-prefix=SMALL

// Adapters of two layers are one bucket, in the order of the parameters; the
// frozen ones, the head and the last norm are too large for it or of another
// kind. The merged bucket is gathered once in the forward and once in the
// backward pass, though other buckets are used in between.
// CHECK: module attributes {fcdp.bucket_bytes = 128 : i64,
// CHECK: fcdp.bucket @bucket.a.frozen unit "a" elements 256 storage f32 wire f32 members [@a.base at 0]
// CHECK: fcdp.bucket @bucket.a..b unit "a..b" elements 64 storage f32 wire f32 trainable members [@a.lora at 0, @b.lora at 16]
// CHECK: fcdp.bucket @bucket.b.frozen unit "b"
// CHECK: fcdp.bucket @bucket.head unit "head" elements 256
// CHECK: fcdp.bucket @bucket.norm unit "norm" elements 64

// CHECK-LABEL: func.func @only_microbatch
// CHECK: fcdp.all_gather {{.*}} of @bucket.a.frozen {{.*}} range 0
// CHECK: fcdp.all_gather {{.*}} of @bucket.a..b {{.*}} range 0
// CHECK: fcdp.all_gather {{.*}} of @bucket.b.frozen {{.*}} range 0
// CHECK-NOT: fcdp.all_gather {{.*}} of @bucket.a..b
// CHECK: fcdp.all_gather {{.*}} of @bucket.head {{.*}} range 0
// CHECK-NOT: fcdp.all_gather {{.*}} of @bucket.a..b
// CHECK: fcdp.all_gather {{.*}} of @bucket.b.frozen {{.*}} range 1
// CHECK: fcdp.all_gather {{.*}} of @bucket.a..b {{.*}} range 1
// CHECK: fcdp.all_gather {{.*}} of @bucket.a.frozen {{.*}} range 1
// CHECK-NOT: fcdp.all_gather {{.*}} of @bucket.a..b
// CHECK: fcdp.pack @bucket.a..b(%{{.*}} as @b.lora, %{{.*}} as @a.lora)
// CHECK-LABEL: func.func @update
// CHECK: fcdp.shard_update @bucket.a..b
// CHECK-NOT: fcdp.shard_update @bucket.a..b
// CHECK: fcdp.shard_update @bucket.head

// SMALL-NOT: fcdp.bucket_bytes = 128
// SMALL-NOT: unit "a..b"
// SMALL: fcdp.bucket @bucket.a unit "a"
// SMALL: fcdp.bucket @bucket.b unit "b"

// No use is between the forward and the backward pass: one range.
// RUN: fcdp-opt %t/touching.mlir --fcdp-shard="nodes=2 ranks-per-node=2" --fcdp-bucket="bucket-bytes=128" | FileCheck %s --check-prefix=ONCE
// ONCE-LABEL: func.func @only_microbatch
// ONCE: fcdp.all_gather {{.*}} of @bucket.root..b {{.*}} range 0
// ONCE-NOT: fcdp.all_gather
// ONCE-LABEL: func.func @update

// @a is used again before @b is used first: its second range begins in the first
// of the two together, so that they are one. @x, a unit of its own, is not.
// RUN: fcdp-opt %t/overlap.mlir --fcdp-shard="nodes=2 ranks-per-node=2" --fcdp-bucket="bucket-bytes=128" | FileCheck %s --check-prefix=OVERLAP
// OVERLAP-LABEL: func.func @only_microbatch
// OVERLAP: fcdp.all_gather {{.*}} of @bucket.a..b {{.*}} range 0
// OVERLAP: fcdp.all_gather {{.*}} of @bucket.x.frozen {{.*}} range 0
// OVERLAP: fcdp.all_gather {{.*}} of @bucket.x.frozen {{.*}} range 1
// OVERLAP-NOT: fcdp.all_gather
// OVERLAP-LABEL: func.func @update

// Parameters of another wire type, gradient type or storage stay apart, as do
// parameters that follow a bucket that is too large.
// RUN: fcdp-opt %t/kinds.mlir --fcdp-shard="nodes=2 ranks-per-node=2" --fcdp-narrow-gathers --fcdp-bucket="bucket-bytes=128" | FileCheck %s --check-prefix=KINDS
// KINDS: fcdp.bucket @bucket.a unit "a" {{.*}} wire f32
// KINDS: fcdp.bucket @bucket.b.bf16 unit "b" {{.*}} wire bf16
// KINDS: fcdp.bucket @bucket.c unit "c" {{.*}} storage bf16
// KINDS: fcdp.bucket @bucket.d unit "d" {{.*}} wire f32
// KINDS: fcdp.bucket @bucket.e unit "e" elements 128
// KINDS: fcdp.bucket @bucket.f unit "f"
// KINDS: fcdp.bucket @bucket.g.unused unit "g"
// KINDS: func.func @init

// RUN: not fcdp-opt %t/merged.mlir --fcdp-bucket=layout=rows 2>&1 | FileCheck %s --check-prefix=LAYOUT
// RUN: not fcdp-opt %t/adapters.mlir --fcdp-shard --fcdp-bucket=bucket-bytes=-1 2>&1 | FileCheck %s --check-prefix=LIMIT
// LAYOUT: error: layout: expected 'flat', 'ragged<N>' with a positive number of rows N or 'owned', got 'rows'
// LIMIT: error: bucket-bytes: expected 0 or more, got '-1'

//--- adapters.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @a.base : tensor<256xf32> unit "a" names ["a.base"]
  fcdp.parameter @a.lora : tensor<16xf32> unit "a" trainable names ["a.lora"]
  fcdp.parameter @b.base : tensor<256xf32> unit "b" names ["b.base"]
  fcdp.parameter @b.lora : tensor<16xf32> unit "b" trainable names ["b.lora"]
  fcdp.parameter @head : tensor<256xf32> unit "head" trainable names ["head"]
  fcdp.parameter @norm : tensor<16xf32> unit "norm" trainable names ["norm"]
  fcdp.input @x : tensor<16xf32> name "x"
  func.func @step() {
    %ab = fcdp.read_parameter @a.base : tensor<256xf32>
    %al = fcdp.read_parameter @a.lora : tensor<16xf32>
    %bb = fcdp.read_parameter @b.base : tensor<256xf32>
    %bl = fcdp.read_parameter @b.lora : tensor<16xf32>
    %h = fcdp.read_parameter @head : tensor<256xf32>
    %n = fcdp.read_parameter @norm : tensor<16xf32>
    %x = fcdp.read_input @x : tensor<16xf32>
    %0 = aten.call "aten.neg.default"(self = %ab) : (tensor<256xf32>) -> tensor<256xf32>
    %1 = aten.call "aten.mul.Tensor"(self = %x, other = %al) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
    %2 = aten.call "aten.mul.Tensor"(self = %0, other = %bb) : (tensor<256xf32>, tensor<256xf32>) -> tensor<256xf32>
    %3 = aten.call "aten.mul.Tensor"(self = %1, other = %bl) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
    %4 = aten.call "aten.mul.Tensor"(self = %2, other = %h) : (tensor<256xf32>, tensor<256xf32>) -> tensor<256xf32>
    %5 = aten.call "aten.mul.Tensor"(self = %3, other = %n) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
    %l = aten.call "aten.sum.default"(self = %5) : (tensor<16xf32>) -> tensor<f32>
    %6 = aten.call "aten.mul.Tensor"(self = %4, other = %bb) : (tensor<256xf32>, tensor<256xf32>) -> tensor<256xf32>
    %7 = aten.call "aten.mul.Tensor"(self = %5, other = %bl) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
    %8 = aten.call "aten.mul.Tensor"(self = %6, other = %ab) : (tensor<256xf32>, tensor<256xf32>) -> tensor<256xf32>
    %9 = aten.call "aten.mul.Tensor"(self = %7, other = %al) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
    fcdp.loss %l : tensor<f32>
    fcdp.gradient %9 of @a.lora : tensor<16xf32>
    fcdp.gradient %7 of @b.lora : tensor<16xf32>
    fcdp.gradient %8 of @head : tensor<256xf32>
    fcdp.gradient %5 of @norm : tensor<16xf32>
    return
  }
}

//--- touching.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @a : tensor<16xf32> unit "" trainable names ["a"]
  fcdp.parameter @b : tensor<16xf32> unit "b" trainable names ["b"]
  func.func @step() {
    %a = fcdp.read_parameter @a : tensor<16xf32>
    %b = fcdp.read_parameter @b : tensor<16xf32>
    %0 = aten.call "aten.neg.default"(self = %a) : (tensor<16xf32>) -> tensor<16xf32>
    %1 = aten.call "aten.mul.Tensor"(self = %0, other = %b) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
    %l = aten.call "aten.sum.default"(self = %1) : (tensor<16xf32>) -> tensor<f32>
    %2 = aten.call "aten.mul.Tensor"(self = %1, other = %b) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
    %3 = aten.call "aten.mul.Tensor"(self = %2, other = %a) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
    fcdp.loss %l : tensor<f32>
    fcdp.gradient %3 of @a : tensor<16xf32>
    fcdp.gradient %2 of @b : tensor<16xf32>
    return
  }
}

//--- overlap.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @a : tensor<16xf32> unit "a" trainable names ["a"]
  fcdp.parameter @b : tensor<16xf32> unit "b" trainable names ["b"]
  fcdp.parameter @x : tensor<16xf32> unit "x" names ["x"]
  func.func @step() {
    %a = fcdp.read_parameter @a : tensor<16xf32>
    %b = fcdp.read_parameter @b : tensor<16xf32>
    %x = fcdp.read_parameter @x : tensor<16xf32>
    %0 = aten.call "aten.neg.default"(self = %a) : (tensor<16xf32>) -> tensor<16xf32>
    %1 = aten.call "aten.mul.Tensor"(self = %0, other = %x) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
    %2 = aten.call "aten.mul.Tensor"(self = %1, other = %a) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
    %3 = aten.call "aten.mul.Tensor"(self = %2, other = %b) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
    %4 = aten.call "aten.mul.Tensor"(self = %3, other = %x) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
    %5 = aten.call "aten.mul.Tensor"(self = %4, other = %b) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
    %l = aten.call "aten.sum.default"(self = %5) : (tensor<16xf32>) -> tensor<f32>
    fcdp.loss %l : tensor<f32>
    fcdp.gradient %5 of @a : tensor<16xf32>
    fcdp.gradient %5 of @b : tensor<16xf32>
    return
  }
}

//--- kinds.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @a : tensor<16xf32> unit "a" trainable names ["a"]
  fcdp.parameter @b : tensor<16xf32> unit "b" trainable names ["b"]
  fcdp.parameter @c : tensor<16xbf16> unit "c" trainable names ["c"]
  fcdp.parameter @d : tensor<16xf32> unit "d" trainable names ["d"]
  fcdp.parameter @e : tensor<128xf32> unit "e" trainable names ["e"]
  fcdp.parameter @f : tensor<16xf32> unit "f" trainable names ["f"]
  fcdp.parameter @g : tensor<16xf32> unit "g" names ["g"]
  func.func @step() {
    %a = fcdp.read_parameter @a : tensor<16xf32>
    %b = fcdp.read_parameter @b : tensor<16xf32>
    %c = fcdp.read_parameter @c : tensor<16xbf16>
    %d = fcdp.read_parameter @d : tensor<16xf32>
    %e = fcdp.read_parameter @e : tensor<128xf32>
    %f = fcdp.read_parameter @f : tensor<16xf32>
    %0 = aten.call "aten._to_copy.default"(self = %b, dtype = bf16) : (tensor<16xf32>) -> tensor<16xbf16>
    %1 = aten.call "aten.mul.Tensor"(self = %0, other = %c) : (tensor<16xbf16>, tensor<16xbf16>) -> tensor<16xbf16>
    %2 = aten.call "aten.mul.Tensor"(self = %a, other = %d) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
    %3 = aten.call "aten.mul.Tensor"(self = %2, other = %f) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
    %4 = aten.call "aten.neg.default"(self = %e) : (tensor<128xf32>) -> tensor<128xf32>
    %l = aten.call "aten.sum.default"(self = %3) : (tensor<16xf32>) -> tensor<f32>
    fcdp.loss %l : tensor<f32>
    fcdp.gradient %3 of @a : tensor<16xf32>
    fcdp.gradient %3 of @b : tensor<16xf32>
    fcdp.gradient %1 of @c : tensor<16xbf16>
    fcdp.gradient %1 of @d : tensor<16xbf16>
    fcdp.gradient %4 of @e : tensor<128xf32>
    fcdp.gradient %3 of @f : tensor<16xf32>
    return
  }
}
