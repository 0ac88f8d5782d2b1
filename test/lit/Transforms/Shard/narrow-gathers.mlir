// RUN: fcdp-opt %s --split-input-file --fcdp-shard --fcdp-narrow-gathers | FileCheck %s
// RUN: fcdp-opt %s --split-input-file --fcdp-shard --fcdp-narrow-gathers 2>&1 >/dev/null | FileCheck %s --check-prefix=WARNING

// The cast moves before the gather, in the forward and in the backward
// pass; a view between them stays.
// CHECK-LABEL: func.func @only_microbatch
// CHECK-SAME: only_microbatch
// CHECK: %[[S0:.*]] = fcdp.read_shard @w : !fcdp.shard<tensor<4x4xf32>>
// CHECK: %[[C0:.*]] = fcdp.cast_shard %[[S0]] : !fcdp.shard<tensor<4x4xf32>> to !fcdp.shard<tensor<4x4xbf16>>
// CHECK: %[[W0:.*]] = fcdp.all_gather %[[C0]] of @w {{.*}} range 0 : !fcdp.shard<tensor<4x4xbf16>> to tensor<4x4xbf16>
// CHECK: %[[T:.*]] = aten.call "aten.t.default"(self = %[[W0]]) : (tensor<4x4xbf16>) -> tensor<4x4xbf16>
// CHECK: "aten.mm.default"(self = %{{.*}}, mat2 = %[[T]])
// CHECK: fcdp.read_shard @other
// CHECK: %[[S1:.*]] = fcdp.read_shard @w
// CHECK: %[[C1:.*]] = fcdp.cast_shard %[[S1]]
// CHECK: %[[W1:.*]] = fcdp.all_gather %[[C1]] of @w {{.*}} range 1
// CHECK: "aten.mm.default"(self = %{{.*}}, mat2 = %[[W1]])
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @w : tensor<4x4xf32> unit "a" names ["w"]
  fcdp.parameter @other : tensor<4x4xbf16> unit "b" names ["other"]
  fcdp.input @x : tensor<4x4xbf16> name "x"
  func.func @step() {
    %x = fcdp.read_input @x : tensor<4x4xbf16>
    %w = fcdp.read_parameter @w : tensor<4x4xf32>
    %o = fcdp.read_parameter @other : tensor<4x4xbf16>
    %t = aten.call "aten.t.default"(self = %w) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %c = aten.call "aten._to_copy.default"(self = %t, dtype = bf16) : (tensor<4x4xf32>) -> tensor<4x4xbf16>
    %0 = aten.call "aten.mm.default"(self = %x, mat2 = %c) : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xbf16>
    %1 = aten.call "aten.mm.default"(self = %0, mat2 = %o) : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xbf16>
    %c2 = aten.call "aten._to_copy.default"(self = %w, dtype = bf16) : (tensor<4x4xf32>) -> tensor<4x4xbf16>
    %2 = aten.call "aten.mm.default"(self = %1, mat2 = %c2) : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xbf16>
    %l = aten.call "aten.sum.default"(self = %2) : (tensor<4x4xbf16>) -> tensor<bf16>
    fcdp.loss %l : tensor<bf16>
    return
  }
}

// -----

