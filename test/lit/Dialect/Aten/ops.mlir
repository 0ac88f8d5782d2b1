// RUN: fcdp-opt %s | fcdp-opt | FileCheck %s

// CHECK-LABEL: func @mm
func.func @mm(%x: tensor<4x2xf32>, %w: tensor<2x8xf32>) -> tensor<4x8xf32> {
  // CHECK: aten.call "aten.mm.default"(self = %{{.*}}, mat2 = %{{.*}}) : (tensor<4x2xf32>, tensor<2x8xf32>) -> tensor<4x8xf32>
  %0 = aten.call "aten.mm.default"(self = %x, mat2 = %w) : (tensor<4x2xf32>, tensor<2x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
