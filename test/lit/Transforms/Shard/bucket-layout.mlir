// RUN: split-file %s %t
// RUN: fcdp-opt %t/step.mlir --fcdp-shard="nodes=2 ranks-per-node=2" --fcdp-bucket | FileCheck %s --check-prefix=FLAT
// RUN: fcdp-opt %t/step.mlir --fcdp-shard="nodes=2 ranks-per-node=2" --fcdp-bucket="layout=ragged<2>" | FileCheck %s --check-prefix=RAGGED
// RUN: fcdp-opt %t/step.mlir --fcdp-shard="nodes=2 ranks-per-node=2" --fcdp-bucket="layout=owned" | FileCheck %s --check-prefix=OWNED

// Cut anywhere: 416 elements, shards begin at 112, 224 and 336.
// FLAT: fcdp.bucket @bucket.u.unused unit "u" elements 448 storage f32 wire f32 members [@rows at 0, @stack at 192, @bias at 384]
// FLAT-NOT: layout

// Blocks of 48 elements of @rows and of 96 of @stack: the shards that begin at
// 128 and 384 begin with one of each; that at 256 begins between the two.
// RAGGED: fcdp.bucket @bucket.u.unused unit "u" elements 512 storage f32 wire f32 layout ragged<2> members [@rows at 32, @stack at 288, @bias at 480]
// RAGGED: fcdp.state @bucket.u.unused.shard {{.*}} tensor<128xf32>

// @rows is not split, nor is a matrix of @stack, 48 elements; @bias may be.
// OWNED: fcdp.bucket @bucket.u.unused unit "u" elements 768 storage f32 wire f32 layout owned members [@rows at 0, @stack at 192, @bias at 384]

// A shard that has to hold a whole matrix may be too large on all ranks.
// RUN: not fcdp-opt %t/owned.mlir --fcdp-shard="nodes=1073741824" --fcdp-bucket="layout=owned" 2>&1 | FileCheck %s --check-prefix=RANKS
// RUN: not fcdp-opt %t/large.mlir --fcdp-shard="nodes=2" --fcdp-bucket 2>&1 | FileCheck %s --check-prefix=LARGE
// RANKS: owned.mlir:2:{{.*}}: error: bucket 'bucket.u.unused': expected fewer than 2^63 elements, got 1073741824 shards of 1099511627776
// LARGE: large.mlir:2:{{.*}}: error: bucket 'bucket.u.unused': expected fewer than 2^60 elements

//--- step.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @rows : tensor<8x24xf32> unit "u" names ["rows"]
  fcdp.parameter @stack : tensor<4x6x8xf32> unit "u" names ["stack"]
  fcdp.parameter @bias : tensor<32xf32> unit "u" names ["bias"]
  fcdp.input @x : tensor<f32> name "x"
  func.func @step() {
    %x = fcdp.read_input @x : tensor<f32>
    fcdp.loss %x : tensor<f32>
    return
  }
}

//--- owned.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @w : tensor<1048576x1048576xf32> unit "u" names ["w"]
  func.func @step() { return }
}

//--- large.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @w : tensor<1152921504606846976xf32> unit "u" names ["w"]
  func.func @step() { return }
}
