// The form of the messages that collectives of each bucket send between nodes.
// RUN: fcdp-opt %s --fcdp-shard="nodes=2 ranks-per-node=2" --fcdp-bucket --fcdp-decide="strategy=fcdp" -o %t.mlir
// RUN: fcdp-opt %t.mlir --fcdp-decide-wires="wire=delta reduce-wire=coded" -o %t.both
// RUN: FileCheck %s --check-prefix=BOTH --input-file=%t.both

// Nothing is sent as a difference but trained parameters in bf16 or f16, and a
// frozen bucket has no gradients.
// BOTH: fcdp.bucket @bucket.a unit {{.*}} residency host gather_wire delta reduce_wire coded members
// BOTH: fcdp.bucket @bucket.frozen.frozen unit {{.*}} residency host members
// BOTH: fcdp.bucket @bucket.head unit {{.*}} residency host gather_wire delta reduce_wire coded members
// BOTH: fcdp.bucket @bucket.wide unit {{.*}} residency host reduce_wire coded members

// Twice is once.
// RUN: fcdp-opt %t.both --fcdp-decide-wires="wire=delta reduce-wire=coded" | diff %t.both -

// DontWriteRaw, which is the default, nor on one node.
// RUN: fcdp-opt %t.mlir --fcdp-decide-wires | diff %t.mlir -
// RUN: fcdp-opt %s --fcdp-shard="nodes=1 ranks-per-node=4" --fcdp-bucket --fcdp-decide="strategy=fcdp" -o %t.one
// RUN: fcdp-opt %t.one --fcdp-decide-wires="wire=delta reduce-wire=coded" | diff %t.one -

// DontReplace what is given, and keep flat collectives as they are.
// RUN: %edit %t.mlir --line "fcdp.bucket @bucket.a " --replace "residency host" "residency host gather_wire raw reduce_wire raw" | fcdp-opt --fcdp-decide-wires="wire=delta reduce-wire=coded" | FileCheck %s --check-prefix=GIVEN
// GIVEN: fcdp.bucket @bucket.a unit {{.*}} residency host gather_wire raw reduce_wire raw members
// RUN: %edit %t.mlir --line "fcdp.bucket @bucket.wide " --replace "residency host" "residency host collectives flat" | fcdp-opt --fcdp-decide-wires="reduce-wire=coded" | FileCheck %s --check-prefix=FLAT
// FLAT: fcdp.bucket @bucket.wide unit {{.*}} residency host collectives flat members

// `auto` compares the link with the codec: here the link is faster.
// RUN: fcdp-opt %t.mlir --fcdp-decide-wires="wire=auto cluster=cpu" --remarks-filter="fcdp-.*" --remark-format=emitRemark -o %t.auto 2>&1 | FileCheck %s --check-prefix=AUTO
// AUTO: bucket bucket.a: gathers send values, as coding is predicted to take longer
// AUTO-NOT: bucket bucket.wide: gathers
// RUN: FileCheck %s --check-prefix=STAYED --input-file=%t.auto
// STAYED: fcdp.bucket @bucket.a unit {{.*}} residency host members


