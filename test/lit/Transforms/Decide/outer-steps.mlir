// RUN: split-file %s %t
// RUN: fcdp-opt %t/step.mlir --fcdp-shard="nodes=2 ranks-per-node=2 micro-batches=2 clip-norm=0.5 optimizer=sgd" --fcdp-bucket=sharding=node --fcdp-decide=strategy=hsdp -o %t/hsdp.mlir
// RUN: fcdp-opt %t/hsdp.mlir --fcdp-outer-steps=outer=8 --fcdp-verify-sharded -o %t/outer.mlir
// RUN: FileCheck %s --input-file=%t/outer.mlir

// Nodes train by themselves, and all buckets are synchronized together.
// CHECK: module attributes {{.*}}fcdp.outer = #fcdp.outer<every = 8, lr = 0.69999999999999996 : f64, momentum = 9.000000e-01 : f64, nesterov = true, fragments = 1>
// CHECK: fcdp.bucket @bucket.a {{.*}} outer 0 members [@w at 0]
// CHECK-NEXT: fcdp.state @bucket.a.outer outer of @bucket.a in host : tensor<32xf32>
// CHECK-NEXT: fcdp.state @bucket.a.outer_momentum outer_momentum of @bucket.a in host : tensor<32xf32>
// CHECK: fcdp.bucket @bucket.b {{.*}} outer 0 members [@u at 0]
// Dont: a frozen bucket is the same on all nodes.
// CHECK: fcdp.bucket @bucket.c.frozen
// CHECK-NOT: outer
// CHECK: fcdp.bucket @bucket.d {{.*}} outer 0 members [@x at 0]
// CHECK-LABEL: func.func @first_microbatch
// CHECK: %[[P:.*]] = fcdp.pack @bucket.a
// CHECK-NEXT: %[[R:.*]] = fcdp.reduce_scatter %[[P]] of @bucket.a over @world[local] : tensor<64xf32> to tensor<32xf32>
// CHECK: fcdp.accumulate %[[R]] into @bucket.a overwrite : tensor<32xf32>
// Gradients are the mean over the ranks of a node and micro-batches.
// CHECK-LABEL: func.func @update
// CHECK-NEXT: fcdp.clip_gradients to 5.000000e-01 scale 2.500000e-01
// CHECK-NEXT: fcdp.shard_update @bucket.a scale 2.500000e-01
// CHECK-NEXT: fcdp.shard_update @bucket.b scale 2.500000e-01
// CHECK-NEXT: fcdp.shard_update @bucket.d scale 2.500000e-01
// A bucket is updated when the next one is in flight.
// CHECK-LABEL: func.func @outer_update() attributes {fcdp.role = #fcdp.role<outer_update>}
// CHECK-NEXT: %[[A:.*]] = fcdp.outer_difference @bucket.a : tensor<32xbf16>
// CHECK-NEXT: %[[AR:.*]] = fcdp.reduce_scatter %[[A]] of @bucket.a over @world[node] : tensor<32xbf16> to tensor<16xbf16>
// CHECK-NEXT: %[[AS:.*]] = fcdp.all_gather %[[AR]] of @bucket.a over @world[node] : tensor<16xbf16> to tensor<32xbf16>
// CHECK-NEXT: fcdp.outer_difference @bucket.b : tensor<64xbf16>
// CHECK-NEXT: fcdp.reduce_scatter
// CHECK-NEXT: %[[BS:.*]] = fcdp.all_gather
// CHECK-NEXT: fcdp.outer_update @bucket.a with %[[AS]] scale 5.000000e-01 : tensor<32xbf16>
// CHECK-NEXT: fcdp.outer_difference @bucket.d : tensor<32xbf16>
// CHECK-NEXT: fcdp.reduce_scatter
// CHECK-NEXT: %[[DS:.*]] = fcdp.all_gather
// CHECK-NEXT: fcdp.outer_update @bucket.b with %[[BS]] scale 5.000000e-01 : tensor<64xbf16>
// CHECK-NEXT: fcdp.outer_update @bucket.d with %[[DS]] scale 5.000000e-01 : tensor<32xbf16>
// CHECK-NEXT: return
// CHECK-NEXT: }

