// Each fetch is issued as late, and each result accumulated as early, as hides the
// transfer.
// RUN: split-file %s %t
// RUN: fcdp-opt %t/step.mlir --fcdp-shard="nodes=2 ranks-per-node=2" --fcdp-bucket --fcdp-decide="strategy=zero3" --fcdp-two-level -o %t/given.mlir
// RUN: %edit %t/given.mlir --replace "fcdp.prefetch = 1 : i64, " "" --replace ", fcdp.reductions = 2 : i64" "" > %t/open.mlir
// RUN: fcdp-opt %t/open.mlir --fcdp-decide-overlap="cluster=%t/cluster.yaml" -o %t/decided.mlir
// RUN: FileCheck %s --check-prefix=LATE --input-file=%t/decided.mlir

// A remark reports it.
// RUN: fcdp-opt %t/open.mlir --fcdp-decide-overlap="cluster=%t/cluster.yaml" --remarks-filter="fcdp-.*" --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK
// REMARK: remark: {{.*}}@only_microbatch: 9 copies are fetched up to 2 units ahead, 5 reductions run over up to 3 units; takes {{.*}}s and {{.*}}B of a device's 1 TB; more memory would not make it faster
// RUN: fcdp-opt %t/open.mlir --fcdp-decide-overlap="cluster=%t/cluster.yaml device-memory=6100000" --remarks-filter="fcdp-.*" --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=LIMIT
// LIMIT: remark: {{.*}}@only_microbatch: {{.*}} of a device's 6.1 MB; memory limits it: it would take {{.*}}s with {{.*}}B

// A layer computes as long as two of the small gathers take, or half of the
// large one.
// LATE-LABEL: func.func @only_microbatch
// LATE: of @bucket.p0 over @world[local] range 0 {fcdp.prefetch = 0 : i64}
// LATE: of @bucket.p1 over @world[local] range 0 {fcdp.prefetch = 1 : i64}
// It goes two layers ahead, and so does what it would overtake.
// LATE: of @bucket.p2 over @world[local] range 0 {fcdp.prefetch = 2 : i64}
// LATE: of @bucket.large over @world[local] range 0 {fcdp.prefetch = 2 : i64}
// LATE: of @bucket.p3 over @world[local] range 0 {fcdp.prefetch = 1 : i64}
// The large one's reduction takes longer, too.
// LATE: fcdp.accumulate {{.*}} into @bucket.p3 overwrite {fcdp.reductions = 1 : i64}
// LATE: of @bucket.p2 over @world[local] range 1 {fcdp.prefetch = 1 : i64}
// LATE: fcdp.accumulate {{.*}} into @bucket.large overwrite {fcdp.reductions = 3 : i64}

// An accumulator in host memory is written by its store, which moves together with
// the addition.
// RUN: fcdp-opt %t/step.mlir --fcdp-shard="nodes=2 ranks-per-node=2 micro-batches=3" --fcdp-bucket --fcdp-decide="strategy=zero3 accumulate=node_host" --fcdp-two-level --fcdp-accumulate -o %t/host.mlir
// RUN: %edit %t/host.mlir --replace "fcdp.prefetch = 1 : i64, " "" --replace ", fcdp.reductions = 2 : i64" "" | fcdp-opt --fcdp-decide-overlap="cluster=%t/cluster.yaml" -o %t/host-decided.mlir
// RUN: FileCheck %s --check-prefix=HOST --input-file=%t/host-decided.mlir
// HOST-LABEL: func.func @next_microbatch
// HOST: fcdp.cache_store {{.*}} to @bucket.large.host_grad {fcdp.reductions = {{[1-9]}} : i64}
// Dont: in the last micro-batch its sum is needed where it is.
// HOST-LABEL: func.func @last_microbatch
// HOST-NOT: fcdp.add {{.*}} {fcdp.reductions

// A load is not issued in front of the store of the slice that it loads, however slow it is.
// RUN: fcdp-opt %t/step.mlir --fcdp-shard="nodes=2 ranks-per-node=2" --fcdp-bucket --fcdp-decide="strategy=fcdp" --fcdp-two-level --fcdp-cache -o %t/cached.mlir
// RUN: %edit %t/cached.mlir --replace "fcdp.prefetch = 1 : i64, " "" --replace ", fcdp.reductions = 2 : i64" "" | fcdp-opt --fcdp-decide-overlap="cluster=%t/cluster.yaml" | FileCheck %s --check-prefix=STORED
// STORED: of @bucket.large over @world[local] range 1 {fcdp.prefetch = 2 : i64}

