// Buckets that are merged where a step is faster so, if --fcdp-bucket leaves it
// open: eight small units on a network whose collectives are all latency.
// RUN: split-file %s %t
// RUN: %python %S/../Inputs/chain.py 8 1024 > %t/step.mlir
// RUN: fcdp-opt %t/step.mlir --fcdp-shard="nodes=2 ranks-per-node=2" --fcdp-bucket="open-merging" -o %t/open.mlir
// RUN: FileCheck %s --check-prefix=OPEN --input-file=%t/open.mlir
// OPEN: fcdp.open_merging
// OPEN-COUNT-8: fcdp.bucket @

// All are one, and what was left open is not.
// RUN: fcdp-opt %t/open.mlir --fcdp-decide="strategy=auto cluster=%t/latency.yaml" -o %t/merged.mlir
// RUN: FileCheck %s --check-prefix=ONE --input-file=%t/merged.mlir
// ONE: module attributes {fcdp.bucket_bytes = 32768 : i64,
// ONE-NOT: fcdp.open_merging
// ONE: fcdp.bucket @bucket.0..7 unit "0..7" elements 8192
// ONE-NOT: fcdp.bucket @
// ONE-LABEL: func.func @only_microbatch
// ONE: fcdp.all_gather {{.*}} of @bucket.0..7
// ONE-NOT: fcdp.all_gather
// ONE: fcdp.pack @bucket.0..7
// ONE-NEXT: fcdp.reduce_scatter
// ONE-NOT: fcdp.reduce_scatter
// ONE: fcdp.accumulate {{.*}} into @bucket.0..7
// ONE-LABEL: func.func @update
// ONE: fcdp.shard_update @bucket.0..7
// ONE-NOT: fcdp.shard_update

// A remark reports it.
// RUN: fcdp-opt %t/open.mlir --fcdp-decide="strategy=auto cluster=%t/latency.yaml" --remarks-filter="fcdp-.*" --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK
// REMARK: remark: {{.*}}merged 8 buckets into 1 of up to 32.8 kB

// That comes to the text which --fcdp-bucket makes with the limit, be it with
// fewer buckets in one, or of several kinds and types.
// RUN: fcdp-opt %t/step.mlir --fcdp-shard="nodes=2 ranks-per-node=2" --fcdp-bucket="bucket-bytes=32768" --fcdp-decide="strategy=auto cluster=%t/latency.yaml" | %edit - --replace "residency {{[a-z]*}} " "" > %t/direct.mlir
// RUN: %edit %t/merged.mlir --replace "residency {{[a-z]*}} " "" | diff - %t/direct.mlir
// RUN: fcdp-opt %t/kinds.mlir --fcdp-shard="nodes=2 ranks-per-node=2 micro-batches=2" --fcdp-narrow-gathers --fcdp-bucket="open-merging" --fcdp-decide="strategy=auto accumulate=sharded prefetch=1 reductions=1 cluster=%t/latency.yaml" -o %t/kinds-merged.mlir
// RUN: FileCheck %s --check-prefix=KINDS --input-file=%t/kinds-merged.mlir
// KINDS: fcdp.bucket_bytes = [[#%d,]]
// KINDS: fcdp.bucket @bucket.0..2.bf16 unit "0..2" {{.*}} storage f32 wire bf16 trainable
// KINDS: fcdp.bucket @bucket.0.frozen unit "0"
// KINDS: fcdp.bucket @bucket.1 unit "1" {{.*}} wire f32 trainable
// KINDS: func.func @init
// RUN: fcdp-opt %t/kinds.mlir --fcdp-shard="nodes=2 ranks-per-node=2 micro-batches=2" --fcdp-narrow-gathers --fcdp-bucket="bucket-bytes=8192" --fcdp-decide="strategy=auto accumulate=sharded prefetch=1 reductions=1 cluster=%t/latency.yaml" | %edit - --replace "residency {{[a-z]*}} " "" --replace "collectives {{[a-z_]*}} " "" --replace "bucket_bytes = {{[0-9]*}}" "" > %t/direct.mlir
// RUN: %edit %t/kinds-merged.mlir --replace "residency {{[a-z]*}} " "" --replace "collectives {{[a-z_]*}} " "" --replace "bucket_bytes = {{[0-9]*}}" "" | diff - %t/direct.mlir

// The pipeline leaves it open with auto, and proves what comes of it; a number
// that is given wins.
// RUN: fcdp-opt %t/step.mlir --fcdp-pipeline="strategy=auto cluster=%t/latency.yaml collectives=two-level" | FileCheck %s --check-prefix=PLANNED
// PLANNED: fcdp.bucket_bytes = {{[0-9]+}} : i64, {{.*}}fcdp.phase = #fcdp.phase<planned>
// RUN: fcdp-opt %t/step.mlir --fcdp-pipeline="strategy=auto cluster=%t/latency.yaml bucket-bytes=0" | FileCheck %s --check-prefix=UNITS
// RUN: fcdp-opt %t/step.mlir --fcdp-pipeline="strategy=auto cluster=%t/latency.yaml bucket-bytes=8192" | FileCheck %s --check-prefix=PAIRS
// PAIRS: fcdp.bucket_bytes = 8192
// PAIRS-COUNT-4: fcdp.bucket @
// PAIRS-NOT: fcdp.bucket @