// A module that has outer steps stays as it is, whatever is asked for.
// RUN: fcdp-opt %t/outer.mlir --fcdp-outer-steps=outer=8 | diff %t/outer.mlir -
// RUN: fcdp-opt %t/outer.mlir --fcdp-outer-steps=outer=4,momentum=0,fragments=2 | diff %t/outer.mlir -

// Dont: without the option nodes are synchronized in every step.
// RUN: fcdp-opt %t/hsdp.mlir --fcdp-outer-steps | diff %t/hsdp.mlir -

// The settings of the optimizer, and the type and the form of what is sent.
// RUN: fcdp-opt %t/hsdp.mlir --fcdp-outer-steps=outer=4,optimizer=sgd,lr=1,momentum=0.5,dtype=f32,wire=int8 --fcdp-verify-sharded | FileCheck %s --check-prefix=SGD
// SGD: fcdp.outer = #fcdp.outer<every = 4, lr = 1.000000e+00 : f64, momentum = 5.000000e-01 : f64, nesterov = false, fragments = 1>
// SGD: fcdp.bucket @bucket.a {{.*}} reduce_wire int8 outer 0 members
// SGD: fcdp.bucket @bucket.c.frozen {{.*}} residency drop members
// SGD: func.func @outer_update
// SGD-NEXT: %[[D:.*]] = fcdp.outer_difference @bucket.a : tensor<32xf32>
// SGD-NEXT: fcdp.reduce_scatter %[[D]] of @bucket.a over @world[node] : tensor<32xf32> to tensor<16xf32>
// RUN: fcdp-opt %t/hsdp.mlir --fcdp-outer-steps=outer=4,dtype=f16 | FileCheck %s --check-prefix=F16
// F16: fcdp.outer_difference @bucket.a : tensor<32xf16>
// Dont: without momentum none is kept, and there is nothing that Nesterov's rule could look ahead by.
// RUN: fcdp-opt %t/hsdp.mlir --fcdp-outer-steps=outer=4,momentum=0 --fcdp-verify-sharded | FileCheck %s --check-prefix=PLAIN
// PLAIN: momentum = 0.000000e+00 : f64, nesterov = false
// PLAIN-NOT: outer_momentum

// Fragments are consecutive buckets with about as many elements each.
// RUN: fcdp-opt %t/hsdp.mlir --fcdp-outer-steps=outer=4,fragments=2 --fcdp-verify-sharded | FileCheck %s --check-prefix=TWO
// TWO: fcdp.bucket @bucket.a {{.*}} outer 0 members
// TWO: fcdp.bucket @bucket.b {{.*}} outer 0 members
// TWO: fcdp.bucket @bucket.d {{.*}} outer 1 members
// TWO: func.func @outer_update.0() attributes {fcdp.role = #fcdp.role<outer_update>, fcdp.variant = 0 : i64}
// TWO: fcdp.outer_update @bucket.a
// TWO: fcdp.outer_update @bucket.b
// TWO-NOT: @bucket.d
// TWO: func.func @outer_update.1() attributes {fcdp.role = #fcdp.role<outer_update>, fcdp.variant = 1 : i64}
// TWO-NEXT: fcdp.outer_difference @bucket.d
// TWO: fcdp.outer_update @bucket.d
// RUN: fcdp-opt %t/hsdp.mlir --fcdp-outer-steps=outer=4,fragments=3 --fcdp-verify-sharded | FileCheck %s --check-prefix=THREE
// THREE: fcdp.bucket @bucket.a {{.*}} outer 0 members
// THREE: fcdp.bucket @bucket.b {{.*}} outer 1 members
// THREE: fcdp.bucket @bucket.d {{.*}} outer 2 members
// THREE: func.func @outer_update.2() attributes {fcdp.role = #fcdp.role<outer_update>, fcdp.variant = 2 : i64}

