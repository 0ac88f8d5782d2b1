// RUN: fcdp-opt %s --split-input-file --fcdp-shard="nodes=2 ranks-per-node=4" | FileCheck %s
// RUN: fcdp-opt %s --split-input-file --fcdp-shard="nodes=2 ranks-per-node=4 micro-batches=3" | FileCheck %s --check-prefix=THREE

// A layer is gathered once in the forward and once in the backward pass, with
// both its parameters in one range; an output layer whose uses touch once; an
// embedding that the backward pass does not read once, or twice where it is
// tied to something else. Views are cloned to their uses.
// CHECK-LABEL: func.func @init
// CHECK-NEXT: return
// CHECK-LABEL: func.func @only_microbatch
// CHECK-SAME: fcdp.role = #fcdp.role<only_microbatch>
// CHECK-NOT: fcdp.read_parameter
// CHECK: fcdp.all_gather %{{.*}} of @embedding over @world[node, local] range 0
// CHECK-NEXT: "aten.embedding.default"
// CHECK: %[[L0:.*]] = fcdp.all_gather %{{.*}} of @layer over @world[node, local] range 0
// CHECK-NEXT: %[[T0:.*]] = aten.call "aten.t.default"(self = %[[L0]])
// CHECK-NEXT: aten.call "aten.mm.default"(self = %{{.*}}, mat2 = %[[T0]])
// CHECK-NEXT: fcdp.read_shard @bias
// CHECK-NEXT: fcdp.all_gather %{{.*}} of @bias over @world[node, local] range 0
// CHECK: fcdp.all_gather %{{.*}} of @head over @world[node, local] range 0
// CHECK-NOT: of @head over
// CHECK: %[[L1:.*]] = fcdp.all_gather %{{.*}} of @layer over @world[node, local] range 1
// CHECK-NEXT: %[[T1:.*]] = aten.call "aten.t.default"(self = %[[L1]])
// CHECK-NEXT: %[[TT1:.*]] = aten.call "aten.t.default"(self = %[[T1]])
// CHECK-NEXT: aten.call "aten.mm.default"(self = %{{.*}}, mat2 = %[[TT1]])
// CHECK-NOT: of @embedding over @world{{.*}} range
// CHECK: fcdp.all_gather %{{.*}} of @tied over @world[node, local] range 2
// CHECK-LABEL: func.func @update
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @embedding : tensor<4x4xf32> unit "embedding" names ["embedding"]
  fcdp.parameter @tied : tensor<4x4xf32> unit "tied" names ["tied"]
  fcdp.parameter @layer : tensor<4x4xf32> unit "layer" names ["layer"]
  fcdp.parameter @bias : tensor<4xf32> unit "layer" names ["bias"]
  fcdp.parameter @head : tensor<4x4xf32> unit "head" names ["head"]
  fcdp.input @ids : tensor<4xi64> name "ids" limit 4
  func.func @step() {
    %ids = fcdp.read_input @ids : tensor<4xi64>
    %e = fcdp.read_parameter @embedding : tensor<4x4xf32>
    %l = fcdp.read_parameter @layer : tensor<4x4xf32>
    %b = fcdp.read_parameter @bias : tensor<4xf32>
    %h = fcdp.read_parameter @head : tensor<4x4xf32>
    %t = fcdp.read_parameter @tied : tensor<4x4xf32>
    %0 = aten.call "aten.embedding.default"(weight = %e, indices = %ids) : (tensor<4x4xf32>, tensor<4xi64>) -> tensor<4x4xf32>
    %1 = aten.call "aten.add.Tensor"(self = %0, other = %t) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %lt = aten.call "aten.t.default"(self = %l) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %2 = aten.call "aten.mm.default"(self = %1, mat2 = %lt) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %3 = aten.call "aten.add.Tensor"(self = %2, other = %b) : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32>
    %4 = aten.call "aten.add.Tensor"(self = %3, other = %t) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %5 = aten.call "aten.mm.default"(self = %4, mat2 = %h) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %loss = aten.call "aten.sum.default"(self = %5) : (tensor<4x4xf32>) -> tensor<f32>
    %6 = aten.call "aten.mm.default"(self = %5, mat2 = %h) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %ltt = aten.call "aten.t.default"(self = %lt) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %7 = aten.call "aten.mm.default"(self = %6, mat2 = %ltt) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %8 = aten.call "aten.mm.default"(self = %7, mat2 = %t) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    fcdp.loss %loss : tensor<f32>
    return
  }
}

