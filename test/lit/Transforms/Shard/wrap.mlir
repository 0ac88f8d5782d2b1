// A bucket has the parameters of a unit, or of a module, or of a unit with a gather of its own for the operators that
// the backward pass recomputes.
// RUN: fcdp-opt %s --fcdp-remat --fcdp-shard=ranks-per-node=2 | FileCheck %s --check-prefix=UNIT
// RUN: fcdp-opt %s --fcdp-remat --fcdp-shard="ranks-per-node=2 wrap=module" | FileCheck %s --check-prefix=MODULE
// RUN: fcdp-opt %s --fcdp-remat --fcdp-shard="ranks-per-node=2 wrap=checkpoint" | FileCheck %s --check-prefix=AGAIN
// Without recomputation, a unit is gathered as before.
// RUN: fcdp-opt %s --fcdp-shard="ranks-per-node=2 wrap=checkpoint" | FileCheck %s --check-prefix=UNIT
// The plans of all strategies send what the closed forms say for these live ranges.
// RUN: fcdp-opt %s --fcdp-pipeline="nodes=2 ranks-per-node=2 wrap=module strategy=zero3" | FileCheck %s --check-prefix=BUCKETS
// RUN: fcdp-opt %s --fcdp-pipeline="nodes=2 ranks-per-node=2 wrap=checkpoint strategy=zero3 micro-batches=2" | FileCheck %s --check-prefix=PLANNED
// RUN: fcdp-opt %s --fcdp-pipeline="nodes=2 ranks-per-node=2 wrap=checkpoint strategy=fcdp" -o /dev/null
// RUN: fcdp-opt %s --fcdp-pipeline="nodes=2 ranks-per-node=2 wrap=checkpoint strategy=hsdp bucket-bytes=1000" -o /dev/null
// RUN: not fcdp-opt %s --fcdp-shard=wrap=layer 2>&1 | FileCheck %s --check-prefix=SPEC
// SPEC: error: wrap: expected 'unit', 'module' or 'checkpoint', got 'layer'

// One live range: the loss has no other unit.
// UNIT: fcdp.parameter @q {{.*}} unit "blocks.0"
// UNIT: func.func @only_microbatch
// UNIT: fcdp.all_gather %{{.*}} of @q over
// UNIT-NOT: fcdp.all_gather %{{.*}} of @q over
// UNIT: func.func @update

// MODULE: module attributes {{.*}}fcdp.wrap = "module"
// MODULE: fcdp.parameter @q {{.*}} unit "blocks.0.q"
// MODULE: fcdp.parameter @o {{.*}} unit "blocks.0.o"
// MODULE: fcdp.parameter @scale {{.*}} unit ""
// MODULE: func.func @only_microbatch
// MODULE: fcdp.all_gather %{{.*}} of @q over {{.*}} range 0
// MODULE: fcdp.all_gather %{{.*}} of @o over {{.*}} range 0
// MODULE: "aten.ones_like.default"
// MODULE: fcdp.all_gather %{{.*}} of @q over {{.*}} range 1
// MODULE-NEXT: "aten.mm.default"{{.*}} {fcdp.repeated}
// MODULE-NOT: fcdp.all_gather
// MODULE: func.func @update

// AGAIN: module attributes {{.*}}fcdp.wrap = "checkpoint"
// AGAIN: fcdp.parameter @q {{.*}} unit "blocks.0"
// AGAIN: func.func @only_microbatch
// AGAIN: fcdp.all_gather %{{.*}} of @q over {{.*}} range 0
// AGAIN: fcdp.all_gather %{{.*}} of @o over {{.*}} range 0
// AGAIN: "aten.ones_like.default"
// AGAIN-NOT: fcdp.all_gather
// AGAIN: "aten.mm.default"{{.*}} {fcdp.repeated}
// AGAIN: %[[Q:.*]] = fcdp.all_gather %{{.*}} of @q over {{.*}} range 1
// AGAIN-NEXT: "aten.mm.default"(self = %{{.*}}, mat2 = %[[Q]]) :
// AGAIN: func.func @update

// BUCKETS-DAG: fcdp.bucket @bucket.blocks.0.q unit "blocks.0.q"
// BUCKETS-DAG: fcdp.bucket @bucket.blocks.0.o unit "blocks.0.o"
// BUCKETS-DAG: fcdp.bucket @bucket.root unit ""
// PLANNED: fcdp.bucket @bucket.blocks.0 unit "blocks.0" {{.*}} residency drop
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @q : tensor<4x4xf32> unit "blocks.0" trainable names ["blocks.0.q.weight"]
  fcdp.parameter @o : tensor<4x4xf32> unit "blocks.0" trainable names ["blocks.0.o.weight"]
  fcdp.parameter @scale : tensor<4x4xf32> unit "" trainable names ["scale"]
  fcdp.input @x : tensor<4x4xf32> name "x"
  func.func @step() {
    %x = fcdp.read_input @x : tensor<4x4xf32>
    %q = fcdp.read_parameter @q : tensor<4x4xf32>
    %o = fcdp.read_parameter @o : tensor<4x4xf32>
    %c = fcdp.read_parameter @scale : tensor<4x4xf32>
    %s = aten.call "aten.mul.Tensor"(self = %x, other = %c) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %p = aten.call "aten.mm.default"(self = %s, mat2 = %q) {fcdp.recompute = true} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %y = aten.call "aten.mm.default"(self = %p, mat2 = %o) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %l = aten.call "aten.sum.default"(self = %y) : (tensor<4x4xf32>) -> tensor<f32>
    %one = aten.call "aten.ones_like.default"(self = %l) : (tensor<f32>) -> tensor<f32>
    %gy = aten.call "aten.expand.default"(self = %one, size = [4, 4]) : (tensor<f32>) -> tensor<4x4xf32>
    %gp = aten.call "aten.mm.default"(self = %gy, mat2 = %o) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %go = aten.call "aten.mm.default"(self = %p, mat2 = %gy) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %gq = aten.call "aten.mm.default"(self = %s, mat2 = %gp) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %gs = aten.call "aten.mm.default"(self = %gp, mat2 = %q) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %gc = aten.call "aten.mul.Tensor"(self = %gs, other = %x) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    fcdp.loss %l : tensor<f32>
    fcdp.gradient %gq of @q : tensor<4x4xf32>
    fcdp.gradient %go of @o : tensor<4x4xf32>
    fcdp.gradient %gc of @scale : tensor<4x4xf32>
    return
  }
}