// Each parameter but the last has a reason not to be cast early.
// CHECK-LABEL: func.func @only_microbatch
// CHECK-SAME: only_microbatch
// CHECK-NOT: fcdp.cast_shard
// CHECK: fcdp.read_shard @last
// CHECK-NEXT: fcdp.cast_shard
// CHECK-NOT: fcdp.cast_shard
// CHECK: return
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @alsoRead : tensor<4x4xf32> unit "a" names ["alsoRead"]
  fcdp.parameter @twoTypes : tensor<4x4xf32> unit "b" names ["twoTypes"]
  fcdp.parameter @widened : tensor<4x4xbf16> unit "c" names ["widened"]
  fcdp.parameter @sameWidth : tensor<4x4xbf16> unit "d" names ["sameWidth"]
  fcdp.parameter @toInteger : tensor<4x4xf32> unit "e" names ["toInteger"]
  fcdp.parameter @reinterpreted : tensor<4x4xf32> unit "f" names ["reinterpreted"]
  fcdp.parameter @laidOut : tensor<4x4xf32> unit "g" names ["laidOut"]
  fcdp.parameter @sliced : tensor<4x4xf32> unit "h" names ["sliced"]
  fcdp.parameter @split : tensor<4x4xf32> unit "i" names ["split"]
  fcdp.parameter @last : tensor<4x4xf32> unit "j" names ["last"]
  func.func @step() {
    // Read in f32, too.
    %0 = fcdp.read_parameter @alsoRead : tensor<4x4xf32>
    %1 = aten.call "aten._to_copy.default"(self = %0, dtype = bf16) : (tensor<4x4xf32>) -> tensor<4x4xbf16>
    %2 = aten.call "aten.mul.Tensor"(self = %0, other = %0) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    // bf16 in one live range, f16 in another.
    %3 = fcdp.read_parameter @twoTypes : tensor<4x4xf32>
    %4 = aten.call "aten._to_copy.default"(self = %3, dtype = bf16) : (tensor<4x4xf32>) -> tensor<4x4xbf16>
    %5 = fcdp.read_parameter @widened : tensor<4x4xbf16>
    %6 = aten.call "aten._to_copy.default"(self = %5, dtype = f32) : (tensor<4x4xbf16>) -> tensor<4x4xf32>
    %7 = aten.call "aten._to_copy.default"(self = %3, dtype = f16) : (tensor<4x4xf32>) -> tensor<4x4xf16>
    %8 = fcdp.read_parameter @sameWidth : tensor<4x4xbf16>
    %9 = aten.call "aten._to_copy.default"(self = %8, dtype = f16) : (tensor<4x4xbf16>) -> tensor<4x4xf16>
    %10 = fcdp.read_parameter @toInteger : tensor<4x4xf32>
    %11 = aten.call "aten._to_copy.default"(self = %10, dtype = i8) : (tensor<4x4xf32>) -> tensor<4x4xi8>
    // The bits of f32 as bf16: not a cast.
    %12 = fcdp.read_parameter @reinterpreted : tensor<4x4xf32>
    %13 = aten.call "aten.view.dtype"(self = %12, dtype = bf16) : (tensor<4x4xf32>) -> tensor<4x8xbf16>
    %14 = aten.call "aten.neg.default"(self = %13) : (tensor<4x8xbf16>) -> tensor<4x8xbf16>
    // The copy has strides of its own, and so has that of a slice.
    %15 = fcdp.read_parameter @laidOut : tensor<4x4xf32>
    %16 = aten.call "aten.t.default"(self = %15) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %17 = aten.call "aten._to_copy.default"(self = %16, dtype = bf16, memory_format = #aten.memory_format<contiguous>) : (tensor<4x4xf32>) -> tensor<4x4xbf16>
    %18 = fcdp.read_parameter @sliced : tensor<4x4xf32>
    %19 = aten.call "aten.slice.Tensor"(self = %18, dim = 1, start = 0, end = 2) : (tensor<4x4xf32>) -> tensor<4x2xf32>
    %20 = aten.call "aten._to_copy.default"(self = %19, dtype = bf16) : (tensor<4x2xf32>) -> tensor<4x2xbf16>
    %21 = aten.call "aten.view.default"(self = %20, size = [8]) : (tensor<4x2xbf16>) -> tensor<8xbf16>
    %22 = fcdp.read_parameter @split : tensor<4x4xf32>
    %23:2 = aten.call "aten.split.Tensor"(self = %22, split_size = 2) : (tensor<4x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>)
    %24 = aten.call "aten._to_copy.default"(self = %23#0, dtype = bf16) : (tensor<2x4xf32>) -> tensor<2x4xbf16>
    %25 = fcdp.read_parameter @last : tensor<4x4xf32>
    %26 = aten.call "aten._to_copy.default"(self = %25, dtype = bf16, memory_format = #aten.memory_format<preserve>) : (tensor<4x4xf32>) -> tensor<4x4xbf16>
    %27 = aten.call "aten.sum.default"(self = %26) : (tensor<4x4xbf16>) -> tensor<bf16>
    fcdp.loss %27 : tensor<bf16>
    return
  }
}

// -----

// Autocast casts once and keeps the result for the backward pass; kept, it
// would be the gathered copy. It is gathered again like any other parameter.
// CHECK-LABEL: func.func @only_microbatch
// CHECK-SAME: only_microbatch
// CHECK: %[[W0:.*]] = fcdp.all_gather %{{.*}} of @kept {{.*}} range 0 : !fcdp.shard<tensor<4x4xbf16>> to tensor<4x4xbf16>
// CHECK: %[[H:.*]] = aten.call "aten.mm.default"(self = %{{.*}}, mat2 = %[[W0]])
// CHECK: fcdp.read_shard @between
// CHECK: %[[W1:.*]] = fcdp.all_gather %{{.*}} of @kept {{.*}} range 1 : !fcdp.shard<tensor<4x4xbf16>> to tensor<4x4xbf16>
// CHECK: %[[T:.*]] = aten.call "aten.t.default"(self = %[[W1]])
// CHECK: "aten.mm.default"(self = %{{.*}}, mat2 = %[[T]])
// CHECK-NOT: _to_copy
// CHECK: return
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @kept : tensor<4x4xf32> unit "a" names ["kept"]
  fcdp.parameter @between : tensor<4x4xbf16> unit "b" names ["between"]
  fcdp.input @x : tensor<4x4xbf16> name "x"
  func.func @step() {
    %x = fcdp.read_input @x : tensor<4x4xbf16>
    %w = fcdp.read_parameter @kept : tensor<4x4xf32>
    %o = fcdp.read_parameter @between : tensor<4x4xbf16>
    %c = aten.call "aten._to_copy.default"(self = %w, dtype = bf16) : (tensor<4x4xf32>) -> tensor<4x4xbf16>
    %0 = aten.call "aten.mm.default"(self = %x, mat2 = %c) : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xbf16>
    %1 = aten.call "aten.mm.default"(self = %0, mat2 = %o) : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xbf16>
    %t = aten.call "aten.t.default"(self = %c) : (tensor<4x4xbf16>) -> tensor<4x4xbf16>
    %2 = aten.call "aten.mm.default"(self = %1, mat2 = %t) : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xbf16>
    %l = aten.call "aten.sum.default"(self = %2) : (tensor<4x4xbf16>) -> tensor<bf16>
    fcdp.loss %l : tensor<bf16>
    return
  }
}

// -----

// An evaluation that reads in the step's type is gathered in it, too. One that
// reads a wider type widens the gathers of both, and a warning says so.
// CHECK-LABEL: func.func @only_microbatch
// CHECK-SAME: only_microbatch
// CHECK: fcdp.cast_shard %{{.*}} : !fcdp.shard<tensor<4x4xf32>>
// CHECK-NOT: fcdp.cast_shard
// CHECK-LABEL: func.func @first_evaluation
// CHECK: fcdp.cast_shard %{{.*}} : !fcdp.shard<tensor<4x4xf32>>
// CHECK-NOT: fcdp.cast_shard
// CHECK-LABEL: func.func @next_evaluation
// WARNING: warning: the step reads 1 parameters, such as @wide, in 'bf16', and the evaluation does not
// WARNING-NOT: warning
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @same : tensor<4x4xf32> unit "a" names ["same"]
  fcdp.parameter @wide : tensor<4x4xf32> unit "b" names ["wide"]
  func.func @step() {
    %0 = fcdp.read_parameter @same : tensor<4x4xf32>
    %1 = aten.call "aten._to_copy.default"(self = %0, dtype = bf16) : (tensor<4x4xf32>) -> tensor<4x4xbf16>
    %2 = fcdp.read_parameter @wide : tensor<4x4xf32>
    %3 = aten.call "aten._to_copy.default"(self = %2, dtype = bf16) : (tensor<4x4xf32>) -> tensor<4x4xbf16>
    %4 = aten.call "aten.mm.default"(self = %1, mat2 = %3) : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xbf16>
    %5 = aten.call "aten.sum.default"(self = %4) : (tensor<4x4xbf16>) -> tensor<bf16>
    fcdp.loss %5 : tensor<bf16>
    return
  }
  func.func @evaluate() {
    %0 = fcdp.read_parameter @same : tensor<4x4xf32>
    %1 = aten.call "aten._to_copy.default"(self = %0, dtype = bf16) : (tensor<4x4xf32>) -> tensor<4x4xbf16>
    %2 = fcdp.read_parameter @wide : tensor<4x4xf32>
    %3 = aten.call "aten.sum.default"(self = %2) : (tensor<4x4xf32>) -> tensor<f32>
    %4 = aten.call "aten.mul.Tensor"(self = %1, other = %3) : (tensor<4x4xbf16>, tensor<f32>) -> tensor<4x4xbf16>
    %5 = aten.call "aten.sum.default"(self = %4) : (tensor<4x4xbf16>) -> tensor<bf16>
    fcdp.loss %5 : tensor<bf16>
    return
  }
}