// A sum over a node's ranks is all that a node has, whether it is called so or not.
// RUN: fcdp-opt %t/step.mlir --fcdp-shard="nodes=2 ranks-per-node=2 micro-batches=2 optimizer=sgd" --fcdp-bucket=sharding=node --fcdp-decide="strategy=mics accumulate=node" --fcdp-outer-steps=outer=8 --fcdp-verify-sharded -o %t/mics.mlir
// RUN: FileCheck %s --check-prefix=MICS --input-file=%t/mics.mlir
// MICS: fcdp.bucket @bucket.a {{.*}} accumulation sharded outer 0 members
// RUN: fcdp-opt %t/mics.mlir --fcdp-two-level --fcdp-accumulate --fcdp-verify-sharded | FileCheck %s --check-prefix=SHARDED
// SHARDED-NOT: fcdp.state {{.*}} node_grad
// SHARDED: func.func @first_microbatch
// A sum of whole gradients is reduced within the node at the end.
// RUN: fcdp-opt %t/step.mlir --fcdp-shard="nodes=2 ranks-per-node=2 micro-batches=2 optimizer=sgd" --fcdp-bucket=sharding=node --fcdp-decide="strategy=hsdp accumulate=full" --fcdp-outer-steps=outer=8 --fcdp-two-level --fcdp-accumulate --fcdp-verify-sharded | FileCheck %s --check-prefix=FULL
// FULL: fcdp.bucket @bucket.a {{.*}} accumulation full outer 0 members
// FULL: func.func @first_microbatch
// FULL-NOT: fcdp.reduce_scatter
// FULL: func.func @last_microbatch
// FULL: fcdp.reduce_scatter {{.*}} of @bucket.b over @world[local] : tensor<128xf32> to tensor<64xf32>
// FULL-NOT: fcdp.reduce_scatter {{.*}} over @world[node]
// FULL: func.func @update
// With one rank per node no gradient leaves it.
// RUN: fcdp-opt %t/step.mlir --fcdp-pipeline="nodes=4 ranks-per-node=1 strategy=hsdp optimizer=sgd outer=8" | FileCheck %s --check-prefix=ALONE
// ALONE: func.func @only_microbatch
// ALONE-NOT: over @world[node]
// ALONE: func.func @update
// ALONE: fcdp.shard_update @bucket.a scale 1.000000e+00
// ALONE: func.func @outer_update
// ALONE: fcdp.reduce_scatter {{.*}} of @bucket.a over @world[node] {{.*}} : tensor<64xbf16> to tensor<16xbf16>
// ALONE: fcdp.outer_update @bucket.a with {{.*}} scale 2.500000e-01 : tensor<64xbf16>

// A scale of the user's own stays.
// RUN: %edit %t/hsdp.mlir --replace "fcdp.shard_update @bucket.a scale {{\S+}} with {{(.*)$}}" "fcdp.shard_update @bucket.a scale 3.0 with \1 {fcdp.own_scale}" --replace "fcdp.clip_gradients to {{(\S+)}} scale {{\S+}}" "fcdp.clip_gradients to \1 scale 3.0 {fcdp.own_scale}" | fcdp-opt --fcdp-outer-steps=outer=8 --fcdp-verify-sharded | FileCheck %s --check-prefix=OWN
// OWN: fcdp.clip_gradients to 5.000000e-01 scale 3.000000e+00 {fcdp.own_scale}
// OWN-NEXT: fcdp.shard_update @bucket.a scale 3.000000e+00 {{.*}} {fcdp.own_scale}
// OWN-NEXT: fcdp.shard_update @bucket.b scale 2.500000e-01