// A copy that stays on the device has its memory already: it is not counted again while it is fetched.
// RUN: fcdp-opt %t/step.mlir --fcdp-shard="nodes=2 ranks-per-node=2 micro-batches=3" --fcdp-bucket --fcdp-decide="strategy=zero2" --fcdp-two-level --fcdp-cache -o %t/resident.mlir
// RUN: %edit %t/resident.mlir --replace "fcdp.prefetch = 1 : i64, " "" --replace ", fcdp.reductions = 2 : i64" "" | fcdp-opt --fcdp-decide-overlap="cluster=%t/cluster.yaml" --remarks-filter="fcdp-.*" --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=RESIDENT
// RESIDENT: @first_microbatch: 5 copies are fetched {{.*}} and 7.86 MB of a device's 1 TB

// Dont: nothing is moved yet, and nothing is on the gathers between nodes.
// RUN: %edit %t/decided.mlir --replace " {fcdp.prefetch = {{[0-9]}} : i64}" "" --replace " {fcdp.reductions = {{[0-9]}} : i64}" "" | diff %t/open.mlir -
// RUN: not grep "@world\[node\].*fcdp.prefetch" %t/decided.mlir

// The passes that move them do as they say.
// RUN: fcdp-opt %t/decided.mlir --fcdp-prefetch --fcdp-delay-sums | FileCheck %s --check-prefix=MOVED
// MOVED-LABEL: func.func @only_microbatch
// MOVED: of @bucket.p1 over @world[local] range 0
// MOVED: of @bucket.p2 over @world[local] range 0
// MOVED: fcdp.view_member {{.*}} @p0 of
// MOVED: of @bucket.large over @world[local] range 0
// MOVED: fcdp.view_member {{.*}} @p1 of
// MOVED: of @bucket.p3 over @world[local] range 0
// MOVED: fcdp.view_member {{.*}} @large of

// Dont: what is given stays, on an operation or on the module.
// RUN: %edit %t/open.mlir --line "bucket.p2 over @world[local] range 0" --replace "range 0" "range 0 {fcdp.prefetch = 0 : i64}" | fcdp-opt --fcdp-decide-overlap="cluster=%t/cluster.yaml" | FileCheck %s --check-prefix=KEPT
// KEPT: of @bucket.p2 over @world[local] range 0 {fcdp.prefetch = 0 : i64}
// RUN: fcdp-opt %t/given.mlir --fcdp-decide-overlap="cluster=%t/cluster.yaml" -o %t/same.mlir
// RUN: diff %t/given.mlir %t/same.mlir
// RUN: %edit %t/given.mlir --replace "fcdp.prefetch = 1 : i64, " "" | fcdp-opt --fcdp-decide-overlap="cluster=%t/cluster.yaml" | FileCheck %s --check-prefix=HALF
// HALF: of @bucket.large over @world[local] range 0 {fcdp.prefetch =
// HALF-NOT: fcdp.accumulate {{.*}} {fcdp.reductions

// Dont: without a cluster nothing is decided.
// RUN: fcdp-opt %t/open.mlir --fcdp-decide-overlap -o %t/none.mlir
// RUN: diff %t/open.mlir %t/none.mlir

// Less memory, less ahead; too little is refused.
// RUN: fcdp-opt %t/open.mlir --fcdp-decide-overlap="cluster=%t/cluster.yaml device-memory=6100000" | FileCheck %s --check-prefix=TIGHT
// TIGHT: of @bucket.p2 over @world[local] range 1 {fcdp.prefetch = 0 : i64}
// RUN: not fcdp-opt %t/open.mlir --fcdp-decide-overlap="cluster=%t/cluster.yaml device-memory=4000000" 2>&1 | FileCheck %s --check-prefix=SMALL
// SMALL: error: @only_microbatch: no schedule fits: the smallest takes {{[0-9]+}} bytes of device memory of 4000000

// RUN: not fcdp-opt %t/open.mlir --fcdp-decide-overlap="cluster=%t/absent.yaml" 2>&1 | FileCheck %s --check-prefix=ABSENT
// ABSENT: error: cluster: {{.*}}absent.yaml
// RUN: not fcdp-opt %t/step.mlir --fcdp-decide-overlap 2>&1 | FileCheck %s --check-prefix=PHASE
// PHASE: error: expected a module in phase 'sharded'
// RUN: fcdp-opt %t/step.mlir --fcdp-shard="nodes=2 ranks-per-node=2" --fcdp-bucket -o %t/world.mlir
// RUN: not fcdp-opt %t/world.mlir --fcdp-decide-overlap="cluster=%t/cluster.yaml" 2>&1 | FileCheck %s --check-prefix=LEVEL
// LEVEL: error: {{.*}}--fcdp-two-level

