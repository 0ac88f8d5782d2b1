// RUN: split-file %s %t

// Adafactor updates all parameters. The epsilon of the parameter's type is no setting.
// RUN: fcdp-opt %t/step.mlir --fcdp-shard="optimizer=adafactor" | FileCheck %s --check-prefix=DEFAULT
// DEFAULT: fcdp.shard_update @matrix scale 1.000000e+00 with #fcdp.adafactor<lr = 1.000000e-02 : f64, beta2_decay = -8.000000e-01 : f64, eps2 = 1.000000e-03 : f64, d = 1.000000e+00 : f64, weight_decay = 0.000000e+00 : f64>
// DEFAULT-NEXT: fcdp.shard_update @vector scale 1.000000e+00 with #fcdp.adafactor<
// DEFAULT-NEXT: fcdp.shard_update @kernel scale 1.000000e+00 with #fcdp.adafactor<
// DEFAULT-NEXT: fcdp.shard_update @number scale 1.000000e+00 with #fcdp.adafactor<
// RUN: fcdp-opt %t/step.mlir --fcdp-shard="optimizer=adafactor,lr=0.5,beta2_decay=-0.25,eps1=0,eps2=2,d=4,weight_decay=0.125" | FileCheck %s --check-prefix=SET
// SET: fcdp.shard_update @matrix scale 1.000000e+00 with #fcdp.adafactor<lr = 5.000000e-01 : f64, beta2_decay = -2.500000e-01 : f64, eps1 = 0.000000e+00 : f64, eps2 = 2.000000e+00 : f64, d = 4.000000e+00 : f64, weight_decay = 1.250000e-01 : f64>

// Groups may leave some to another optimizer.
// RUN: fcdp-opt %t/step.mlir --fcdp-shard="optimizer=adafactor+sgd group=matrix,number:optimizer=sgd;vector:lr=0.5" | FileCheck %s --check-prefix=GROUPS
// GROUPS: fcdp.parameter @vector {{.*}} group <lr = 5.000000e-01 : f64, weight_decay = 0.000000e+00 : f64>
// GROUPS: fcdp.shard_update @matrix scale 1.000000e+00 with #fcdp.sgd<
// GROUPS-NEXT: fcdp.shard_update @vector scale 1.000000e+00 with #fcdp.adafactor<
// GROUPS-NEXT: fcdp.shard_update @kernel scale 1.000000e+00 with #fcdp.adafactor<
// GROUPS-NEXT: fcdp.shard_update @number scale 1.000000e+00 with #fcdp.sgd<

// No parameter is split, whatever layout is asked for: on 4 ranks a shard is as large
// as the largest. The kernel of 2x3x4x5 has 24 means over its last dimension, and 30
// over the one before.
// RUN: fcdp-opt %t/step.mlir --fcdp-shard="nodes=2 ranks-per-node=2 optimizer=adafactor" --fcdp-bucket="layout=ragged<1>" | FileCheck %s --check-prefix=BUCKET
// BUCKET: fcdp.bucket @bucket.root.adafactor {{.*}} elements 512 {{.*}} layout whole members
// BUCKET: fcdp.state @bucket.root.adafactor.grad
// BUCKET-NEXT: fcdp.state @bucket.root.adafactor.row_var row_var of @bucket.root.adafactor in device : tensor<24xf32>
// BUCKET-NEXT: fcdp.state @bucket.root.adafactor.col_var col_var of @bucket.root.adafactor in device : tensor<30xf32>
// BUCKET-NEXT: fcdp.state @bucket.root.adafactor.variance variance of @bucket.root.adafactor in device : tensor<17xf32>
// BUCKET-NEXT: func.func

