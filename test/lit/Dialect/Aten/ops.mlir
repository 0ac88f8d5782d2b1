// RUN: fcdp-opt %s | fcdp-opt | FileCheck %s
// RUN: fcdp-opt %s --mlir-print-op-generic | fcdp-opt | FileCheck %s
// RUN: fcdp-opt %s --emit-bytecode | fcdp-opt | FileCheck %s

// CHECK-LABEL: func.func @tensors
func.func @tensors(%bias: tensor<8xf32>, %x: tensor<4x2xf32>, %w: tensor<2x8xf32>) -> tensor<4x16xf32> {
  // CHECK: %[[A:.*]] = aten.call "aten.addmm.default"(self = %{{.*}}, mat1 = %{{.*}}, mat2 = %{{.*}}, beta = 1) : (tensor<8xf32>, tensor<4x2xf32>, tensor<2x8xf32>) -> tensor<4x8xf32>
  %0 = aten.call "aten.addmm.default"(self = %bias, mat1 = %x, mat2 = %w, beta = 1)
      : (tensor<8xf32>, tensor<4x2xf32>, tensor<2x8xf32>) -> tensor<4x8xf32>
  // CHECK: aten.call "aten.cat.default"(tensors = [%[[A]], %[[A]]], dim = -1) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x16xf32>
  %1 = aten.call "aten.cat.default"(tensors = [%0, %0], dim = -1)
      : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x16xf32>
  return %1 : tensor<4x16xf32>
}

// CHECK-LABEL: func.func @absent_tensors
// CHECK-SAME: (%[[X:.*]]: tensor<4x2xf32>, %[[I:.*]]: tensor<3xi64>)
func.func @absent_tensors(%x: tensor<4x2xf32>, %i: tensor<3xi64>) {
  // CHECK: aten.call "aten.index.Tensor"(self = %[[X]], indices = [none, %[[I]]])
  %0 = aten.call "aten.index.Tensor"(self = %x, indices = [none, %i]) : (tensor<4x2xf32>, tensor<3xi64>) -> tensor<4x3xf32>
  // CHECK: indices = [none, none]
  %1 = aten.call "mine.op.default"(indices = [none, none]) : () -> tensor<4xf32>
  // CHECK: weight = none, tensors = []
  %2 = aten.call "mine.op.default"(weight = none, tensors = []) : () -> tensor<4xf32>
  return
}