// In the pipeline it follows --fcdp-decide of auto.
// RUN: fcdp-opt %t/step.mlir --fcdp-pipeline="strategy=auto cluster=%t/cluster.yaml" | FileCheck %s --check-prefix=PIPELINE
// PIPELINE: of @bucket.large over @world[local] range 0 {{.*}}fcdp.prefetch =

//--- step.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @p0 : tensor<65536xf32> unit "p0" trainable names ["p0"]
  fcdp.parameter @p1 : tensor<65536xf32> unit "p1" trainable names ["p1"]
  fcdp.parameter @p2 : tensor<65536xf32> unit "p2" trainable names ["p2"]
  fcdp.parameter @large : tensor<262144xf32> unit "large" trainable names ["large"]
  fcdp.parameter @p3 : tensor<65536xf32> unit "p3" trainable names ["p3"]
  func.func @step() {
    %p0 = fcdp.read_parameter @p0 : tensor<65536xf32>
    %p1 = fcdp.read_parameter @p1 : tensor<65536xf32>
    %p2 = fcdp.read_parameter @p2 : tensor<65536xf32>
    %large = fcdp.read_parameter @large : tensor<262144xf32>
    %p3 = fcdp.read_parameter @p3 : tensor<65536xf32>
    %0 = aten.call "aten.neg.default"(self = %p0) : (tensor<65536xf32>) -> tensor<65536xf32>
    %1 = aten.call "aten.mul.Tensor"(self = %0, other = %p1) : (tensor<65536xf32>, tensor<65536xf32>) -> tensor<65536xf32>
    %2 = aten.call "aten.mul.Tensor"(self = %1, other = %p2) : (tensor<65536xf32>, tensor<65536xf32>) -> tensor<65536xf32>
    %3 = aten.call "aten.neg.default"(self = %large) : (tensor<262144xf32>) -> tensor<262144xf32>
    %4 = aten.call "aten.mul.Tensor"(self = %2, other = %p3) : (tensor<65536xf32>, tensor<65536xf32>) -> tensor<65536xf32>
    %l = aten.call "aten.sum.default"(self = %4) : (tensor<65536xf32>) -> tensor<f32>
    %g3 = aten.call "aten.mul.Tensor"(self = %4, other = %p3) : (tensor<65536xf32>, tensor<65536xf32>) -> tensor<65536xf32>
    %gl = aten.call "aten.mul.Tensor"(self = %3, other = %large) : (tensor<262144xf32>, tensor<262144xf32>) -> tensor<262144xf32>
    %g2 = aten.call "aten.mul.Tensor"(self = %g3, other = %p2) : (tensor<65536xf32>, tensor<65536xf32>) -> tensor<65536xf32>
    %g1 = aten.call "aten.mul.Tensor"(self = %g2, other = %p1) : (tensor<65536xf32>, tensor<65536xf32>) -> tensor<65536xf32>
    %g0 = aten.call "aten.mul.Tensor"(self = %g1, other = %p0) : (tensor<65536xf32>, tensor<65536xf32>) -> tensor<65536xf32>
    fcdp.loss %l : tensor<f32>
    fcdp.gradient %g3 of @p3 : tensor<65536xf32>
    fcdp.gradient %gl of @large : tensor<262144xf32>
    fcdp.gradient %g2 of @p2 : tensor<65536xf32>
    fcdp.gradient %g1 of @p1 : tensor<65536xf32>
    fcdp.gradient %g0 of @p0 : tensor<65536xf32>
    return
  }
}
//--- cluster.yaml
name: even
nodes: 2
ranks_per_node: 2
device:
  memory: 1e12
  memory_bandwidth: 1e12
  flops:
    f64: 1e12
    f32: 1e12
    bf16: 1e12
    f16: 1e12
  compute_efficiency: 0.5
  memory_efficiency: 0.5
  launch_latency: 1e-6
host:
  memory: 1e12
inter:
  bandwidth: 1.1e11
  latency: 1e-9
  sharing: node
intra:
  bandwidth: 4e11
  latency: 1e-9
  sharing: rank
h2d:
  bandwidth: 1e9
  latency: 1e-6
  sharing: rank
d2h:
  bandwidth: 1e9
  latency: 1e-6
  sharing: rank
