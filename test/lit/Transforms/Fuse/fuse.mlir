// Pointwise operators become kernels that round where the operators round.
// RUN: split-file %s %t
// RUN: fcdp-opt %t/swiglu.mlir --fcdp-fuse=fuse=exact --remarks-filter=fcdp-fuse --remark-format=emitRemark -o %t/fused.mlir 2> %t/remarks.txt
// RUN: FileCheck %s --input-file=%t/fused.mlir
// RUN: FileCheck %s --input-file=%t/remarks.txt --check-prefix=REMARKS
// REMARKS: fuse: 6 pointwise operators became 3 calls of 2 kernels, which access 5.12 kB less

// CHECK: fcdp.fuse = "exact"
// Equal kernels are one.
// CHECK: fcdp.kernel @kernel.silu_mul maps [identity, identity] {
// CHECK-NEXT: ^bb0(%[[G:.*]]: bf16, %[[U:.*]]: bf16):
// CHECK-NEXT: %[[GF:.*]] = arith.extf %[[G]]
// CHECK: %[[E:.*]] = math.exp
// CHECK: %[[D:.*]] = arith.divf %[[GF]], %{{.*}} : f32
// CHECK-NEXT: %[[S:.*]] = arith.truncf %[[D]] : f32 to bf16
// CHECK-NEXT: %[[SF:.*]] = arith.extf %[[S]]
// CHECK-NEXT: %[[UF:.*]] = arith.extf %[[U]]
// CHECK-NEXT: %[[P:.*]] = arith.mulf %[[SF]], %[[UF]] : f32
// CHECK-NEXT: %[[Y:.*]] = arith.truncf %[[P]] : f32 to bf16
// CHECK-NEXT: fcdp.yield %[[S]], %[[Y]] : bf16, bf16
// CHECK: fcdp.kernel @kernel.mul_silu_backward maps [identity, identity, identity] {
// CHECK: math.fma
// CHECK-NOT: fcdp.kernel @
// CHECK-LABEL: func.func @step
// CHECK: aten.call "fcdp.kernel.silu_mul"(operands = [%{{.*}}, %{{.*}}]) : (tensor<8x64xbf16>, tensor<8x64xbf16>) -> (tensor<8x64xbf16>, tensor<8x64xbf16>)
// Four values would be in use at once, instead of three.
// CHECK-NEXT: aten.call "aten.silu.default"
// CHECK-NEXT: aten.call "aten.mul.Tensor"
// A result of one cluster is an operand of another.
// CHECK: %[[DG:.*]] = aten.call "fcdp.kernel.mul_silu_backward"
// CHECK: aten.call "fcdp.kernel.mul_silu_backward"(operands = [%[[DG]],
// CHECK-NOT: aten.silu

// Running it again changes nothing. By default, it does nothing.
// RUN: fcdp-opt %t/fused.mlir --fcdp-fuse=fuse=exact | diff %t/fused.mlir -
// RUN: fcdp-opt %t/swiglu.mlir -o %t/plain.mlir
// RUN: fcdp-opt %t/swiglu.mlir --fcdp-fuse | diff %t/plain.mlir -

// Rows and columns are read by maps. Columns of another width are left out.
// RUN: fcdp-opt %t/norm.mlir --fcdp-fuse=fuse=exact | FileCheck %s --check-prefix=NORM
// NORM: fcdp.kernel @kernel.mul_mul maps [identity, column, row] {
// NORM: func.func @step
// NORM: aten.call "fcdp.kernel.mul_mul"(operands = [%{{.*}}, %{{.*}}, %{{.*}}]) : (tensor<2x4x8xf32>, tensor<2x4x1xf32>, tensor<8xf32>) -> tensor<2x4x8xf32>
// NORM: aten.call "aten.mul.Tensor"{{.*}}tensor<2x1x1xf32>

// Nothing here becomes a kernel.
// RUN: fcdp-opt %t/kept.mlir --fcdp-fuse=fuse=exact | FileCheck %s --check-prefix=KEPT
// KEPT-NOT: fcdp.kernel