// CHECK-LABEL: func.func @literals
func.func @literals() {
  // CHECK: aten.call "mine.op.default"(a = -1, b = 9223372036854775807, c = -9223372036854775808, d = 1.500000e+00, e = true, f = false, g = "sum\0A\22", h = none)
  aten.call "mine.op.default"(a = -1, b = 9223372036854775807, c = -9223372036854775808, d = 1.5, e = true, f = false, g = "sum\0A\22", h = none) : () -> ()
  // CHECK: aten.call "mine.op.default"(a = [1, 2], b = [1.000000e+00, -2.500000e-01], c = [true, false], d = ["mean"], e = [])
  aten.call "mine.op.default"(a = [1, 2], b = [1.0, -0.25], c = [true, false], d = ["mean"], e = []) : () -> ()
  // CHECK: aten.call "mine.op.default"(dtype = f32, other = bf16, index = i64, mask = i1, byte = ui8, fft = complex<f64>)
  aten.call "mine.op.default"(dtype = f32, other = bf16, index = i64, mask = i1, byte = ui8, fft = complex<f64>) : () -> ()
  // CHECK: aten.call "mine.op.default"(device = #aten.device<"cuda:0">, layout = #aten.layout<strided>, memory_format = #aten.memory_format<channels_last>)
  aten.call "mine.op.default"(device = #aten.device<"cuda:0">, layout = #aten.layout<strided>, memory_format = #aten.memory_format<channels_last>) : () -> ()
  // CHECK: aten.call "mine.op.default"(a = #aten.memory_format<contiguous>, b = #aten.memory_format<preserve>, c = #aten.memory_format<channels_last_3d>)
  aten.call "mine.op.default"(a = #aten.memory_format<contiguous>, b = #aten.memory_format<preserve>, c = #aten.memory_format<channels_last_3d>) : () -> ()
  return
}

// Numbers that are not finite, or that six digits do not hold.
// CHECK-LABEL: func.func @floats
func.func @floats() {
  // CHECK: aten.call "mine.op.default"(inf = 0x7FF0000000000000 : f64, minus = 0xFFF0000000000000 : f64, nan = 0x7FF8000000000001 : f64, zero = -0.000000e+00)
  aten.call "mine.op.default"(inf = 0x7FF0000000000000 : f64, minus = 0xFFF0000000000000 : f64, nan = 0x7FF8000000000001 : f64, zero = -0.0) : () -> ()
  // CHECK: aten.call "mine.op.default"(third = 0.3333333333333333{{[0-9]*}}, least = {{.*}}, list = [0x7FF0000000000000 : f64, 1.000000e+00])
  aten.call "mine.op.default"(third = 0.3333333333333333, least = 4.9406564584124654e-324, list = [0x7FF0000000000000 : f64, 1.0]) : () -> ()
  return
}

// CHECK-LABEL: func.func @names
func.func @names(%x: tensor<4xf32>) {
  // CHECK: aten.call "aten.rand.default"(self = %{{.*}}, none = none, true = true, "a b" = 1, "" = 2)
  %0 = aten.call "aten.rand.default"("self" = %x, none = none, true = true, "a b" = 1, "" = 2) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// CHECK-LABEL: func.func @undefined_returns
func.func @undefined_returns(%x: tensor<4xf32>) {
  // CHECK: aten.call "mine.op.default"(self = %{{.*}}) {undefined = array<i64: 0, 2>} : (tensor<4xf32>) -> tensor<4xf32>
  %0 = aten.call "mine.op.default"(self = %x) {undefined = array<i64: 0, 2>} : (tensor<4xf32>) -> tensor<4xf32>
  // CHECK: aten.call "mine.op.default"() {undefined = array<i64: 0, 1>} : () -> ()
  aten.call "mine.op.default"() {undefined = array<i64: 0, 1>} : () -> ()
  return
}

// CHECK-LABEL: func.func @shapes
func.func @shapes(%scalar: tensor<f32>, %empty: tensor<0x4xf32>, %dynamic: tensor<?x4xf32>) {
  // CHECK: : (tensor<f32>, tensor<0x4xf32>, tensor<?x4xf32>) -> (tensor<i1>, tensor<?xcomplex<f32>>)
  %0:2 = aten.call "mine.op.default"(a = %scalar, b = %empty, c = %dynamic)
      : (tensor<f32>, tensor<0x4xf32>, tensor<?x4xf32>) -> (tensor<i1>, tensor<?xcomplex<f32>>)
  return
}

// CHECK-LABEL: func.func @chunked_loss
func.func @chunked_loss(%x: tensor<32x4xf32>, %w: tensor<8x4xf32>, %y: tensor<32xi64>, %g: tensor<f32>) {
  // CHECK: aten.call "fcdp.chunked_loss.default"(hidden = %{{.*}}, weight = %{{.*}}, bias = none, labels = %{{.*}}, gradient = %{{.*}}, rows = 16, reduction = 1, ignore_index = -100, output_mask = [true, true, false], workspace = 1728) {undefined = array<i64: 2, 5>}
  %0:5 = aten.call "fcdp.chunked_loss.default"(hidden = %x, weight = %w, bias = none, labels = %y, gradient = %g, rows = 16, reduction = 1, ignore_index = -100, output_mask = [true, true, false], workspace = 1728) {undefined = array<i64: 2, 5>}
      : (tensor<32x4xf32>, tensor<8x4xf32>, tensor<32xi64>, tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<32x4xf32>, tensor<8x4xf32>, tensor<1728xui8>)
  return
}

// CHECK-LABEL: func.func @unpacked
func.func @unpacked(%a: tensor<2304xui8>, %b: tensor<24xui8>) {
  // CHECK: aten.call "fcdp.unpack_nf4.default"(packed = %{{.*}}, size = [64, 64], dtype = bf16) : (tensor<2304xui8>) -> tensor<64x64xbf16>
  %0 = aten.call "fcdp.unpack_nf4.default"(packed = %a, size = [64, 64], dtype = bf16) : (tensor<2304xui8>) -> tensor<64x64xbf16>
  // CHECK: aten.call "fcdp.unpack_int8.default"(packed = %{{.*}}, size = [2, 6], dtype = f32) : (tensor<24xui8>) -> tensor<2x6xf32>
  %1 = aten.call "fcdp.unpack_int8.default"(packed = %b, size = [2, 6], dtype = f32) : (tensor<24xui8>) -> tensor<2x6xf32>
  return
}