// -----

// A variant of the step that reads a wider type widens the gathers of all.
// CHECK-LABEL: func.func @only_microbatch.0
// CHECK: fcdp.cast_shard %{{.*}} : !fcdp.shard<tensor<4x4xf32>>
// CHECK-NOT: fcdp.cast_shard
// CHECK-LABEL: func.func @only_microbatch.1
// CHECK: fcdp.cast_shard %{{.*}} : !fcdp.shard<tensor<4x4xf32>>
// CHECK-NOT: fcdp.cast_shard
// WARNING: warning: a variant of the step reads 1 parameters, such as @wide, in 'bf16', and another one does not: both gather their full width; export all variants under the same autocast
// WARNING-NOT: warning
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @same : tensor<4x4xf32> unit "a" names ["same"]
  fcdp.parameter @wide : tensor<4x4xf32> unit "b" names ["wide"]
  func.func @step() attributes {fcdp.variant = 0 : i64} {
    %0 = fcdp.read_parameter @same : tensor<4x4xf32>
    %1 = aten.call "aten._to_copy.default"(self = %0, dtype = bf16) : (tensor<4x4xf32>) -> tensor<4x4xbf16>
    %2 = fcdp.read_parameter @wide : tensor<4x4xf32>
    %3 = aten.call "aten._to_copy.default"(self = %2, dtype = bf16) : (tensor<4x4xf32>) -> tensor<4x4xbf16>
    %4 = aten.call "aten.mm.default"(self = %1, mat2 = %3) : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xbf16>
    %5 = aten.call "aten.sum.default"(self = %4) : (tensor<4x4xbf16>) -> tensor<bf16>
    fcdp.loss %5 : tensor<bf16>
    return
  }
  func.func @step.1() attributes {fcdp.variant = 1 : i64} {
    %0 = fcdp.read_parameter @same : tensor<4x4xf32>
    %1 = aten.call "aten._to_copy.default"(self = %0, dtype = bf16) : (tensor<4x4xf32>) -> tensor<4x4xbf16>
    %2 = fcdp.read_parameter @wide : tensor<4x4xf32>
    %3 = aten.call "aten.sum.default"(self = %1) : (tensor<4x4xbf16>) -> tensor<bf16>
    %4 = aten.call "aten.sum.default"(self = %2) : (tensor<4x4xf32>) -> tensor<f32>
    %5 = aten.call "aten.add.Tensor"(self = %4, other = %3) : (tensor<f32>, tensor<bf16>) -> tensor<f32>
    fcdp.loss %5 : tensor<f32>
    return
  }
}
