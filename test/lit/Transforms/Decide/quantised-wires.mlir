// RUN: fcdp-opt %s --fcdp-pipeline="nodes=2 ranks-per-node=2 strategy=fcdp optimizer=sgd reduce-wire=int8 micro-batches=2" | FileCheck %s -DCODE=int8
// RUN: fcdp-opt %s --fcdp-pipeline="nodes=2 ranks-per-node=2 strategy=zero3 optimizer=sgd reduce-wire=int4 micro-batches=2" | FileCheck %s -DCODE=int4

// Each node slice of a trained bucket has a residual. A frozen one has none.
// CHECK: fcdp.bucket @bucket.a {{.*}} reduce_wire [[CODE]]
// CHECK: fcdp.state @bucket.a.residual residual of @bucket.a in host : tensor<32xf32>
// CHECK-NOT: residual of @bucket.b
// Reductions within nodes are exact.
// CHECK: func.func @first_microbatch
// CHECK: fcdp.reduce_scatter {{.*}} over @world[local] on intra_reduce
// CHECK: fcdp.reduce_scatter {{.*}} over @world[node] code [[CODE]] residual @bucket.a.residual on inter_reduce
// CHECK: func.func @update

// Nothing is sent between nodes where there is one, and flat reductions stay as they are.
// RUN: fcdp-opt %s --fcdp-pipeline="nodes=1 ranks-per-node=2 strategy=fcdp optimizer=sgd reduce-wire=int8" | FileCheck %s --check-prefix=NONE
// RUN: fcdp-opt %s --fcdp-pipeline="nodes=2 ranks-per-node=2 strategy=zero3 collectives=flat optimizer=sgd reduce-wire=int8" | FileCheck %s --check-prefix=NONE
// NONE-NOT: residual

// RUN: not fcdp-opt %s --fcdp-pipeline="nodes=2 ranks-per-node=2 strategy=fcdp optimizer=sgd reduce-wire=int2" 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// UNKNOWN: reduce-wire: expected 'auto', 'raw', 'coded', 'int8' or 'int4', got 'int2'

module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @w : tensor<64xf32> unit "a" trainable names ["w"]
  fcdp.parameter @v : tensor<4xf32> unit "b" names ["v"]
  func.func @step() {
    %w = fcdp.read_parameter @w : tensor<64xf32>
    %v = fcdp.read_parameter @v : tensor<4xf32>
    %0 = aten.call "aten.neg.default"(self = %w) : (tensor<64xf32>) -> tensor<64xf32>
    %l = aten.call "aten.sum.default"(self = %v) : (tensor<4xf32>) -> tensor<f32>
    %1 = aten.call "aten.mul.Tensor"(self = %0, other = %w) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    fcdp.loss %l : tensor<f32>
    fcdp.gradient %1 of @w : tensor<64xf32>
    return
  }
}
