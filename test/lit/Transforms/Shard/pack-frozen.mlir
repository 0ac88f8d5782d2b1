// Frozen matrices become packed bytes, which are unpacked right before each product.
// RUN: split-file %s %t
// RUN: fcdp-opt %t/lora.mlir --fcdp-pack-frozen=frozen=nf4 --remarks-filter=fcdp-pack-frozen --remark-format=emitRemark -o %t/packed.mlir 2> %t/remarks.txt
// RUN: FileCheck %s --input-file=%t/packed.mlir

// CHECK: fcdp.frozen = "nf4"
// CHECK: fcdp.parameter @base : tensor<2304xui8> unit "base" names ["base"] packed <packing = nf4, whole = tensor<64x64xf32>>
// CHECK: fcdp.parameter @lora : tensor<64x64xf32>
// The head, the embedding, the tied and the unused matrix, and one that a sum reads stay whole.
// CHECK: fcdp.parameter @head : tensor<8x64xf32>
// CHECK: fcdp.parameter @table : tensor<8x64xf32>
// CHECK: fcdp.parameter @tied : tensor<64x64xf32>
// CHECK: fcdp.parameter @unused : tensor<64x64xf32>
// CHECK: fcdp.parameter @shared : tensor<64x64xf32>
// CHECK: fcdp.parameter @scale : tensor<64xf32>
// The forward pass.
// CHECK-LABEL: func.func @step
// CHECK: %[[P:.*]] = fcdp.read_parameter @base : tensor<2304xui8>
// CHECK-NEXT: %[[W:.*]] = aten.call "fcdp.unpack_nf4.default"(packed = %[[P]], size = [64, 64], dtype = f32) : (tensor<2304xui8>) -> tensor<64x64xf32>
// CHECK-NEXT: %[[T:.*]] = aten.call "aten.t.default"(self = %[[W]])
// CHECK-NEXT: aten.call "aten.mm.default"({{.*}}, mat2 = %[[T]])
// The backward pass unpacks it again, in a repeated call.
// CHECK: fcdp.loss
// CHECK: %[[Q:.*]] = fcdp.read_parameter @base : tensor<2304xui8>
// CHECK-NEXT: %[[V:.*]] = aten.call "fcdp.unpack_nf4.default"(packed = %[[Q]], size = [64, 64], dtype = f32) {fcdp.repeated}
// CHECK-NEXT: %[[VT:.*]] = aten.call "aten.t.default"(self = %[[V]])
// CHECK-NEXT: %[[VTT:.*]] = aten.call "aten.t.default"(self = %[[VT]])
// CHECK-NEXT: aten.call "aten.mm.default"({{.*}}, mat2 = %[[VTT]])
// An evaluation unpacks for itself.
// CHECK-LABEL: func.func @evaluate
// CHECK: aten.call "fcdp.unpack_nf4.default"
// CHECK-NOT: fcdp.unpack_nf4

// RUN: FileCheck %s --input-file=%t/remarks.txt --check-prefix=REMARKS
// REMARKS-DAG: frozen: 'head' stays whole: it is an output head, which 'pack=' includes
// REMARKS-DAG: frozen: 'table' stays whole: 'aten.embedding.default' reads it, which is no product of matrices
// REMARKS-DAG: frozen: 'tied' stays whole: it is tied to another parameter
// REMARKS-DAG: frozen: 'unused' stays whole: nothing reads it
// REMARKS-DAG: frozen: 'shared' stays whole: 'aten.add.Tensor' reads it, which is no product of matrices
// REMARKS-DAG: frozen: 1 of 6 frozen matrices are packed as nf4, 2.3 kB instead of 16.4 kB

// Running it again changes nothing. By default, it does nothing.
// RUN: fcdp-opt %t/packed.mlir --fcdp-pack-frozen=frozen=int8 | diff %t/packed.mlir -
// RUN: fcdp-opt %t/lora.mlir -o %t/plain.mlir
// RUN: fcdp-opt %t/lora.mlir --fcdp-pack-frozen | diff %t/plain.mlir -

// Patterns keep a matrix whole and pack a head, with a scale for each row.
// RUN: fcdp-opt %t/lora.mlir --fcdp-pack-frozen=frozen=int8,keep=ba*,pack=head | FileCheck %s --check-prefix=NAMES
// NAMES: fcdp.parameter @base : tensor<64x64xf32>
// NAMES: fcdp.parameter @head : tensor<544xui8> unit "head" names ["head"] packed <packing = int8, whole = tensor<8x64xf32>>
// NAMES: aten.call "fcdp.unpack_int8.default"

// A packed head is still one, so that Muon updates the matrix before it.
// RUN: fcdp-opt %t/lora.mlir --fcdp-pack-frozen=frozen=int8,pack=head --fcdp-shard="optimizer=muon,lr=2e-2+adamw" | FileCheck %s --check-prefix=MUON
// MUON: fcdp.shard_update @lora {{.*}}with #fcdp.muon