// RUN: not fcdp-opt %t/cuda.mlir --fcdp-fuse=fuse=exact 2>&1 | FileCheck %s --check-prefix=CUDA
// CUDA: error: fuse: expected a step for the target 'cpu', got 'cuda', for which kernels are not generated yet; use fuse=off
// RUN: not fcdp-opt %t/kept.mlir --fcdp-fuse=fuse=fast 2>&1 | FileCheck %s --check-prefix=MODE
// MODE: error: fuse: expected 'off' or 'exact', got 'fast'

//--- swiglu.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.input @x : tensor<8x64xbf16> name "x"
  fcdp.input @d : tensor<8x64xbf16> name "d"
  fcdp.input @w : tensor<64x64xbf16> name "w"
  func.func @step() {
    %x = fcdp.read_input @x : tensor<8x64xbf16>
    %d = fcdp.read_input @d : tensor<8x64xbf16>
    %w = fcdp.read_input @w : tensor<64x64xbf16>
    %g = aten.call "aten.mm.default"(self = %x, mat2 = %w) : (tensor<8x64xbf16>, tensor<64x64xbf16>) -> tensor<8x64xbf16>
    %s = aten.call "aten.silu.default"(self = %g) : (tensor<8x64xbf16>) -> tensor<8x64xbf16>
    %u = aten.call "aten.mm.default"(self = %x, mat2 = %w) : (tensor<8x64xbf16>, tensor<64x64xbf16>) -> tensor<8x64xbf16>
    %y = aten.call "aten.mul.Tensor"(self = %s, other = %u) : (tensor<8x64xbf16>, tensor<8x64xbf16>) -> tensor<8x64xbf16>
    %s1 = aten.call "aten.silu.default"(self = %u) : (tensor<8x64xbf16>) -> tensor<8x64xbf16>
    %y1 = aten.call "aten.mul.Tensor"(self = %s1, other = %y) : (tensor<8x64xbf16>, tensor<8x64xbf16>) -> tensor<8x64xbf16>
    %l = aten.call "aten.sum.default"(self = %y1) : (tensor<8x64xbf16>) -> tensor<bf16>
    %ds = aten.call "aten.mul.Tensor"(self = %d, other = %y) : (tensor<8x64xbf16>, tensor<8x64xbf16>) -> tensor<8x64xbf16>
    %du = aten.call "aten.mm.default"(self = %s1, mat2 = %w) : (tensor<8x64xbf16>, tensor<64x64xbf16>) -> tensor<8x64xbf16>
    %dg = aten.call "aten.silu_backward.default"(grad_output = %ds, self = %g) : (tensor<8x64xbf16>, tensor<8x64xbf16>) -> tensor<8x64xbf16>
    %ds1 = aten.call "aten.mul.Tensor"(self = %dg, other = %du) : (tensor<8x64xbf16>, tensor<8x64xbf16>) -> tensor<8x64xbf16>
    %dg1 = aten.call "aten.silu_backward.default"(grad_output = %ds1, self = %s) : (tensor<8x64xbf16>, tensor<8x64xbf16>) -> tensor<8x64xbf16>
    %n = aten.call "aten.mm.default"(self = %dg1, mat2 = %w) : (tensor<8x64xbf16>, tensor<64x64xbf16>) -> tensor<8x64xbf16>
    fcdp.loss %l : tensor<bf16>
    return
  }
}