// One rank has all.
// RUN: fcdp-opt %t/step.mlir --fcdp-shard="nodes=2 ranks-per-node=2 optimizer=adafactor" --fcdp-bucket="sharding=none" | FileCheck %s --check-prefix=NONE
// NONE: fcdp.state @bucket.root.adafactor.row_var {{.*}} tensor<32xf32>
// NONE-NEXT: fcdp.state @bucket.root.adafactor.col_var {{.*}} tensor<34xf32>
// NONE-NEXT: fcdp.state @bucket.root.adafactor.variance {{.*}} tensor<18xf32>

// RUN: not fcdp-opt %t/step.mlir --fcdp-shard="optimizer=adafactor,beta2_decay=0.8" 2>&1 | FileCheck %s --check-prefix=DECAY
// RUN: not fcdp-opt %t/step.mlir --fcdp-shard="optimizer=adafactor,d=0.5" 2>&1 | FileCheck %s --check-prefix=CLIP
// RUN: not fcdp-opt %t/step.mlir --fcdp-shard="optimizer=adafactor,eps=1" 2>&1 | FileCheck %s --check-prefix=EPS
// RUN: not fcdp-opt %t/step.mlir --fcdp-shard="optimizer=adafactor,eps1=-1" 2>&1 | FileCheck %s --check-prefix=MINUS
// RUN: not fcdp-opt %t/step.mlir --fcdp-shard="optimizer=adafactor+sgd group=*:optimizer=sgd" 2>&1 | FileCheck %s --check-prefix=NOTHING
// RUN: not fcdp-opt %t/step.mlir --fcdp-shard="optimizer=adafactor group=matrix:optimizer=sgd" 2>&1 | FileCheck %s --check-prefix=OTHER
// RUN: not fcdp-opt %t/step.mlir --fcdp-shard="optimizer=adafactor+muon" 2>&1 | FileCheck %s --check-prefix=PLUS
// RUN: not fcdp-opt %t/step.mlir --fcdp-shard="optimizer=adafactor,lr=0+adamw" 2>&1 | FileCheck %s --check-prefix=PROPORTION
// DECAY: error: expected 'beta2_decay' of at most 0
// CLIP: error: expected 'd' in [1.00, INF), got '0.5'
// EPS: error: optimizer 'adafactor' has no 'eps'; it has lr, beta2_decay, eps1, eps2, d, weight_decay
// MINUS: error: expected 'eps1' in [0.00, INF), got '-1'
// NOTHING: error: optimizer: 'adafactor' would update nothing: groups give all trained parameters to the other optimizer
// OTHER: error: group: expected an optimizer of 'adafactor', got 'sgd'
// PLUS: error: expected '+' between 'muon', 'adafactor' or 'soap' and 'adamw', 'sgd', 'lion' or 'ademamix', for the parameters that the first does not update, got 'adafactor+muon'
// PROPORTION: error: expected a learning rate of 'adafactor' above 0

//--- step.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @matrix : tensor<8x4xf32> unit "" trainable names ["matrix"]
  fcdp.parameter @vector : tensor<17xf32> unit "" trainable names ["vector"]
  fcdp.parameter @kernel : tensor<2x3x4x5xf32> unit "" trainable names ["kernel"]
  fcdp.parameter @number : tensor<f32> unit "" trainable names ["number"]
  func.func @step() {
    %a = fcdp.read_parameter @matrix : tensor<8x4xf32>
    %b = fcdp.read_parameter @vector : tensor<17xf32>
    %c = fcdp.read_parameter @kernel : tensor<2x3x4x5xf32>
    %d = fcdp.read_parameter @number : tensor<f32>
    %l = aten.call "aten.sum.default"(self = %a) : (tensor<8x4xf32>) -> tensor<f32>
    fcdp.loss %l : tensor<f32>
    fcdp.gradient %a of @matrix : tensor<8x4xf32>
    fcdp.gradient %b of @vector : tensor<17xf32>
    fcdp.gradient %c of @kernel : tensor<2x3x4x5xf32>
    fcdp.gradient %d of @number : tensor<f32>
    return
  }
}