// The same for reductions, and a slow link.
// RUN: printf "base: cpu\nname: slow\ninter:\n  bandwidth: 1e4\n" > %t.yaml
// RUN: fcdp-opt %t.mlir --fcdp-decide-wires="reduce-wire=auto cluster=cpu" --remarks-filter="fcdp-.*" --remark-format=emitRemark -o %t.auto 2>&1 | FileCheck %s --check-prefix=REDUCTIONS
// REDUCTIONS-NOT: gathers
// REDUCTIONS: bucket bucket.a: reductions send values, as coding is predicted to take longer
// RUN: FileCheck %s --check-prefix=STAYED --input-file=%t.auto
// RUN: fcdp-opt %t.mlir --fcdp-decide-wires="reduce-wire=auto cluster=%t.yaml" --remarks-filter="fcdp-.*" --remark-format=emitRemark -o %t.slow 2>&1 | FileCheck %s --check-prefix=SLOW
// SLOW: bucket bucket.a: reductions code exponents, which is predicted to be faster
// SLOW-NOT: bucket bucket.frozen
// RUN: FileCheck %s --check-prefix=CODED --input-file=%t.slow
// CODED: fcdp.bucket @bucket.a unit {{.*}} residency host reduce_wire coded members
// DontCode on GPUs, which have no codec without loss.
// RUN: %edit %t.mlir --replace "module attributes {" "module attributes {fcdp.target = \"cuda\", " | fcdp-opt --fcdp-decide-wires="wire=auto reduce-wire=auto cluster=%t.yaml" | FileCheck %s --check-prefix=ON-GPUS --implicit-check-not=_wire
// ON-GPUS: fcdp.bucket @bucket.a unit
// RUN: not fcdp-opt %t.mlir --fcdp-decide-wires="wire=auto" 2>&1 | FileCheck %s --check-prefix=CLUSTER
// CLUSTER: error: wire 'auto' chooses for a cluster; give one as 'cluster', a file or the name of a preset
// RUN: not fcdp-opt %t.mlir --fcdp-decide-wires="wire=zip" 2>&1 | FileCheck %s --check-prefix=WIRE
// WIRE: error: wire: expected 'raw', 'delta' or 'auto', got 'zip'
// RUN: not fcdp-opt %t.mlir --fcdp-decide-wires="reduce-wire=delta" 2>&1 | FileCheck %s --check-prefix=REDUCE
// REDUCE: error: reduce-wire: expected 'auto', 'raw', 'coded', 'int8' or 'int4', got 'delta'
// RUN: %edit %t.mlir --line "fcdp.bucket @bucket" --replace "residency host" "residency drop" > %t.drop
// RUN: not fcdp-opt %t.drop --fcdp-decide-wires="wire=delta" 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: error: wire 'delta' is for trained parameters that are gathered in bf16 or f16 and kept in host memory, and the step has none: expected a model in bf16 or f16 (or under autocast) and the strategy 'fcdp'
// RUN: %edit %t.mlir --replace "module attributes {" "module attributes {fcdp.target = \"cuda\", " | not fcdp-opt --fcdp-decide-wires="wire=delta" 2>&1 | FileCheck %s --check-prefix=CUDA
// RUN: %edit %t.mlir --replace "module attributes {" "module attributes {fcdp.target = \"cuda\", " | not fcdp-opt --fcdp-decide-wires="reduce-wire=coded" 2>&1 | FileCheck %s --check-prefix=CUDA
// CUDA: error: messages are coded without loss on CPUs only: expected --wire=raw or auto, and --reduce-wire=raw, int8, int4 or auto, for the target 'cuda'
// RUN: %edit %t.mlir --replace "module attributes {" "module attributes {fcdp.target = \"cuda\", " | fcdp-opt --fcdp-decide-wires="reduce-wire=int8" | FileCheck %s --check-prefix=ROUNDED
// ROUNDED: fcdp.bucket @bucket.wide unit {{.*}} residency host reduce_wire int8 members
// RUN: not fcdp-opt %s --fcdp-shard="nodes=2 ranks-per-node=2" --fcdp-bucket --fcdp-decide-wires 2>&1 | FileCheck %s --check-prefix=UNDECIDED
// UNDECIDED: error: {{.*}}expected a residency; run --fcdp-decide first
// RUN: not fcdp-opt %s --fcdp-decide-wires 2>&1 | FileCheck %s --check-prefix=PHASE
// PHASE: error: expected a module in phase 'sharded'

module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @a : tensor<64xbf16> unit "a" trainable names ["a"]
  fcdp.parameter @frozen : tensor<64xbf16> unit "frozen" names ["frozen"]
  fcdp.parameter @head : tensor<64xbf16> unit "head" trainable names ["head"]
  fcdp.parameter @wide : tensor<64xf32> unit "wide" trainable names ["wide"]
  func.func @step() {
    %a = fcdp.read_parameter @a : tensor<64xbf16>
    %f = fcdp.read_parameter @frozen : tensor<64xbf16>
    %h = fcdp.read_parameter @head : tensor<64xbf16>
    %w = fcdp.read_parameter @wide : tensor<64xf32>
    %0 = aten.call "aten.neg.default"(self = %a) : (tensor<64xbf16>) -> tensor<64xbf16>
    %1 = aten.call "aten.mul.Tensor"(self = %0, other = %f) : (tensor<64xbf16>, tensor<64xbf16>) -> tensor<64xbf16>
    %2 = aten.call "aten.mul.Tensor"(self = %1, other = %h) : (tensor<64xbf16>, tensor<64xbf16>) -> tensor<64xbf16>
    %l = aten.call "aten.sum.default"(self = %w) : (tensor<64xf32>) -> tensor<f32>
    %3 = aten.call "aten.neg.default"(self = %h) : (tensor<64xbf16>) -> tensor<64xbf16>
    %4 = aten.call "aten.mul.Tensor"(self = %3, other = %a) : (tensor<64xbf16>, tensor<64xbf16>) -> tensor<64xbf16>
    %5 = aten.call "aten.neg.default"(self = %w) : (tensor<64xf32>) -> tensor<64xf32>
    fcdp.loss %l : tensor<f32>
    fcdp.gradient %1 of @head : tensor<64xbf16>
    fcdp.gradient %4 of @a : tensor<64xbf16>
    fcdp.gradient %5 of @wide : tensor<64xf32>
    return
  }
}