//--- norm.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.input @x : tensor<2x4x8xf32> name "x"
  fcdp.input @c : tensor<2x4x1xf32> name "c"
  fcdp.input @b : tensor<2x1x1xf32> name "b"
  fcdp.input @w : tensor<8xf32> name "w"
  func.func @step() {
    %x = fcdp.read_input @x : tensor<2x4x8xf32>
    %c = fcdp.read_input @c : tensor<2x4x1xf32>
    %b = fcdp.read_input @b : tensor<2x1x1xf32>
    %w = fcdp.read_input @w : tensor<8xf32>
    %0 = aten.call "aten.mul.Tensor"(self = %x, other = %c) : (tensor<2x4x8xf32>, tensor<2x4x1xf32>) -> tensor<2x4x8xf32>
    %1 = aten.call "aten.mul.Tensor"(self = %w, other = %0) : (tensor<8xf32>, tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
    %2 = aten.call "aten.mul.Tensor"(self = %1, other = %b) : (tensor<2x4x8xf32>, tensor<2x1x1xf32>) -> tensor<2x4x8xf32>
    %l = aten.call "aten.sum.default"(self = %2) : (tensor<2x4x8xf32>) -> tensor<f32>
    fcdp.loss %l : tensor<f32>
    return
  }
}

//--- kept.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @p : tensor<8x8xf32> unit "p" names ["p"]
  fcdp.input @x : tensor<8x8xf32> name "x"
  fcdp.buffer @v : tensor<8x8xf32> name "v" persistent mutable
  fcdp.input @few : tensor<9x7xf32> name "few"
  fcdp.input @half : tensor<8x8xf16> name "half"
  func.func @step() {
    %x = fcdp.read_input @x : tensor<8x8xf32>
    %few = fcdp.read_input @few : tensor<9x7xf32>
    %half = fcdp.read_input @half : tensor<8x8xf16>
    // Another layout.
    %t = aten.call "aten.t.default"(self = %x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %a = aten.call "aten.neg.default"(self = %t) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %b = aten.call "aten.neg.default"(self = %a) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    // The last elements have other bits.
    %c = aten.call "aten.silu.default"(self = %few) : (tensor<9x7xf32>) -> tensor<9x7xf32>
    %d = aten.call "aten.neg.default"(self = %c) : (tensor<9x7xf32>) -> tensor<9x7xf32>
    // Another type.
    %e = aten.call "aten.neg.default"(self = %half) : (tensor<8x8xf16>) -> tensor<8x8xf16>
    %f = aten.call "aten.neg.default"(self = %e) : (tensor<8x8xf16>) -> tensor<8x8xf16>
    // A cast that is gathered in bf16.
    %p = fcdp.read_parameter @p : tensor<8x8xf32>
    %g = aten.call "aten._to_copy.default"(self = %p, dtype = bf16) : (tensor<8x8xf32>) -> tensor<8x8xbf16>
    %h = aten.call "aten.neg.default"(self = %g) : (tensor<8x8xbf16>) -> tensor<8x8xbf16>
    // A factor on the second operand, and operators that have other bits.
    %i = aten.call "aten.add.Tensor"(self = %x, other = %x, alpha = 2) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %j = aten.call "aten.exp.default"(self = %i) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    // The buffer is written between two reads.
    %v = fcdp.read_buffer @v : tensor<8x8xf32>
    %q = aten.call "aten.mul.Tensor"(self = %v, other = 2) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    fcdp.write_buffer %x to @v : tensor<8x8xf32>
    %r = aten.call "aten.neg.default"(self = %q) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    // A wide value would be kept in place of a narrow one.
    %k = aten.call "aten.mm.default"(self = %x, mat2 = %x) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %m = aten.call "aten._to_copy.default"(self = %k, dtype = bf16) : (tensor<8x8xf32>) -> tensor<8x8xbf16>
    %n = aten.call "aten.mm.default"(self = %h, mat2 = %h) : (tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<8x8xbf16>
    %o = aten.call "aten.mul.Tensor"(self = %m, other = %n) : (tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<8x8xbf16>
    %l = aten.call "aten.sum.default"(self = %o) : (tensor<8x8xbf16>) -> tensor<bf16>
    fcdp.loss %l : tensor<bf16>
    return
  }
}

//--- cuda.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>, fcdp.target = "cuda"} {
  fcdp.input @x : tensor<f32> name "x"
  func.func @step() {
    %x = fcdp.read_input @x : tensor<f32>
    fcdp.loss %x : tensor<f32>
    return
  }
}