// -----

// A gradient is reduced where it is made and starts a sum; the update takes the
// mean over ranks and micro-batches. With several of these the first starts
// the sum and others add.
// CHECK-LABEL: func.func @only_microbatch
// CHECK: %[[G:.*]] = aten.call "aten.ones_like.default"
// CHECK-NEXT: %[[R:.*]] = fcdp.reduce_scatter %[[G]] of @w over @world[node, local] : tensor<4xf32> to !fcdp.shard<tensor<4xf32>>
// CHECK-NEXT: fcdp.accumulate %[[R]] into @w overwrite
// CHECK: fcdp.loss
// CHECK-LABEL: func.func @update
// CHECK-NEXT: fcdp.shard_update @w scale 1.250000e-01 with #fcdp.adamw
// CHECK-NEXT: return

// THREE: fcdp.micro_batches = 3 : i64
// THREE-LABEL: fcdp.parameter @w : tensor<4xf32> unit "" trainable
// THREE-LABEL: func.func @first_microbatch
// THREE: fcdp.accumulate %{{.*}} into @w overwrite
// THREE-LABEL: func.func @next_microbatch
// THREE: fcdp.accumulate %{{.*}} into @w add
// THREE-LABEL: func.func @last_microbatch
// THREE: fcdp.accumulate %{{.*}} into @w add
// THREE-LABEL: func.func @update
// THREE-NEXT: fcdp.shard_update @w scale 0.041666{{6+}}
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @w : tensor<4xf32> unit "" trainable names ["w"]
  func.func @step() {
    %w = fcdp.read_parameter @w : tensor<4xf32>
    %l = aten.call "aten.sum.default"(self = %w) : (tensor<4xf32>) -> tensor<f32>
    %g = aten.call "aten.ones_like.default"(self = %w) : (tensor<4xf32>) -> tensor<4xf32>
    %z = aten.call "aten.neg.default"(self = %g) : (tensor<4xf32>) -> tensor<4xf32>
    fcdp.loss %l : tensor<f32>
    fcdp.gradient %g of @w : tensor<4xf32>
    return
  }
}

// -----

// An operator that the compiler does not know is not a view, whatever it does:
// it runs once.
// CHECK-LABEL: func.func @only_microbatch
// CHECK: %[[ALIAS:.*]] = aten.call "custom.alias.default"
// CHECK-NOT: custom.alias
// CHECK: "aten.neg.default"(self = %[[ALIAS]])
// CHECK: of @other over
// CHECK: "aten.abs.default"(self = %[[ALIAS]])
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @w : tensor<4xf32> unit "a" names ["w"]
  fcdp.parameter @other : tensor<4xf32> unit "b" names ["other"]
  func.func @step() {
    %w = fcdp.read_parameter @w : tensor<4xf32>
    %o = fcdp.read_parameter @other : tensor<4xf32>
    %alias = aten.call "custom.alias.default"(self = %w) : (tensor<4xf32>) -> tensor<4xf32>
    %0 = aten.call "aten.neg.default"(self = %alias) : (tensor<4xf32>) -> tensor<4xf32>
    %1 = aten.call "aten.add.Tensor"(self = %0, other = %o) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %2 = aten.call "aten.abs.default"(self = %alias) : (tensor<4xf32>) -> tensor<4xf32>
    %l = aten.call "aten.sum.default"(self = %2) : (tensor<4xf32>) -> tensor<f32>
    fcdp.loss %l : tensor<f32>
    return
  }
}
