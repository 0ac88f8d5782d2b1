// The type in which gradients are reduced.
// DEFINE: %{shard} = fcdp-opt %s --fcdp-shard="nodes=2 ranks-per-node=2 optimizer=sgd"
// RUN: %{shard} --fcdp-bucket="reduce-dtype=f32" -o %t.f32
// RUN: FileCheck %s --check-prefix=F32 < %t.f32
// RUN: fcdp-opt %t.f32 --fcdp-bucket="reduce-dtype=f32" | diff %t.f32 -
// RUN: %{shard} --fcdp-bucket="reduce-dtype=bf16" | FileCheck %s --check-prefix=BF16
// RUN: %{shard} --fcdp-bucket="reduce-dtype=bf16 bucket-bytes=65536" | FileCheck %s --check-prefix=MERGED
// RUN: %{shard} --fcdp-bucket="reduce-dtype=bf16" --fcdp-two-level | FileCheck %s --check-prefix=LEVELS
// RUN: %{shard} --fcdp-bucket -o %t.model
// RUN: FileCheck %s --check-prefix=MODEL < %t.model
// RUN: %{shard} --fcdp-bucket="reduce-dtype=model" | diff %t.model -
// RUN: not %{shard} --fcdp-bucket="reduce-dtype=f64" 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// The pack converts. Gradients in f32 need no `reduce`.
// F32: fcdp.bucket @bucket.a unit "a" elements 128 storage bf16 wire bf16 reduce f32 trainable members [@a.weight at 0]
// F32: fcdp.bucket @bucket.b unit "b" elements 64 storage f32 wire f32 trainable members
// DontFrozen: nothing of it is reduced.
// F32: fcdp.bucket @bucket.a.frozen unit "a" elements 128 storage bf16 wire bf16 members
// F32: func.func @only_microbatch
// F32: %[[A:.*]] = fcdp.pack @bucket.a(%{{.*}} as @a.weight) : (tensor<20xbf16>) -> tensor<128xf32>
// F32: fcdp.reduce_scatter %[[A]] of @bucket.a over {{.*}} : tensor<128xf32> to tensor<32xf32>

// BF16: fcdp.bucket @bucket.b unit "b" elements 64 storage f32 wire f32 reduce bf16 trainable members [@b at 0]
// BF16: fcdp.bucket @bucket.c unit "c" elements 64 storage f32 wire f32 reduce bf16 trainable members [@c at 0, @d at 32]
// BF16: func.func @only_microbatch
// BF16: %[[NARROW:.*]] = aten.call "aten.mul.Tensor"{{.*}} -> tensor<20xbf16>
// The gradient of @b is packed before it is widened, and nothing widens it.
// BF16-NOT: aten._to_copy
// BF16: fcdp.pack @bucket.b(%{{.*}} as @b) : (tensor<20xbf16>) -> tensor<64xbf16>
// Something else reads the wide gradient of @d, so it stays.
// BF16: aten._to_copy
// BF16: fcdp.pack @bucket.c(%{{.*}} as @c, %{{.*}} as @d) : (tensor<20xf32>, tensor<20xbf16>) -> tensor<64xbf16>

// MERGED: fcdp.bucket @bucket.b..c unit "b..c" {{.*}} reduce bf16 trainable
// MERGED: fcdp.pack @bucket.b..c(%{{.*}} as @b, %{{.*}} as @c, %{{.*}} as @d)

// The type is that of the wire between nodes, too.
// LEVELS: fcdp.reduce_scatter %{{.*}} of @bucket.b over @world[local] : tensor<64xbf16> to tensor<32xbf16>
// LEVELS: fcdp.reduce_scatter %{{.*}} of @bucket.b over @world[node] : tensor<32xbf16> to tensor<16xf32>

// MODEL-NOT: reduce bf16
// MODEL-NOT: reduce f32
// MODEL: fcdp.pack @bucket.a(%{{.*}} as @a.weight) : (tensor<20xbf16>) -> tensor<128xbf16>
// MODEL: fcdp.pack @bucket.b(%{{.*}} as @b) : (tensor<20xf32>) -> tensor<64xf32>

// UNKNOWN: error: reduce-dtype: expected 'model', 'f32', 'bf16' or 'f16', got 'f64'
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @a.weight : tensor<20xbf16> unit "a" trainable names ["a.weight"]
  fcdp.parameter @b : tensor<20xf32> unit "b" trainable names ["b"]
  fcdp.parameter @a.frozen : tensor<20xbf16> unit "a" names ["a.frozen"]
  fcdp.parameter @c : tensor<20xf32> unit "c" trainable names ["c"]
  fcdp.parameter @d : tensor<20xf32> unit "c" trainable names ["d"]
  func.func @step() {
    %a = fcdp.read_parameter @a.weight : tensor<20xbf16>
    %f = fcdp.read_parameter @a.frozen : tensor<20xbf16>
    %b = fcdp.read_parameter @b : tensor<20xf32>
    %c = fcdp.read_parameter @c : tensor<20xf32>
    %d = fcdp.read_parameter @d : tensor<20xf32>
    %0 = aten.call "aten.mul.Tensor"(self = %a, other = %f) : (tensor<20xbf16>, tensor<20xbf16>) -> tensor<20xbf16>
    %1 = aten.call "aten.mul.Tensor"(self = %0, other = %0) : (tensor<20xbf16>, tensor<20xbf16>) -> tensor<20xbf16>
    %wide = aten.call "aten._to_copy.default"(self = %1, dtype = f32) : (tensor<20xbf16>) -> tensor<20xf32>
    %2 = aten.call "aten.mul.Tensor"(self = %c, other = %b) : (tensor<20xf32>, tensor<20xf32>) -> tensor<20xf32>
    %3 = aten.call "aten.mul.Tensor"(self = %2, other = %d) : (tensor<20xf32>, tensor<20xf32>) -> tensor<20xf32>
    %4 = aten.call "aten.mul.Tensor"(self = %1, other = %1) : (tensor<20xbf16>, tensor<20xbf16>) -> tensor<20xbf16>
    %shared = aten.call "aten._to_copy.default"(self = %4, dtype = f32) : (tensor<20xbf16>) -> tensor<20xf32>
    %5 = aten.call "aten.sum.default"(self = %shared) : (tensor<20xf32>) -> tensor<f32>
    fcdp.loss %5 : tensor<f32>
    fcdp.gradient %0 of @a.weight : tensor<20xbf16>
    fcdp.gradient %wide of @b : tensor<20xf32>
    fcdp.gradient %3 of @c : tensor<20xf32>
    fcdp.gradient %shared of @d : tensor<20xf32>
    return
  }
}
