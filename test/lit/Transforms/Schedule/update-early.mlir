// Updates in the backward pass, of buckets whose states are not on the device: the places, the plan and its proof.
// DEFINE: %{step} = nodes=2 ranks-per-node=2 strategy=zero3 prefetch=0 states=host,piece=4096
// RUN: fcdp-opt %s --fcdp-pipeline="%{step}" --remarks-filter="fcdp-update-early" --remark-format=emitRemark -o %t.planned 2>&1 | FileCheck %s --check-prefix=REMARK
// REMARK: remark: [Passed] update | Category:fcdp-update-early | Remark="3 buckets are updated as soon as their gradients are complete, in the backward pass"
// RUN: FileCheck %s --input-file=%t.planned

// All gradients have the memory of the largest.
// CHECK: fcdp.state @bucket.a.grad grad of @bucket.a in device : tensor<768xf32> at <arena = device, offset = 0, bytes = 3072>
// CHECK: fcdp.state @bucket.b.shard shard of @bucket.b in device : tensor<256xf32> at <arena = device, offset = 6144,
// CHECK: fcdp.state @bucket.b.grad grad of @bucket.b in device : tensor<256xf32> at <arena = device, offset = 0, bytes = 1024>
// Each is accumulated when the one before it has been used. The next states are loaded before that.
// CHECK-LABEL: func.func @only_microbatch
// CHECK: fcdp.loss
// CHECK: fcdp.state_load @bucket.c.exp_avg at 0 on h2d
// CHECK: %[[C:.*]] = fcdp.reduce_scatter %{{.*}} of @bucket.c over @world[node]
// The last use of the parameters comes before the update.
// CHECK: %[[B:.*]] = fcdp.reduce_scatter %{{.*}} of @bucket.b over @world[node]
// CHECK: aten.call "aten.sum.default"{{.*}}@b
// CHECK: fcdp.accumulate %[[C]] into @bucket.c overwrite
// CHECK: fcdp.state_load @bucket.b.exp_avg at 0 on h2d
// CHECK: fcdp.shard_update @bucket.c piece 0 to 256
// CHECK: fcdp.state_store %{{.*}} to @bucket.c.exp_avg at 0 on d2h
// CHECK: fcdp.accumulate %[[B]] into @bucket.b overwrite
// CHECK: fcdp.state_load @bucket.a.exp_avg at 0 on h2d
// CHECK: fcdp.shard_update @bucket.b piece 0 to 256
// CHECK: fcdp.accumulate %{{.*}} into @bucket.a overwrite
// CHECK: fcdp.shard_update @bucket.a piece 0 to 512
// CHECK: fcdp.shard_update @bucket.a piece 512 to 768
// CHECK-LABEL: func.func @update
// CHECK-NEXT: return

// The pieces of a bucket are spread over the operations up to the next accumulate, which hide their copies.
// RUN: fcdp-opt %s --fcdp-pipeline="strategy=zero3 prefetch=0 states=host,piece=4096" | FileCheck %s --check-prefix=SPREAD
// SPREAD-LABEL: func.func @only_microbatch
// SPREAD: fcdp.shard_update @bucket.c piece 0 to 512
// SPREAD: fcdp.pack @bucket.a
// SPREAD: fcdp.shard_update @bucket.c piece 512 to 1024
// SPREAD: fcdp.accumulate %{{.*}} into @bucket.b overwrite

// With several micro-batches the last one updates, and gradients have memory of their own.
// RUN: fcdp-opt %s --fcdp-pipeline="%{step} micro-batches=2" | FileCheck %s --check-prefix=SEVERAL
// SEVERAL: fcdp.state @bucket.b.grad grad of @bucket.b in device : tensor<256xf32> at <arena = device, offset = {{[1-9]}}
// SEVERAL-LABEL: func.func @first_microbatch
// SEVERAL-NOT: fcdp.shard_update
// SEVERAL-LABEL: func.func @last_microbatch
// SEVERAL: fcdp.shard_update @bucket.a piece 512 to 768
// SEVERAL-LABEL: func.func @update
// SEVERAL-NEXT: return

// If they accumulate the sums of a node in host memory, gradients have one place.
// RUN: fcdp-opt %s --fcdp-pipeline="%{step} micro-batches=3 accumulate=node_host" | FileCheck %s --check-prefix=SUMS
// SUMS: fcdp.state @bucket.a.grad grad of @bucket.a in device : tensor<768xf32> at <arena = device, offset = 0,
// SUMS: fcdp.state @bucket.b.grad grad of @bucket.b in device : tensor<256xf32> at <arena = device, offset = 0,
// SUMS-LABEL: func.func @last_microbatch
// SUMS: fcdp.accumulate %{{.*}} into @bucket.c overwrite
// SUMS: fcdp.shard_update @bucket.c piece
// SUMS: fcdp.accumulate %{{.*}} into @bucket.b overwrite

