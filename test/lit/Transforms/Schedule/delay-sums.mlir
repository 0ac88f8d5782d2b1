// Results of reductions are accumulated later, so that several reductions run at
// once.
// DEFINE: %{sums} = fcdp-opt %s --fcdp-shard="nodes=2 ranks-per-node=2" --fcdp-bucket --fcdp-two-level
// RUN: %{sums} --fcdp-delay-sums | FileCheck %s --check-prefix=TWO
// RUN: %{sums} --fcdp-decide="prefetch=0 reductions=9" --fcdp-delay-sums | FileCheck %s --check-prefix=ALL

// Twice is once.
// RUN: %{sums} --fcdp-delay-sums -o %t.once
// RUN: fcdp-opt %t.once --fcdp-delay-sums -o %t.twice
// RUN: diff %t.once %t.twice

// RUN: %{sums} --fcdp-decide="prefetch=0 reductions=1" --fcdp-delay-sums | FileCheck %s --check-prefix=ONE

// RUN: not %{sums} --fcdp-decide="reductions=0" 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// NEGATIVE: error: reductions: expected a positive number, got '0'
// RUN: not fcdp-opt %s --fcdp-delay-sums 2>&1 | FileCheck %s --check-prefix=PHASE
// PHASE: error: expected a module in phase 'sharded'

// Each accumulate is before the pack that is two units later; `b` has two
// buckets, which count as one.
// TWO-LABEL: func.func @only_microbatch
// TWO: fcdp.pack @bucket.c
// TWO-NOT: fcdp.accumulate
// TWO: fcdp.pack @bucket.b
// TWO-NOT: fcdp.accumulate
// TWO: fcdp.pack @bucket.b
// TWO-NOT: fcdp.accumulate
// TWO: fcdp.accumulate {{.*}} into @bucket.c
// TWO-NEXT: fcdp.pack @bucket.a
// TWO: fcdp.accumulate {{.*}} into @bucket.b
// TWO: fcdp.accumulate {{.*}} into @bucket.b
// TWO: fcdp.accumulate {{.*}} into @bucket.a
// TWO: return

// ONE-LABEL: func.func @only_microbatch
// ONE: fcdp.accumulate {{.*}} into @bucket.c
// ONE-NEXT: fcdp.pack @bucket.b
// ONE: fcdp.pack @bucket.b
// ONE-NOT: fcdp.accumulate
// ONE: aten.call
// ONE: fcdp.accumulate {{.*}} into @bucket.b
// ONE-NEXT: fcdp.accumulate {{.*}} into @bucket.b
// ONE-NEXT: fcdp.pack @bucket.a

// ALL-LABEL: func.func @only_microbatch
// ALL: fcdp.pack @bucket.a
// ALL: fcdp.accumulate {{.*}} into @bucket.c
// ALL: fcdp.accumulate {{.*}} into @bucket.b
// ALL: fcdp.accumulate {{.*}} into @bucket.b
// ALL-NEXT: fcdp.accumulate {{.*}} into @bucket.a
// ALL-NEXT: return

// Dont: an accumulate that is read in the same function is before the read.
// RUN: fcdp-opt %s --fcdp-shard="nodes=2 ranks-per-node=2 micro-batches=2" --fcdp-bucket --fcdp-two-level --fcdp-decide="accumulate=node reductions=9" --fcdp-accumulate --fcdp-delay-sums | FileCheck %s --check-prefix=DONT
// DONT-LABEL: func.func @last_microbatch
// DONT: fcdp.accumulate {{.*}} into @bucket.c.node_grad add
// DONT: fcdp.read_state @bucket.c.node_grad

// An accumulator in host memory is added to and stored later; it is loaded where
// its gradients are packed.
// RUN: fcdp-opt %s --fcdp-shard="nodes=2 ranks-per-node=2 micro-batches=3" --fcdp-bucket --fcdp-two-level --fcdp-decide="accumulate=node_host reductions=2" --fcdp-accumulate --fcdp-delay-sums | FileCheck %s --check-prefix=HOST
// HOST-LABEL: func.func @first_microbatch
// HOST: fcdp.pack @bucket.c
// HOST: fcdp.pack @bucket.b
// HOST: fcdp.pack @bucket.b
// HOST-NOT: fcdp.cache_store
// HOST: fcdp.cache_store {{.*}} to @bucket.c.host_grad
// HOST-NEXT: fcdp.pack @bucket.a
// HOST-LABEL: func.func @next_microbatch
// HOST: fcdp.cache_load @bucket.c.host_grad
// HOST-NEXT: fcdp.pack @bucket.c
// HOST: fcdp.pack @bucket.b
// HOST: fcdp.cache_load @bucket.a.host_grad
// HOST-NEXT: %[[SUM:.*]] = fcdp.add
// HOST-NEXT: fcdp.cache_store %[[SUM]] to @bucket.c.host_grad
// HOST-NEXT: fcdp.pack @bucket.a
// Dont: the last micro-batch needs the sum where it is made.
// HOST-LABEL: func.func @last_microbatch
// HOST: fcdp.add
// HOST: fcdp.pack @bucket.b

module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @a : tensor<64xf32> unit "a" trainable names ["a"]
  fcdp.parameter @b : tensor<64xf32> unit "b" trainable names ["b"]
  fcdp.parameter @h : tensor<64xbf16> unit "b" trainable names ["h"]
  fcdp.parameter @c : tensor<64xf32> unit "c" trainable names ["c"]
  func.func @step() {
    %a = fcdp.read_parameter @a : tensor<64xf32>
    %b = fcdp.read_parameter @b : tensor<64xf32>
    %h = fcdp.read_parameter @h : tensor<64xbf16>
    %c = fcdp.read_parameter @c : tensor<64xf32>
    %0 = aten.call "aten.neg.default"(self = %a) : (tensor<64xf32>) -> tensor<64xf32>
    %1 = aten.call "aten.mul.Tensor"(self = %0, other = %b) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    %n = aten.call "aten.neg.default"(self = %h) : (tensor<64xbf16>) -> tensor<64xbf16>
    %2 = aten.call "aten.mul.Tensor"(self = %1, other = %c) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    %l = aten.call "aten.sum.default"(self = %2) : (tensor<64xf32>) -> tensor<f32>
    %3 = aten.call "aten.mul.Tensor"(self = %2, other = %c) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    %m = aten.call "aten.mul.Tensor"(self = %n, other = %h) : (tensor<64xbf16>, tensor<64xbf16>) -> tensor<64xbf16>
    %4 = aten.call "aten.mul.Tensor"(self = %3, other = %b) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    %5 = aten.call "aten.mul.Tensor"(self = %4, other = %a) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    fcdp.loss %l : tensor<f32>
    fcdp.gradient %3 of @c : tensor<64xf32>
    fcdp.gradient %m of @h : tensor<64xbf16>
    fcdp.gradient %4 of @b : tensor<64xf32>
    fcdp.gradient %5 of @a : tensor<64xf32>
    return
  }
}
