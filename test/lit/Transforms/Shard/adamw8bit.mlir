// RUN: split-file %s %t

// Parameters of 4096 elements or more, in whole blocks of 256, have moments in 8
// bits. AdamW has the same settings for the rest.
// RUN: fcdp-opt %t/step.mlir --fcdp-shard="optimizer=adamw8bit,lr=0.5" | FileCheck %s --check-prefix=CHOICE
// CHOICE: fcdp.shard_update @large scale 1.000000e+00 with #fcdp.adamw8bit<lr = 5.000000e-01 : f64, beta1 = 9.000000e-01 : f64, beta2 = {{0.998.*}} : f64, eps = 1.000000e-08 : f64, weight_decay = 1.000000e-02 : f64>
// CHOICE-NEXT: fcdp.shard_update @small scale 1.000000e+00 with #fcdp.adamw<lr = 5.000000e-01 :
// CHOICE-NEXT: fcdp.shard_update @odd scale 1.000000e+00 with #fcdp.adamw<
// CHOICE-NEXT: fcdp.shard_update @long scale 1.000000e+00 with #fcdp.adamw8bit<
// RUN: fcdp-opt %t/step.mlir --fcdp-shard="optimizer=adamw8bit group=small:optimizer=adamw8bit;large:optimizer=adamw" | FileCheck %s --check-prefix=GROUPS
// GROUPS: fcdp.shard_update @large scale 1.000000e+00 with #fcdp.adamw<
// GROUPS-NEXT: fcdp.shard_update @small scale 1.000000e+00 with #fcdp.adamw8bit<

// Their buckets begin members and shards at multiples of 256 elements, whatever
// layout is asked for. A scale is there for each block.
// RUN: fcdp-opt %t/step.mlir --fcdp-shard="nodes=2 ranks-per-node=2 optimizer=adamw8bit" --fcdp-bucket="layout=ragged<3>" | FileCheck %s --check-prefix=BUCKET
// BUCKET: fcdp.bucket @bucket.root.adamw8bit {{.*}} elements 9216 {{.*}} layout blocks<256> members [@large at 0, @long at 4096]
// BUCKET: fcdp.state @bucket.root.adamw8bit.shard {{.*}} tensor<2304xf32>
// BUCKET: fcdp.state @bucket.root.adamw8bit.exp_avg_code exp_avg_code of @bucket.root.adamw8bit in device : tensor<2304xui8>
// BUCKET-NEXT: fcdp.state @bucket.root.adamw8bit.exp_avg_scale exp_avg_scale of @bucket.root.adamw8bit in device : tensor<9xf32>
// BUCKET-NEXT: fcdp.state @bucket.root.adamw8bit.exp_avg_sq_code exp_avg_sq_code of @bucket.root.adamw8bit in device : tensor<2304xui8>
// BUCKET-NEXT: fcdp.state @bucket.root.adamw8bit.exp_avg_sq_scale exp_avg_sq_scale of @bucket.root.adamw8bit in device : tensor<9xf32>
// BUCKET: fcdp.bucket @bucket.root {{.*}} layout ragged<3> members [@small at {{[0-9]+}}, @odd at {{[0-9]+}}]

// Moments of masters are in 8 bits, too.
// RUN: fcdp-opt %t/step.mlir --fcdp-shard="optimizer=adamw8bit" --fcdp-bucket="sharding=none" | FileCheck %s --check-prefix=NONE
// NONE: fcdp.state @bucket.root.adamw8bit.exp_avg_scale {{.*}} tensor<33xf32>

// RUN: not fcdp-opt %t/step.mlir --fcdp-shard="optimizer=adamw8bit group=odd:optimizer=adamw8bit" 2>&1 | FileCheck %s --check-prefix=ODD
// RUN: not fcdp-opt %t/step.mlir --fcdp-shard="optimizer=adamw8bit group=*:optimizer=adamw" 2>&1 | FileCheck %s --check-prefix=NOTHING
// RUN: not fcdp-opt %t/step.mlir --fcdp-shard="optimizer=adamw8bit+sgd" 2>&1 | FileCheck %s --check-prefix=PLUS
// RUN: not fcdp-opt %t/step.mlir --fcdp-shard="optimizer=muon+adamw8bit" 2>&1 | FileCheck %s --check-prefix=PLUS
// ODD: error: group: 'adamw8bit' cannot update "odd" of type 'tensor<67x67xf32>'
// NOTHING: error: optimizer: 'adamw8bit' would update nothing: no trained parameter has 4096 elements or more in whole blocks of 256; a group may have 'optimizer'
// PLUS: error: expected '+' between 'muon', 'adafactor' or 'soap' and 'adamw', 'sgd', 'lion' or 'ademamix', for the parameters that the first does not update, got '{{adamw8bit\+sgd|muon\+adamw8bit}}'

//--- step.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @large : tensor<64x64xf32> unit "" trainable names ["large"]
  fcdp.parameter @small : tensor<2048xf32> unit "" trainable names ["small"]
  fcdp.parameter @odd : tensor<67x67xf32> unit "" trainable names ["odd"]
  fcdp.parameter @long : tensor<4352xf32> unit "" trainable names ["long"]
  func.func @step() {
    %a = fcdp.read_parameter @large : tensor<64x64xf32>
    %b = fcdp.read_parameter @small : tensor<2048xf32>
    %c = fcdp.read_parameter @odd : tensor<67x67xf32>
    %d = fcdp.read_parameter @long : tensor<4352xf32>
    %l = aten.call "aten.sum.default"(self = %a) : (tensor<64x64xf32>) -> tensor<f32>
    fcdp.loss %l : tensor<f32>
    fcdp.gradient %a of @large : tensor<64x64xf32>
    fcdp.gradient %b of @small : tensor<2048xf32>
    fcdp.gradient %c of @odd : tensor<67x67xf32>
    fcdp.gradient %d of @long : tensor<4352xf32>
    return
  }
}