// On the host, the gradients of the next bucket wait until those of the one before it are stored.
// RUN: fcdp-opt %s --fcdp-pipeline="%{step} update=host" | FileCheck %s --check-prefix=HOST
// HOST-LABEL: func.func @only_microbatch
// HOST: fcdp.store_gradient @bucket.c piece 0 to 256 shard on d2h
// HOST-NEXT: %[[STORED:.*]] = fcdp.record on d2h
// HOST: fcdp.host_update %{{.*}} of @bucket.c
// HOST: fcdp.load_shard %{{.*}} to @bucket.c
// HOST: fcdp.wait %[[STORED]] on compute
// HOST: fcdp.accumulate %{{.*}} into @bucket.b overwrite

// DontUpdateEarly if something needs all gradients, and states on the device.
// RUN: fcdp-opt %s --fcdp-pipeline="%{step} clip-norm=1" | FileCheck %s --check-prefix=BEHIND
// RUN: fcdp-opt %s --fcdp-pipeline="nodes=2 ranks-per-node=2 strategy=zero3 prefetch=0" | FileCheck %s --check-prefix=BEHIND
// BEHIND-LABEL: func.func @only_microbatch
// BEHIND-NOT: fcdp.shard_update
// BEHIND-LABEL: func.func @update
// BEHIND: fcdp.shard_update @bucket.a

// The proof: each of these changes is refused.
// RUN: fcdp-opt %s --fcdp-shard="nodes=2 ranks-per-node=2" --fcdp-bucket --fcdp-decide=strategy=zero3 --fcdp-decide-states=states=host --fcdp-two-level --fcdp-accumulate --fcdp-cache --fcdp-stream-states --fcdp-delay-sums --fcdp-update-early -o %t.early
// RUN: %edit %t.planned --in only_microbatch --first --line "fcdp.shard_update @bucket.c" --replace "@bucket.c piece 0 to 256" "@bucket.b piece 0 to 256" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=TWICE
// TWICE: error: 'fcdp.shard_update' op for 'b' of @bucket.b in @only_microbatch: reads @bucket.b.grad, which has no valid content: in this run nothing has filled it, or something has overwritten it
// RUN: %edit %t.planned --in only_microbatch --first --delete "fcdp.accumulate %{{.*}} into @bucket.b" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=GONE
// GONE: error: 'fcdp.shard_update' op for 'b' of @bucket.b in @only_microbatch: reads @bucket.b.grad, which has no valid content
// RUN: %edit %t.early --in only_microbatch --first --delete "fcdp.shard_update @bucket.b" | not fcdp-opt --fcdp-verify-sharded 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: error: expected one update of @bucket.b, got 0
// Another state in the memory of gradients.
// RUN: sed '/@bucket.a.shard shard/s/offset = [0-9]*/offset = 1024/' %t.planned | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=APART
// APART: error: 'fcdp.state' op of 'a' of @bucket.a: its buffer at 1024 overlaps another state

module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @a : tensor<3072xf32> unit "a" trainable names ["a"]
  fcdp.parameter @b : tensor<1024xf32> unit "b" trainable names ["b"]
  fcdp.parameter @c : tensor<1024xf32> unit "c" trainable names ["c"]
  func.func @step() {
    %a = fcdp.read_parameter @a : tensor<3072xf32>
    %b = fcdp.read_parameter @b : tensor<1024xf32>
    %c = fcdp.read_parameter @c : tensor<1024xf32>
    %0 = aten.call "aten.sum.default"(self = %a) : (tensor<3072xf32>) -> tensor<f32>
    %1 = aten.call "aten.mul.Tensor"(self = %b, other = %0) : (tensor<1024xf32>, tensor<f32>) -> tensor<1024xf32>
    %2 = aten.call "aten.mul.Tensor"(self = %c, other = %1) : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
    %3 = aten.call "aten.sum.default"(self = %2) : (tensor<1024xf32>) -> tensor<f32>
    fcdp.loss %3 : tensor<f32>
    %4 = aten.call "aten.mul.Tensor"(self = %c, other = %1) : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
    fcdp.gradient %4 of @c : tensor<1024xf32>
    %5 = aten.call "aten.mul.Tensor"(self = %b, other = %3) : (tensor<1024xf32>, tensor<f32>) -> tensor<1024xf32>
    fcdp.gradient %5 of @b : tensor<1024xf32>
    %7 = aten.call "aten.sum.default"(self = %b) : (tensor<1024xf32>) -> tensor<f32>
    %6 = aten.call "aten.mul.Tensor"(self = %a, other = %7) : (tensor<3072xf32>, tensor<f32>) -> tensor<3072xf32>
    fcdp.gradient %6 of @a : tensor<3072xf32>
    return
  }
}