// A cast from f32 is dropped, because the matrix is rounded once in either case. A wider cast is not. The forward pass
// of a matrix that is not transposed is noted.
// RUN: fcdp-opt %t/casts.mlir --fcdp-pack-frozen=frozen=nf4 | FileCheck %s --check-prefix=CASTS
// CASTS: fcdp.parameter @narrowed : {{.*}} packed <packing = nf4, whole = tensor<64x64xf32>>
// CASTS: fcdp.parameter @widened : {{.*}} packed <packing = nf4, whole = tensor<64x64xbf16>, transposed = true>
// CASTS: %[[N:.*]] = aten.call "fcdp.unpack_nf4.default"({{.*}}, dtype = bf16)
// CASTS-NEXT: %[[NT:.*]] = aten.call "aten.t.default"(self = %[[N]]) : (tensor<64x64xbf16>) -> tensor<64x64xbf16>
// CASTS-NEXT: aten.call "aten.addmm.default"(self = {{.*}}, mat1 = {{.*}}, mat2 = %[[NT]])
// CASTS: %[[B:.*]] = aten.call "fcdp.unpack_nf4.default"({{.*}}, dtype = bf16)
// CASTS-NEXT: aten.call "aten._to_copy.default"(self = %[[B]], dtype = f32)

// The whole pipeline has its proofs. Shards, the host cache and gathers have bytes.
// RUN: fcdp-opt %t/lora.mlir --fcdp-pipeline="nodes=2 ranks-per-node=2 micro-batches=2 strategy=fcdp frozen=nf4" | FileCheck %s --check-prefix=PLAN
// PLAN: fcdp.bucket @bucket.base.packed unit "base" elements 2304 storage ui8 wire ui8 residency host members [@base at 0]
// PLAN: fcdp.state @bucket.base.packed.cache cache of @bucket.base.packed in host : tensor<1152xui8>
// PLAN: fcdp.state @bucket.base.packed.shard shard of @bucket.base.packed in device : tensor<576xui8>
// PLAN-LABEL: func.func @next_microbatch
// PLAN: fcdp.cache_load @bucket.base.packed.cache
// PLAN: fcdp.all_gather {{.*}} of @bucket.base.packed over @world[local] {{.*}} : tensor<1152xui8> to tensor<2304xui8>

// RUN: not fcdp-opt %t/lora.mlir --fcdp-pack-frozen=frozen=fp4 2>&1 | FileCheck %s --check-prefix=KIND
// KIND: error: frozen: expected 'off', 'nf4' or 'int8', got 'fp4'
// RUN: not fcdp-opt %t/lora.mlir --fcdp-pack-frozen=frozen=nf4,skip=x 2>&1 | FileCheck %s --check-prefix=SETTING
// SETTING: error: frozen: expected 'keep=PATTERN' or 'pack=PATTERN', got 'skip=x'
// RUN: not fcdp-opt %t/lora.mlir --fcdp-pack-frozen=frozen=nf4,keep=other 2>&1 | FileCheck %s --check-prefix=PATTERN
// PATTERN: error: frozen: expected a pattern that matches the name of a frozen matrix, got 'other'
// RUN: not fcdp-opt %t/lora.mlir --fcdp-pack-frozen=frozen=nf4,pack=table 2>&1 | FileCheck %s --check-prefix=TABLE
// TABLE: error: frozen: cannot pack it as 'pack' asks: 'aten.embedding.default' reads it
// RUN: not fcdp-opt %t/lora.mlir --fcdp-pack-frozen=frozen=nf4,keep=base 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: error: frozen: expected a frozen matrix that only products of matrices read, got none; 'base' stays whole: 'keep=' excludes it
// RUN: sed 's/fcdp.phase = /fcdp.target = "cuda", fcdp.phase = /' %t/lora.mlir > %t/cuda.mlir
// RUN: fcdp-opt %t/cuda.mlir --fcdp-pack-frozen=frozen=nf4 | FileCheck %s --check-prefix=CUDA
// CUDA: aten.call "fcdp.unpack_nf4.default"