// Residuals are those of differences.
// RUN: fcdp-opt %t/step.mlir --fcdp-pipeline="nodes=2 ranks-per-node=2 strategy=hsdp optimizer=sgd outer=8,wire=int4" | FileCheck %s --check-prefix=WIRE
// WIRE: fcdp.state @bucket.a.residual residual of @bucket.a in host : tensor<32xf32>
// WIRE: func.func @only_microbatch
// WIRE-NOT: code int4
// WIRE: func.func @outer_update
// WIRE: fcdp.reduce_scatter {{.*}} of @bucket.a over @world[node] code int4 residual @bucket.a.residual on inter_reduce
// The wire of all reductions is that of these, too, unless they have their own.
// RUN: fcdp-opt %t/step.mlir --fcdp-pipeline="nodes=2 ranks-per-node=2 strategy=hsdp optimizer=sgd outer=8 reduce-wire=coded" | FileCheck %s --check-prefix=ALLWIRES
// ALLWIRES: func.func @outer_update
// ALLWIRES: fcdp.reduce_scatter {{.*}} over @world[node] code coded on inter_reduce
// RUN: fcdp-opt %t/step.mlir --fcdp-pipeline="nodes=2 ranks-per-node=2 strategy=hsdp optimizer=sgd outer=8,wire=raw reduce-wire=coded" | FileCheck %s --check-prefix=OWNWIRE
// OWNWIRE: fcdp.bucket @bucket.a {{.*}} reduce_wire raw outer 0
// OWNWIRE: func.func @outer_update
// OWNWIRE: fcdp.reduce_scatter {{.*}} over @world[node] on inter_reduce