// Dont: with bytes that count for more than latencies.
// RUN: %edit %t/latency.yaml --replace "bandwidth: 1e12" "bandwidth: 1e6" --replace "latency: 1e-{{[34]}}" "latency: 1e-6" > %t/slow.yaml
// RUN: fcdp-opt %t/open.mlir --fcdp-decide="strategy=auto cluster=%t/slow.yaml" | FileCheck %s --check-prefix=UNITS
// UNITS-NOT: bucket_bytes
// UNITS-NOT: open_merging
// UNITS-COUNT-8: fcdp.bucket @
// Dont: without memory for a copy of two units.
// RUN: fcdp-opt %t/open.mlir --fcdp-decide="strategy=auto cluster=%t/latency.yaml device-memory=70000" | FileCheck %s --check-prefix=UNITS
// Dont: where it is not left open, by a preset, or with states that are cut
// otherwise.
// RUN: fcdp-opt %t/step.mlir --fcdp-shard="nodes=2 ranks-per-node=2" --fcdp-bucket --fcdp-decide="strategy=auto cluster=%t/latency.yaml" | FileCheck %s --check-prefix=UNITS
// RUN: fcdp-opt %t/open.mlir --fcdp-decide="strategy=zero3" | FileCheck %s --check-prefix=UNITS
// RUN: fcdp-opt %t/step.mlir --fcdp-shard="nodes=2 ranks-per-node=2" --fcdp-bucket="open-merging sharding=node" --fcdp-decide="strategy=auto cluster=%t/latency.yaml" | FileCheck %s --check-prefix=UNITS
// Dont: a bucket about which something is given; its neighbours are.
// RUN: %edit %t/open.mlir --replace "trainable members [@w3 " "trainable residency host members [@w3 " | fcdp-opt --fcdp-decide="strategy=auto cluster=%t/latency.yaml" | FileCheck %s --check-prefix=GIVEN
// GIVEN: fcdp.bucket @bucket.0..{{[1-7]}} unit
// GIVEN: fcdp.bucket @bucket.3 unit "3" elements 1024 {{.*}} residency host {{.*}}members [@w3 at 0]

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

//--- kinds.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.input @x : tensor<1024xf32> name "x"
  fcdp.parameter @a : tensor<1024xf32> unit "0" trainable names ["a"]
  fcdp.parameter @f : tensor<1024xf32> unit "0" names ["f"]
  fcdp.parameter @b : tensor<1024xf32> unit "1" trainable names ["b"]
  fcdp.parameter @c : tensor<1024xf32> unit "2" trainable names ["c"]
  func.func @step() {
    %a = fcdp.read_parameter @a : tensor<1024xf32>
    %f = fcdp.read_parameter @f : tensor<1024xf32>
    %b = fcdp.read_parameter @b : tensor<1024xf32>
    %c = fcdp.read_parameter @c : tensor<1024xf32>
    %x = fcdp.read_input @x : tensor<1024xf32>
    %an = aten.call "aten._to_copy.default"(self = %a, dtype = bf16) : (tensor<1024xf32>) -> tensor<1024xbf16>
    %cn = aten.call "aten._to_copy.default"(self = %c, dtype = bf16) : (tensor<1024xf32>) -> tensor<1024xbf16>
    %xn = aten.call "aten._to_copy.default"(self = %x, dtype = bf16) : (tensor<1024xf32>) -> tensor<1024xbf16>
    %0 = aten.call "aten.mul.Tensor"(self = %xn, other = %an) : (tensor<1024xbf16>, tensor<1024xbf16>) -> tensor<1024xbf16>
    %1 = aten.call "aten._to_copy.default"(self = %0, dtype = f32) : (tensor<1024xbf16>) -> tensor<1024xf32>
    %2 = aten.call "aten.mul.Tensor"(self = %1, other = %f) : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
    %3 = aten.call "aten.mul.Tensor"(self = %2, other = %b) : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
    %n3 = aten.call "aten._to_copy.default"(self = %3, dtype = bf16) : (tensor<1024xf32>) -> tensor<1024xbf16>
    %4 = aten.call "aten.mul.Tensor"(self = %n3, other = %cn) : (tensor<1024xbf16>, tensor<1024xbf16>) -> tensor<1024xbf16>
    %5 = aten.call "aten._to_copy.default"(self = %4, dtype = f32) : (tensor<1024xbf16>) -> tensor<1024xf32>
    %l = aten.call "aten.sum.default"(self = %5) : (tensor<1024xf32>) -> tensor<f32>
    fcdp.loss %l : tensor<f32>
    %6 = aten.call "aten.mul.Tensor"(self = %5, other = %3) : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
    fcdp.gradient %6 of @c : tensor<1024xf32>
    %b6 = aten.call "aten.mul.Tensor"(self = %4, other = %cn) : (tensor<1024xbf16>, tensor<1024xbf16>) -> tensor<1024xbf16>
    %7 = aten.call "aten._to_copy.default"(self = %b6, dtype = f32) : (tensor<1024xbf16>) -> tensor<1024xf32>
    %8 = aten.call "aten.mul.Tensor"(self = %7, other = %b) : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
    fcdp.gradient %8 of @b : tensor<1024xf32>
    %9 = aten.call "aten.mul.Tensor"(self = %8, other = %f) : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
    %n9 = aten.call "aten._to_copy.default"(self = %9, dtype = bf16) : (tensor<1024xf32>) -> tensor<1024xbf16>
    %10 = aten.call "aten.mul.Tensor"(self = %n9, other = %an) : (tensor<1024xbf16>, tensor<1024xbf16>) -> tensor<1024xbf16>
    %11 = aten.call "aten._to_copy.default"(self = %10, dtype = f32) : (tensor<1024xbf16>) -> tensor<1024xf32>
    fcdp.gradient %11 of @a : tensor<1024xf32>
    return
  }
}