//--- lora.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.input @x : tensor<64x64xf32> name "x"
  fcdp.input @ids : tensor<64xi64> name "ids" limit 8
  fcdp.input @held_out : tensor<64x64xf32> name "x" evaluation
  fcdp.parameter @base : tensor<64x64xf32> unit "base" names ["base"]
  fcdp.parameter @lora : tensor<64x64xf32> unit "base" trainable names ["lora"]
  fcdp.parameter @head : tensor<8x64xf32> unit "head" names ["head"]
  fcdp.parameter @table : tensor<8x64xf32> unit "table" names ["table"]
  fcdp.parameter @tied : tensor<64x64xf32> unit "base" names ["tied", "too"]
  fcdp.parameter @unused : tensor<64x64xf32> unit "base" names ["unused"]
  fcdp.parameter @shared : tensor<64x64xf32> unit "base" names ["shared"]
  fcdp.parameter @scale : tensor<64xf32> unit "base" names ["scale"]
  func.func @step() {
    %in = fcdp.read_input @x : tensor<64x64xf32>
    %ids = fcdp.read_input @ids : tensor<64xi64>
    %w = fcdp.read_parameter @base : tensor<64x64xf32>
    %a = fcdp.read_parameter @lora : tensor<64x64xf32>
    %h = fcdp.read_parameter @head : tensor<8x64xf32>
    %e = fcdp.read_parameter @table : tensor<8x64xf32>
    %k = fcdp.read_parameter @tied : tensor<64x64xf32>
    %s = fcdp.read_parameter @shared : tensor<64x64xf32>
    %row = aten.call "aten.embedding.default"(weight = %e, indices = %ids) : (tensor<8x64xf32>, tensor<64xi64>) -> tensor<64x64xf32>
    %x0 = aten.call "aten.add.Tensor"(self = %in, other = %row) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %x1 = aten.call "aten.mm.default"(self = %x0, mat2 = %k) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %x2 = aten.call "aten.mm.default"(self = %x1, mat2 = %s) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %x = aten.call "aten.add.Tensor"(self = %x2, other = %s) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %at = aten.call "aten.t.default"(self = %a) : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %y0 = aten.call "aten.mm.default"(self = %x, mat2 = %at) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %t = aten.call "aten.t.default"(self = %w) : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %y = aten.call "aten.mm.default"(self = %y0, mat2 = %t) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %ht = aten.call "aten.t.default"(self = %h) : (tensor<8x64xf32>) -> tensor<64x8xf32>
    %z = aten.call "aten.mm.default"(self = %y, mat2 = %ht) : (tensor<64x64xf32>, tensor<64x8xf32>) -> tensor<64x8xf32>
    %l = aten.call "aten.sum.default"(self = %z) : (tensor<64x8xf32>) -> tensor<f32>
    fcdp.loss %l : tensor<f32>
    %g = aten.call "aten.ones_like.default"(self = %z) : (tensor<64x8xf32>) -> tensor<64x8xf32>
    %dy = aten.call "aten.mm.default"(self = %g, mat2 = %h) : (tensor<64x8xf32>, tensor<8x64xf32>) -> tensor<64x64xf32>
    %tt = aten.call "aten.t.default"(self = %t) : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %dx = aten.call "aten.mm.default"(self = %dy, mat2 = %tt) {fcdp.repeated} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %dt = aten.call "aten.t.default"(self = %dx) : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %da = aten.call "aten.mm.default"(self = %dt, mat2 = %x) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    fcdp.gradient %da of @lora : tensor<64x64xf32>
    return
  }
  func.func @evaluate() {
    %x = fcdp.read_input @held_out : tensor<64x64xf32>
    %w = fcdp.read_parameter @base : tensor<64x64xf32>
    %h = fcdp.read_parameter @head : tensor<8x64xf32>
    %y = aten.call "aten.linear.default"(input = %x, weight = %w) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %ht = aten.call "aten.t.default"(self = %h) : (tensor<8x64xf32>) -> tensor<64x8xf32>
    %z = aten.call "aten.mm.default"(self = %y, mat2 = %ht) : (tensor<64x64xf32>, tensor<64x8xf32>) -> tensor<64x8xf32>
    %l = aten.call "aten.sum.default"(self = %z) : (tensor<64x8xf32>) -> tensor<f32>
    fcdp.loss %l : tensor<f32>
    return
  }
}

//--- casts.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.input @x : tensor<4x64xbf16> name "x"
  fcdp.parameter @narrowed : tensor<64x64xf32> unit "a" names ["narrowed"]
  fcdp.parameter @widened : tensor<64x64xbf16> unit "b" names ["widened"]
  fcdp.parameter @head : tensor<64x64xf32> unit "c" trainable names ["head"]
  func.func @step() {
    %x = fcdp.read_input @x : tensor<4x64xbf16>
    %n = fcdp.read_parameter @narrowed : tensor<64x64xf32>
    %w = fcdp.read_parameter @widened : tensor<64x64xbf16>
    %h = fcdp.read_parameter @head : tensor<64x64xf32>
    %t = aten.call "aten.t.default"(self = %n) : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %c = aten.call "aten._to_copy.default"(self = %t, dtype = bf16) : (tensor<64x64xf32>) -> tensor<64x64xbf16>
    %y = aten.call "aten.addmm.default"(self = %x, mat1 = %x, mat2 = %c) : (tensor<4x64xbf16>, tensor<4x64xbf16>, tensor<64x64xbf16>) -> tensor<4x64xbf16>
    %f = aten.call "aten._to_copy.default"(self = %y, dtype = f32) : (tensor<4x64xbf16>) -> tensor<4x64xf32>
    %wf = aten.call "aten._to_copy.default"(self = %w, dtype = f32) : (tensor<64x64xbf16>) -> tensor<64x64xf32>
    %z = aten.call "aten.mm.default"(self = %f, mat2 = %wf) : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
    %o = aten.call "aten.mm.default"(self = %z, mat2 = %h) : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
    %l = aten.call "aten.sum.default"(self = %o) : (tensor<4x64xf32>) -> tensor<f32>
    fcdp.loss %l : tensor<f32>
    return
  }
}
