// Decisions by the time that a step takes on a cluster.
// RUN: split-file %s %t
// RUN: fcdp-opt %t/step.mlir --fcdp-shard="nodes=2 ranks-per-node=2" --fcdp-bucket -o %t/laid-out.mlir

// A network that is slow next to all else, and memory for everything: copies
// are kept, on the device or in host memory. The last unit's one range needs no
// copy.
// RUN: fcdp-opt %t/laid-out.mlir --fcdp-decide="strategy=auto cluster=%t/slow-network.yaml" | FileCheck %s --check-prefix=KEEP
// KEEP: module attributes {{{.*}}fcdp.prefetch = {{[1-3]}} : i64, fcdp.reductions = {{[1-3]}} : i64, fcdp.strategy = "auto"
// KEEP: fcdp.bucket @bucket.a {{.*}} residency {{(host|full|node)}} members
// KEEP: fcdp.bucket @bucket.b {{.*}} residency {{(host|full|node)}} members
// KEEP: fcdp.bucket @bucket.c {{.*}} residency drop members

// Remarks state what a copy saves and costs, and the plans that were compared.
// RUN: fcdp-opt %t/laid-out.mlir --fcdp-decide="strategy=auto cluster=%t/slow-network.yaml" --remarks-filter="fcdp-.*" --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK
// REMARK-DAG: remark: {{.*}}candidate takes {{.*}}s, was estimated to take
// REMARK-DAG: remark: {{.*}}bucket bucket.a: {{host|full|node}}, saves {{.*}}ms of inter-node time a step, costs {{.*}} kB of each
// REMARK-DAG: remark: {{.*}}bucket bucket.c: drop, saves nothing between nodes, costs nothing

// Slices of the copies do not fit on the device; host memory has them.
// RUN: %edit %t/slow-network.yaml --line "{{h2d|d2h}}:" --replace "bandwidth: 1e9" "bandwidth: 1e7" > %t/slow-host.yaml
// RUN: fcdp-opt %t/laid-out.mlir --fcdp-decide="strategy=auto cluster=%t/slow-host.yaml device-memory=2400000 prefetch=0 reductions=1" | FileCheck %s --check-prefix=HOST
// HOST: fcdp.bucket @bucket.a {{.*}} residency host members
// HOST: fcdp.bucket @bucket.b {{.*}} residency host members

// Nor do they fit in host memory.
// RUN: fcdp-opt %t/laid-out.mlir --fcdp-decide="strategy=auto cluster=%t/slow-network.yaml device-memory=2400000 host-memory=1 prefetch=0 reductions=1" | FileCheck %s --check-prefix=DROP
// DROP: fcdp.bucket @bucket.a {{.*}} residency drop members
// DROP: fcdp.bucket @bucket.b {{.*}} residency drop members

// Dont: what is given stays, and what is asked for is not chosen.
// RUN: %edit %t/laid-out.mlir --replace "trainable members [@b" "trainable residency drop members [@b" | fcdp-opt --fcdp-decide="strategy=auto cluster=%t/slow-network.yaml prefetch=5 reductions=4" | FileCheck %s --check-prefix=GIVEN
// GIVEN: fcdp.prefetch = 5 : i64, fcdp.reductions = 4 : i64
// GIVEN: fcdp.bucket @bucket.b {{.*}} residency drop members

// Gradient accumulators of four micro-batches are kept in host memory if the
// device has no room for them, and host memory has.
// RUN: %python %S/../Inputs/chain.py 12 65536 | fcdp-opt --fcdp-shard="nodes=2 ranks-per-node=2 micro-batches=4" --fcdp-bucket -o %t/chain.mlir
// RUN: fcdp-opt %t/chain.mlir --fcdp-decide="strategy=auto cluster=%t/slow-network.yaml device-memory=6500000" | FileCheck %s --check-prefix=SUMS
// SUMS-COUNT-12: accumulation node_host members
// RUN: fcdp-opt %t/chain.mlir --fcdp-decide="strategy=auto cluster=%t/slow-network.yaml device-memory=6500000 host-memory=3000000" | FileCheck %s --check-prefix=NOROOM
// NOROOM: fcdp.bucket
// NOROOM-NOT: node_host
// RUN: fcdp-opt %t/chain.mlir --fcdp-decide="strategy=auto cluster=%t/slow-network.yaml" | FileCheck %s --check-prefix=ROOM
// ROOM-COUNT-12: accumulation full members

// RUN: not fcdp-opt %t/laid-out.mlir --fcdp-decide="strategy=auto" 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: error: strategy 'auto' chooses for a cluster; give one as 'cluster', a file or the name of a preset
// RUN: not fcdp-opt %t/laid-out.mlir --fcdp-decide="strategy=auto cluster=%t/absent.yaml" 2>&1 | FileCheck %s --check-prefix=ABSENT
// ABSENT: error: cluster: {{.*}}absent.yaml
// RUN: not fcdp-opt %t/laid-out.mlir --fcdp-decide="strategy=auto cluster=%t/slow-network.yaml device-memory=1000" 2>&1 | FileCheck %s --check-prefix=SMALL
// SMALL: error: strategy 'auto': no plan fits: the smallest takes {{[0-9]+}} bytes of device memory of 1000 and 0 bytes of host memory of 1000000000000
// RUN: not fcdp-opt %t/laid-out.mlir --fcdp-decide="strategy=auto accumulate=half cluster=%t/slow-network.yaml" 2>&1 | FileCheck %s --check-prefix=ACCUMULATE
// ACCUMULATE: error: accumulate: expected 'sharded', 'node', 'node_host' or 'full', got 'half'

