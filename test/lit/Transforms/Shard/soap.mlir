// RUN: split-file %s %t

// All matrices are SOAP's, embeddings and heads, too. The rest is AdamW's.
// RUN: fcdp-opt %t/step.mlir --fcdp-shard="optimizer=soap,max_precond_dim=10" | FileCheck %s --check-prefix=DEFAULT
// DEFAULT: fcdp.shard_update @embedding scale 1.000000e+00 with #fcdp.soap<lr = 3.000000e-03 : f64, beta1 = 0.9{{.*}}, shampoo_beta = -1.000000e+00 : f64, {{.*}} precondition_frequency = 10, max_precond_dim = 10>
// DEFAULT: fcdp.shard_update @bias scale 1.000000e+00 with #fcdp.adamw<lr = 1.000000e-03 :
// DEFAULT: fcdp.shard_update @kernel scale 1.000000e+00 with #fcdp.adamw
// DEFAULT: fcdp.shard_update @square scale 1.000000e+00 with #fcdp.soap

// Squares are of sides of up to 10, each at a multiple of 16 elements. On two ranks,
// one has the embedding of 12 x 10, the other one the square of 9 x 9.
// RUN: fcdp-opt %t/step.mlir --fcdp-shard="nodes=2 optimizer=soap,max_precond_dim=10" --fcdp-bucket="layout=ragged<2>" | FileCheck %s --check-prefix=BUCKET
// BUCKET: fcdp.bucket @bucket.block.soap unit "block" elements 256 storage f32 wire f32 trainable layout owned max_side 10 members [@embedding at 0, @square at 128]
// BUCKET: fcdp.state @bucket.block.soap.grad
// BUCKET-NEXT: fcdp.state @bucket.block.soap.exp_avg exp_avg of @bucket.block.soap in device : tensor<128xf32>
// BUCKET-NEXT: fcdp.state @bucket.block.soap.exp_avg_sq exp_avg_sq of @bucket.block.soap in device : tensor<128xf32>
// BUCKET-NEXT: fcdp.state @bucket.block.soap.row_gg row_gg of @bucket.block.soap in device : tensor<96xf32>
// BUCKET-NEXT: fcdp.state @bucket.block.soap.col_gg col_gg of @bucket.block.soap in device : tensor<112xf32>
// BUCKET-NEXT: fcdp.state @bucket.block.soap.row_q row_q of @bucket.block.soap in device : tensor<96xf32>
// BUCKET-NEXT: fcdp.state @bucket.block.soap.col_q col_q of @bucket.block.soap in device : tensor<112xf32>

// On one rank, they follow each other.
// RUN: fcdp-opt %t/step.mlir --fcdp-shard="optimizer=soap,max_precond_dim=10" --fcdp-bucket | FileCheck %s --check-prefix=ONE
// ONE: fcdp.state @bucket.block.soap.row_gg {{.*}} tensor<96xf32>
// ONE: fcdp.state @bucket.block.soap.col_gg {{.*}} tensor<208xf32>

// Without a side that is short enough, there are none.
// RUN: fcdp-opt %t/step.mlir --fcdp-shard="optimizer=soap,max_precond_dim=0" --fcdp-bucket | FileCheck %s --check-prefix=NONE
// NONE: layout owned members
// NONE: fcdp.state @bucket.block.soap.row_gg {{.*}} tensor<0xf32>

// RUN: not fcdp-opt %t/step.mlir --fcdp-shard="optimizer=soap group=bias:optimizer=soap" 2>&1 | FileCheck %s --check-prefix=VECTOR
// RUN: not fcdp-opt %t/step.mlir --fcdp-shard="optimizer=soap group=*:optimizer=adamw" 2>&1 | FileCheck %s --check-prefix=NOTHING
// VECTOR: error: group: 'soap' cannot update "bias" of type 'tensor<10xf32>'
// NOTHING: error: optimizer: 'soap' would update nothing: no trained parameter is a matrix

//--- step.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @embedding : tensor<12x10xf32> unit "block" trainable names ["embedding"]
  fcdp.parameter @bias : tensor<10xf32> unit "block" trainable names ["bias"]
  fcdp.parameter @kernel : tensor<2x1x5xf32> unit "block" trainable names ["kernel"]
  fcdp.parameter @square : tensor<9x9xf32> unit "block" trainable names ["square"]
  func.func @step() {
    %0 = fcdp.read_parameter @embedding : tensor<12x10xf32>
    %1 = fcdp.read_parameter @bias : tensor<10xf32>
    %2 = fcdp.read_parameter @kernel : tensor<2x1x5xf32>
    %3 = fcdp.read_parameter @square : tensor<9x9xf32>
    fcdp.gradient %0 of @embedding : tensor<12x10xf32>
    fcdp.gradient %1 of @bias : tensor<10xf32>
    fcdp.gradient %2 of @kernel : tensor<2x1x5xf32>
    fcdp.gradient %3 of @square : tensor<9x9xf32>
    return
  }
}
