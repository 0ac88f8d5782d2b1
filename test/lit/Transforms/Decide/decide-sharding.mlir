// Over which ranks states are cut, where that is left open: a step of six small
// units on a network whose collectives are all latency.
// RUN: split-file %s %t
// RUN: %python %S/../Inputs/chain.py 6 1024 > %t/step.mlir
// RUN: fcdp-opt %t/step.mlir --fcdp-shard="nodes=2 ranks-per-node=2" --fcdp-bucket="sharding=auto" -o %t/open.mlir
// RUN: FileCheck %s --check-prefix=OPEN --input-file=%t/open.mlir
// OPEN: fcdp.open_sharding
// OPEN-NOT: sharding {{.*}} members

// With memory for everything no parameter is gathered, with less none between
// nodes. A rank's states are 6 x 4096 x 4 bytes whole.
// RUN: fcdp-opt %t/open.mlir --fcdp-decide="strategy=auto cluster=%t/latency.yaml" | FileCheck %s --check-prefix=NONE
// NONE-NOT: fcdp.open_sharding
// NONE-COUNT-6: sharding none residency full members
// RUN: fcdp-opt %t/open.mlir --fcdp-decide="strategy=auto cluster=%t/latency.yaml device-memory=110000" | FileCheck %s --check-prefix=NODE
// NODE-COUNT-6: sharding node residency
// RUN: fcdp-opt %t/open.mlir --fcdp-decide="strategy=auto cluster=%t/latency.yaml device-memory=70000" | FileCheck %s --check-prefix=WORLD
// WORLD: fcdp.bucket
// WORLD-NOT: fcdp.bucket {{.*}} sharding

// The pipeline leaves it open with auto.
// RUN: fcdp-opt %t/step.mlir --fcdp-pipeline="strategy=auto cluster=%t/latency.yaml bucket-bytes=0" | FileCheck %s --check-prefix=NONE

// A preset takes its own, and that comes to the text that --fcdp-bucket makes.
// RUN: fcdp-opt %t/open.mlir --fcdp-decide="strategy=hsdp" -o %t/decided.mlir
// RUN: fcdp-opt %t/step.mlir --fcdp-shard="nodes=2 ranks-per-node=2" --fcdp-bucket="sharding=node" --fcdp-decide="strategy=hsdp" | diff - %t/decided.mlir

// So do the collectives that are chosen for it.
// RUN: fcdp-opt %t/open.mlir --fcdp-decide="strategy=ddp collectives=auto cluster=%t/latency.yaml" -o %t/flat.mlir
// RUN: fcdp-opt %t/step.mlir --fcdp-shard="nodes=2 ranks-per-node=2" --fcdp-bucket="sharding=none" --fcdp-decide="strategy=ddp collectives=auto cluster=%t/latency.yaml" | diff - %t/flat.mlir

// Dont: the buckets of a layout that is given keep their sharding.
// RUN: fcdp-opt %t/step.mlir --fcdp-shard="nodes=2 ranks-per-node=2" --fcdp-bucket --fcdp-decide="strategy=auto cluster=%t/latency.yaml" | FileCheck %s --check-prefix=WORLD
// RUN: fcdp-opt %t/step.mlir --fcdp-shard="nodes=2 ranks-per-node=2" --fcdp-bucket="sharding=node" --fcdp-decide="strategy=auto cluster=%t/latency.yaml" | FileCheck %s --check-prefix=NODE
// Dont: nor does a given residency give way that the sharding does not have.
// RUN: %edit %t/open.mlir --replace "trainable members [@w0 " "trainable residency host members [@w0 " | fcdp-opt --fcdp-decide="strategy=auto cluster=%t/latency.yaml" | FileCheck %s --check-prefix=WORLD
// RUN: %edit %t/open.mlir --replace "trainable members [@w0 " "trainable residency host members [@w0 " | not fcdp-opt --fcdp-decide="strategy=hsdp" 2>&1 | FileCheck %s --check-prefix=GIVEN
// GIVEN: error: 'fcdp.bucket' op strategy 'hsdp' needs buckets of sharding 'node', got 'world'
// Dont: with one rank, or where two are the same, nothing changes.
// RUN: fcdp-opt %t/step.mlir --fcdp-shard --fcdp-bucket="sharding=auto" --fcdp-decide="strategy=auto cluster=%t/latency.yaml" | FileCheck %s --check-prefix=WORLD

//--- latency.yaml
name: latency
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
  launch_latency: 1e-9
host:
  memory: 1e12
inter:
  bandwidth: 1e12
  latency: 1e-3
  sharing: node
intra:
  bandwidth: 1e12
  latency: 1e-4
  sharing: rank
h2d:
  bandwidth: 1e12
  latency: 1e-3
  sharing: rank
d2h:
  bandwidth: 1e12
  latency: 1e-3
  sharing: rank