// If only latency matters, one step is faster than two, also in a preset. A given
// attribute stays.
// RUN: %edit %t/slow-network.yaml --replace "bandwidth: 1e6" "bandwidth: 1e12" --replace "bandwidth: 1e9" "bandwidth: 1e12" --replace "latency: 1e-6" "latency: 1e-3" > %t/slow-start.yaml
// RUN: fcdp-opt %t/laid-out.mlir --fcdp-decide="strategy=auto cluster=%t/slow-start.yaml" | FileCheck %s --check-prefix=FLAT
// RUN: fcdp-opt %t/laid-out.mlir --fcdp-decide="strategy=zero3 collectives=auto cluster=%t/slow-start.yaml" | FileCheck %s --check-prefix=FLAT
// FLAT: fcdp.bucket @bucket.a {{.*}} collectives flat members
// FLAT: fcdp.bucket @bucket.b {{.*}} collectives flat members
// FLAT: fcdp.bucket @bucket.c {{.*}} collectives flat members
// Carried on to a plan that is proved.
// RUN: fcdp-opt %t/step.mlir --fcdp-pipeline="strategy=auto cluster=%t/slow-start.yaml" | FileCheck %s --check-prefix=PLANNED
// PLANNED: fcdp.all_gather {{.*}} over @world[node, local] {{.*}} on inter {
// PLANNED: fcdp.reduce_scatter {{.*}} over @world[node, local] on inter_reduce {
// Dont: a slow network carries each byte once.
// RUN: fcdp-opt %t/laid-out.mlir --fcdp-decide="strategy=zero3 collectives=auto cluster=%t/slow-network.yaml" | FileCheck %s --check-prefix=ONCE
// ONCE: fcdp.bucket @bucket.a
// ONCE-NOT: collectives
// ONCE: fcdp.state
// RUN: fcdp-opt %t/laid-out.mlir --fcdp-decide="strategy=auto collectives=two-level cluster=%t/slow-start.yaml" | FileCheck %s --check-prefix=ONCE
// RUN: %edit %t/laid-out.mlir --replace "trainable members [@b" "trainable collectives two_level members [@b" | fcdp-opt --fcdp-decide="strategy=auto cluster=%t/slow-start.yaml" | FileCheck %s --check-prefix=KEPT
// KEPT: fcdp.bucket @bucket.a {{.*}} collectives flat members
// KEPT: fcdp.bucket @bucket.b {{.*}} collectives two_level members

// The pipeline takes nodes and ranks from the description, and a given number
// instead.
// RUN: fcdp-opt %t/step.mlir --fcdp-pipeline="strategy=auto cluster=%t/slow-network.yaml" | FileCheck %s --check-prefix=MESH
// MESH: fcdp.mesh @world(node = 2, local = 2)
// RUN: fcdp-opt %t/step.mlir --fcdp-pipeline="strategy=auto nodes=3 cluster=%t/slow-network.yaml" | FileCheck %s --check-prefix=OTHER
// OTHER: fcdp.mesh @world(node = 3, local = 2)

//--- slow-network.yaml
name: slow-network
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
  bandwidth: 1e6
  latency: 1e-6
  sharing: node
intra:
  bandwidth: 1e9
  latency: 1e-6
  sharing: rank
h2d: {bandwidth: 1e9, latency: 1e-6, sharing: rank}
d2h: {bandwidth: 1e9, latency: 1e-6, sharing: rank}
//--- step.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @a : tensor<65536xf32> unit "a" trainable names ["a"]
  fcdp.parameter @b : tensor<65536xf32> unit "b" trainable names ["b"]
  fcdp.parameter @c : tensor<65536xf32> unit "c" trainable names ["c"]
  func.func @step() {
    %a = fcdp.read_parameter @a : tensor<65536xf32>
    %b = fcdp.read_parameter @b : tensor<65536xf32>
    %c = fcdp.read_parameter @c : tensor<65536xf32>
    %0 = aten.call "aten.neg.default"(self = %a) : (tensor<65536xf32>) -> tensor<65536xf32>
    %1 = aten.call "aten.mul.Tensor"(self = %0, other = %b) : (tensor<65536xf32>, tensor<65536xf32>) -> tensor<65536xf32>
    %2 = aten.call "aten.mul.Tensor"(self = %1, other = %c) : (tensor<65536xf32>, tensor<65536xf32>) -> tensor<65536xf32>
    %l = aten.call "aten.sum.default"(self = %2) : (tensor<65536xf32>) -> tensor<f32>
    %3 = aten.call "aten.mul.Tensor"(self = %2, other = %c) : (tensor<65536xf32>, tensor<65536xf32>) -> tensor<65536xf32>
    %4 = aten.call "aten.mul.Tensor"(self = %3, other = %b) : (tensor<65536xf32>, tensor<65536xf32>) -> tensor<65536xf32>
    %5 = aten.call "aten.mul.Tensor"(self = %4, other = %a) : (tensor<65536xf32>, tensor<65536xf32>) -> tensor<65536xf32>
    fcdp.loss %l : tensor<f32>
    fcdp.gradient %3 of @c : tensor<65536xf32>
    fcdp.gradient %4 of @b : tensor<65536xf32>
    fcdp.gradient %5 of @a : tensor<65536xf32>
    return
  }
}