// The pass refuses these modules.
// RUN: fcdp-opt %t/step.mlir --fcdp-shard="nodes=1 ranks-per-node=2 optimizer=sgd" --fcdp-bucket=sharding=node --fcdp-decide=strategy=hsdp -o %t/one.mlir
// RUN: not fcdp-opt %t/one.mlir --fcdp-outer-steps=outer=8 2>&1 | FileCheck %s --check-prefix=NODES
// NODES: error: outer: expected several nodes, got 1: a node alone has none to synchronize with
// RUN: sed 's/fcdp.parameter @v/fcdp.buffer @mean : tensor<4xf32> name "bn.mean" persistent mutable\n  fcdp.parameter @v/' %t/hsdp.mlir | not fcdp-opt --fcdp-outer-steps=outer=8 2>&1 | FileCheck %s --check-prefix=BUFFER
// BUFFER: error: outer: expected no buffer that the step writes, which would differ between nodes, got 'bn.mean'
// RUN: fcdp-opt %t/step.mlir --fcdp-shard="nodes=2 ranks-per-node=2 micro-batches=2 optimizer=sgd" --fcdp-bucket --fcdp-decide=strategy=fcdp -o %t/world.mlir
// RUN: not fcdp-opt %t/world.mlir --fcdp-outer-steps=outer=8 2>&1 | FileCheck %s --check-prefix=WORLD
// WORLD: error: outer: expected states that are sharded over the ranks of a node, as the strategies 'hsdp' and 'mics' have them, got sharding 'world'
// RUN: fcdp-opt %t/step.mlir --fcdp-shard="nodes=2 ranks-per-node=2 optimizer=sgd" --fcdp-bucket=sharding=none --fcdp-decide=strategy=ddp | not fcdp-opt --fcdp-outer-steps=outer=8 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: error: outer: expected states that are sharded over the ranks of a node, {{.*}}, got sharding 'none'
// RUN: %edit %t/hsdp.mlir --line trainable --replace "residency drop members" "residency drop accumulation node_host members" | not fcdp-opt --fcdp-outer-steps=outer=8 2>&1 | FileCheck %s --check-prefix=HOST
// HOST: error: outer: expected gradient accumulators on the device, got accumulation 'node_host'
// RUN: %edit %t/hsdp.mlir --replace "residency drop members" "residency drop collectives flat members" | not fcdp-opt --fcdp-outer-steps=outer=8 2>&1 | FileCheck %s --check-prefix=FLAT
// FLAT: error: outer: expected two-level collectives, got 'flat'
// Strategy auto shards within nodes, reduces in two levels, and merges no buckets below the number of fragments. Nodes
// keep their accumulators on the device.
// RUN: printf "base: cpu\nname: slow\ninter:\n  bandwidth: 1e3\n" > %t/slow.yaml
// RUN: fcdp-opt %t/step.mlir --fcdp-pipeline="nodes=2 ranks-per-node=2 micro-batches=2 optimizer=sgd strategy=auto cluster=%t/slow.yaml outer=8,fragments=3" --remarks-filter="fcdp-decide" --remark-format=emitRemark -o %t/auto.mlir 2> %t/auto.txt
// RUN: FileCheck %s --check-prefix=AUTO --input-file=%t/auto.mlir --implicit-check-not=node_host --implicit-check-not="collectives flat"
// AUTO: fcdp.bucket @bucket.a {{.*}} sharding node {{.*}} outer 0 members
// AUTO: fcdp.bucket @bucket.b {{.*}} sharding node {{.*}} outer 1 members
// AUTO: fcdp.bucket @bucket.d {{.*}} sharding node {{.*}} outer 2 members
// Nothing is sent between nodes in a step. Outer steps take their share of the time.
// RUN: FileCheck %s --check-prefix=TIME --input-file=%t/auto.txt --implicit-check-not="sharding world"
// TIME: candidate takes {{[0-9.]+}} ms, was estimated to take {{[0-9.]+}} us and {{.*}}occupies the network between nodes for 0 ns: sharding node
// RUN: not fcdp-opt %t/hsdp.mlir --fcdp-outer-steps=outer=8,fragments=4 2>&1 | FileCheck %s --check-prefix=FRAGMENTS
// FRAGMENTS: error: outer: expected at most as many fragments as trained buckets, 3, got 4
// RUN: sed 's/module attributes {/module attributes {fcdp.target = "cuda", /' %t/hsdp.mlir > %t/cuda.mlir
// RUN: not fcdp-opt %t/cuda.mlir --fcdp-outer-steps=outer=8,wire=coded 2>&1 | FileCheck %s --check-prefix=CUDA
// CUDA: error: outer: messages are coded without loss on CPUs only: expected 'wire' to be raw, int8 or int4 for the target 'cuda'
// RUN: fcdp-opt %t/cuda.mlir --fcdp-outer-steps=outer=8,wire=raw --fcdp-verify-sharded -o /dev/null
// RUN: fcdp-opt %t/cuda.mlir --fcdp-outer-steps=outer=8,wire=int8 --fcdp-verify-sharded -o /dev/null
// Reductions that are in two levels already.
// RUN: not fcdp-opt %t/hsdp.mlir --fcdp-two-level --fcdp-outer-steps=outer=8 2>&1 | FileCheck %s --check-prefix=LATE
// RUN: fcdp-opt %t/step.mlir --fcdp-shard="nodes=2 ranks-per-node=2 micro-batches=2 optimizer=sgd" --fcdp-bucket=sharding=node --fcdp-decide="strategy=mics accumulate=node" --fcdp-two-level --fcdp-accumulate | not fcdp-opt --fcdp-outer-steps=outer=8 2>&1 | FileCheck %s --check-prefix=LATE
// LATE: error: 'fcdp.accumulate' op outer: expected a gradient that is reduced over all ranks at once, as before --fcdp-two-level and --fcdp-accumulate
// RUN: not fcdp-opt %t/step.mlir --fcdp-outer-steps=outer=8 2>&1 | FileCheck %s --check-prefix=PHASE
// PHASE: error: expected a module in phase 'sharded'

