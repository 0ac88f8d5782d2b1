// Strategy `auto` knows what is sent: differences, which only a slice in host
// memory allows, cost less than keeping the copy on the device saves.
// RUN: split-file %s %t
// RUN: fcdp-opt %t/step.mlir --fcdp-shard="nodes=2 ranks-per-node=2" --fcdp-bucket --fcdp-decide="strategy=auto cluster=%t/slow.yaml" | FileCheck %s --check-prefix=RAW
// RUN: fcdp-opt %t/step.mlir --fcdp-shard="nodes=2 ranks-per-node=2" --fcdp-bucket --fcdp-decide="strategy=auto cluster=%t/slow.yaml wire=delta" | FileCheck %s --check-prefix=DELTA
// RUN: fcdp-opt %t/step.mlir --fcdp-shard="nodes=2 ranks-per-node=2" --fcdp-bucket --fcdp-decide="strategy=auto cluster=%t/slow.yaml wire=auto reduce-wire=int8" | FileCheck %s --check-prefix=DELTA
// RUN: fcdp-opt %t/step.mlir --fcdp-shard="nodes=2 ranks-per-node=2" --fcdp-bucket --fcdp-decide="strategy=auto cluster=%t/fast.yaml wire=auto" | FileCheck %s --check-prefix=RAW
// RUN: fcdp-opt %t/step.mlir --fcdp-pipeline="nodes=2 ranks-per-node=2 strategy=auto cluster=%t/slow.yaml wire=auto" | FileCheck %s --check-prefix=PLAN
// RAW: fcdp.bucket @bucket.a {{.*}} residency {{drop|node|full}}
// DELTA: fcdp.bucket @bucket.a {{.*}} residency host
// PLAN: fcdp.bucket @bucket.a {{.*}} residency host gather_wire delta
// PLAN: fcdp.all_gather {{.*}} delta @bucket.a.cache

// RUN: not fcdp-opt %t/step.mlir --fcdp-shard="nodes=2 ranks-per-node=2" --fcdp-bucket --fcdp-decide="strategy=auto cluster=%t/slow.yaml wire=int8" 2>&1 | FileCheck %s --check-prefix=BAD
// BAD: error: wire: expected 'raw', 'delta' or 'auto', got 'int8'

//--- step.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @a : tensor<1048576xbf16> unit "a" trainable names ["a"]
  func.func @step() {
    %a = fcdp.read_parameter @a : tensor<1048576xbf16>
    %0 = aten.call "aten.neg.default"(self = %a) : (tensor<1048576xbf16>) -> tensor<1048576xbf16>
    %1 = aten.call "aten.mul.Tensor"(self = %0, other = %a) : (tensor<1048576xbf16>, tensor<1048576xbf16>) -> tensor<1048576xbf16>
    %l = aten.call "aten.sum.default"(self = %1) : (tensor<1048576xbf16>) -> tensor<bf16>
    fcdp.loss %l : tensor<bf16>
    fcdp.gradient %1 of @a : tensor<1048576xbf16>
    return
  }
}
//--- slow.yaml
name: cpu
nodes: 2
ranks_per_node: 2
device:
  memory: 4e9
  memory_bandwidth: 7.5e9
  flops:
    f64: 45e9
    f32: 85e9
    bf16: 525e9
    f16: 650e9
  compute_efficiency: 0.75
  memory_efficiency: 0.75
  launch_latency: 2e-6
host:
  memory: 8e9
inter:
  bandwidth: 25e6
  latency: 50e-6
  sharing: node
intra:
  bandwidth: 1e9
  latency: 50e-6
  sharing: rank
h2d:
  bandwidth: 3.5e9
  latency: 2e-6
  sharing: rank
d2h:
  bandwidth: 3.5e9
  latency: 2e-6
  sharing: rank
//--- fast.yaml
name: cpu
nodes: 2
ranks_per_node: 2
device:
  memory: 4e9
  memory_bandwidth: 7.5e9
  flops:
    f64: 45e9
    f32: 85e9
    bf16: 525e9
    f16: 650e9
  compute_efficiency: 0.75
  memory_efficiency: 0.75
  launch_latency: 2e-6
host:
  memory: 8e9
inter:
  bandwidth: 10e9
  latency: 50e-6
  sharing: node
intra:
  bandwidth: 1e9
  latency: 50e-6
  sharing: rank
h2d:
  bandwidth: 3.5e9
  latency: 2e-6
  sharing: rank
d2h:
  bandwidth: 3.5e9
  latency: 2e-6
  sharing: rank
