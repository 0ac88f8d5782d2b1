// The proof also refuses by itself, without the verifier of MLIR, plans that their types refuse before it.
// RUN: split-file %s %t

// A gradient that is gathered over too few axes has fewer elements than the sum. Its own place is that of the sum's
// first elements.
// RUN: fcdp-opt %t/step.mlir --fcdp-pipeline="nodes=2 ranks-per-node=2 strategy=ddp optimizer=sgd" -o %t/one.mlir
// RUN: %edit %t/one.mlir --in only_microbatch --delete "%%13 = fcdp.all_gather" --delete "fcdp.release %%13" --replace "fcdp.accumulate %%13 {{.*}}" "fcdp.accumulate %%11 into @bucket.a overwrite late on intra : tensor<32xf32>" > %t/part.mlir
// RUN: not fcdp-opt %t/part.mlir --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=PARTTYPE
// PARTTYPE: error: 'fcdp.accumulate' op expected type 'tensor<64xf32>', got 'tensor<32xf32>'
// RUN: not fcdp-opt %t/part.mlir --mlir-very-unsafe-disable-verifier-on-parsing --verify-each=0 --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=PART
// PART: error: 'fcdp.shard_update' op for 'w' of @bucket.a in @update: expected all of the gradients of 'w' of @bucket.a that a rank owns
// PART: note: they are written here, on inter in @only_microbatch for 'w' of @bucket.a

// The same of the second micro-batch alone.
// RUN: fcdp-opt %t/step.mlir --fcdp-pipeline="nodes=2 ranks-per-node=2 strategy=ddp optimizer=sgd micro-batches=2 accumulate=sharded" -o %t/two.mlir
// RUN: %edit %t/two.mlir --in last_microbatch --replace "fcdp.accumulate %%13 {{.*}}" "fcdp.accumulate %%11 into @bucket.a add late on intra : tensor<32xf32>" > %t/sum.mlir
// RUN: not fcdp-opt %t/sum.mlir --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=PARTTYPE
// RUN: not fcdp-opt %t/sum.mlir --mlir-very-unsafe-disable-verifier-on-parsing --verify-each=0 --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=SUM
// SUM: error: 'fcdp.accumulate' op for 'w' of @bucket.a in @last_microbatch: adds to @bucket.a.grad, which

// A rank's own part stored where the next gather finds its reference.
// RUN: fcdp-opt %t/coded.mlir --fcdp-pipeline="nodes=2 ranks-per-node=2 strategy=fcdp wire=delta optimizer=sgd" -o %t/coded.planned
// RUN: %edit %t/coded.planned --in only_microbatch --insert-file-after "fcdp.record on h2d" %t/store.txt > %t/foreign.mlir
// RUN: not fcdp-opt %t/foreign.mlir --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=FOREIGNTYPE
// FOREIGNTYPE: error: 'fcdp.cache_store' op expected type 'tensor<64xbf16>', got 'tensor<32xbf16>'
// RUN: not fcdp-opt %t/foreign.mlir --mlir-very-unsafe-disable-verifier-on-parsing --verify-each=0 --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=FOREIGN
// FOREIGN: error: 'fcdp.all_gather' op for 'a' of @bucket.a in @only_microbatch: refers to @bucket.a.cache, which has something else than the slice that was gathered last
// FOREIGN: note: last written here, on d2h in @only_microbatch for 'a' of @bucket.a

//--- step.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @w : tensor<64xf32> unit "a" trainable names ["w"]
  func.func @step() {
    %w = fcdp.read_parameter @w : tensor<64xf32>
    %0 = aten.call "aten.neg.default"(self = %w) : (tensor<64xf32>) -> tensor<64xf32>
    %l = aten.call "aten.sum.default"(self = %w) : (tensor<64xf32>) -> tensor<f32>
    %1 = aten.call "aten.mul.Tensor"(self = %0, other = %w) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    fcdp.loss %l : tensor<f32>
    fcdp.gradient %1 of @w : tensor<64xf32>
    return
  }
}

//--- coded.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @a : tensor<64xbf16> unit "a" trainable names ["a"]
  fcdp.parameter @h : tensor<64xbf16> unit "h" trainable names ["h"]
  func.func @step() {
    %a = fcdp.read_parameter @a : tensor<64xbf16>
    %h = fcdp.read_parameter @h : tensor<64xbf16>
    %0 = aten.call "aten.neg.default"(self = %a) : (tensor<64xbf16>) -> tensor<64xbf16>
    %1 = aten.call "aten.mul.Tensor"(self = %0, other = %h) : (tensor<64xbf16>, tensor<64xbf16>) -> tensor<64xbf16>
    %l = aten.call "aten.sum.default"(self = %1) : (tensor<64xbf16>) -> tensor<bf16>
    %f = aten.call "aten._to_copy.default"(self = %l, dtype = f32) : (tensor<bf16>) -> tensor<f32>
    %2 = aten.call "aten.mul.Tensor"(self = %h, other = %a) : (tensor<64xbf16>, tensor<64xbf16>) -> tensor<64xbf16>
    fcdp.loss %f : tensor<f32>
    fcdp.gradient %0 of @h : tensor<64xbf16>
    fcdp.gradient %2 of @a : tensor<64xbf16>
    return
  }
}

//--- store.txt
    fcdp.wait %24 on d2h
    fcdp.cache_store %0 to @bucket.a.cache on d2h : tensor<32xbf16>
    %stored = fcdp.record on d2h event 200
    fcdp.wait %stored on compute