// Texts of the option that say nothing.
// RUN: not fcdp-opt %t/hsdp.mlir --fcdp-outer-steps=outer=lr 2>&1 | FileCheck %s --check-prefix=STEPS
// STEPS: outer: expected the number of steps between two outer steps, of at least 1, first, got 'lr'
// RUN: not fcdp-opt %t/hsdp.mlir --fcdp-outer-steps=outer=0 2>&1 | FileCheck %s --check-prefix=ZERO
// ZERO: outer: expected the number of steps between two outer steps, of at least 1, first, got '0'
// RUN: not fcdp-opt %t/hsdp.mlir --fcdp-outer-steps=outer=2147483648 2>&1 | FileCheck %s --check-prefix=MANY
// MANY: outer: expected the number of steps between two outer steps, {{.*}} got '2147483648'
// RUN: not fcdp-opt %t/hsdp.mlir --fcdp-outer-steps=outer=2,fragments=3 2>&1 | FileCheck %s --check-prefix=MORE
// MORE: outer: expected 'fragments' to be a whole number of at most 2, got '2,fragments=3'
// RUN: not fcdp-opt %t/hsdp.mlir --fcdp-outer-steps=outer=2,fragments=1.5 2>&1 | FileCheck %s --check-prefix=HALF
// HALF: outer: expected 'fragments' to be a whole number of at most 2, got '2,fragments=1.5'
// RUN: not fcdp-opt %t/hsdp.mlir --fcdp-outer-steps=outer=2,fragments=0 2>&1 | FileCheck %s --check-prefix=NOFRAGMENT
// NOFRAGMENT: outer: expected
// RUN: not fcdp-opt %t/hsdp.mlir --fcdp-outer-steps=outer=2,beta=1 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// UNKNOWN: error: outer: an outer step has no 'beta'; it has optimizer, lr, momentum, fragments, dtype, wire
// RUN: not fcdp-opt %t/hsdp.mlir --fcdp-outer-steps=outer=2,lr=-1 2>&1 | FileCheck %s --check-prefix=RATE
// RATE: outer: expected
// RUN: not fcdp-opt %t/hsdp.mlir --fcdp-outer-steps=outer=2,optimizer=adamw 2>&1 | FileCheck %s --check-prefix=OPTIMIZER
// OPTIMIZER: outer: expected
// RUN: not fcdp-opt %t/hsdp.mlir --fcdp-outer-steps=outer=2,dtype=f64 2>&1 | FileCheck %s --check-prefix=TYPE
// TYPE: outer: expected
// RUN: not fcdp-opt %t/hsdp.mlir --fcdp-outer-steps=outer=2,wire=delta 2>&1 | FileCheck %s --check-prefix=DELTA
// DELTA: outer: expected

//--- step.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @w : tensor<64xf32> unit "a" trainable names ["w"]
  fcdp.parameter @u : tensor<128xf32> unit "b" trainable names ["u"]
  fcdp.parameter @v : tensor<4xf32> unit "c" names ["v"]
  fcdp.parameter @x : tensor<64xf32> unit "d" trainable names ["x"]
  func.func @step() {
    %w = fcdp.read_parameter @w : tensor<64xf32>
    %u = fcdp.read_parameter @u : tensor<128xf32>
    %v = fcdp.read_parameter @v : tensor<4xf32>
    %x = fcdp.read_parameter @x : tensor<64xf32>
    %l = aten.call "aten.sum.default"(self = %v) : (tensor<4xf32>) -> tensor<f32>
    %0 = aten.call "aten.neg.default"(self = %w) : (tensor<64xf32>) -> tensor<64xf32>
    %1 = aten.call "aten.neg.default"(self = %u) : (tensor<128xf32>) -> tensor<128xf32>
    %2 = aten.call "aten.neg.default"(self = %x) : (tensor<64xf32>) -> tensor<64xf32>
    fcdp.loss %l : tensor<f32>
    fcdp.gradient %0 of @w : tensor<64xf32>
    fcdp.gradient %1 of @u : tensor<128xf32>
    fcdp.gradient %2 of @x : tensor<64xf32>
    return
  }
}
