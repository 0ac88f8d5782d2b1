// Parameters get the settings of the first group with a pattern that matches.
// RUN: fcdp-opt %s --fcdp-shard="group=*.bias,*norm*:weight_decay=0" | FileCheck %s --check-prefix=DECAY
// DECAY: fcdp.parameter @weight : {{.*}} names ["fc.weight", "head.weight"]{{$}}
// DECAY-NEXT: fcdp.parameter @bias : {{.*}} names ["fc.bias"] group <lr = 1.000000e+00 : f64, weight_decay = 0.000000e+00 : f64>
// DECAY-NEXT: fcdp.parameter @norm : {{.*}} names ["norm.weight"] group <lr = 1.000000e+00 : f64, weight_decay = 0.000000e+00 : f64>
// DECAY-NEXT: fcdp.parameter @frozen : {{.*}} names ["frozen.bias"]{{$}}
// DECAY-NEXT: fcdp.parameter @given : {{.*}} group <lr = 5.000000e-01 : f64, weight_decay = 2.500000e-01 : f64>

// The first group wins, a tied name counts, and what is not set is the
// optimizer's. A group that is there stays.
// RUN: fcdp-opt %s --fcdp-shard="optimizer=sgd,weight_decay=0.125 group=head.*:lr=0.5;f?.*,given:lr=2,weight_decay=1" | FileCheck %s --check-prefix=FIRST
// FIRST: fcdp.parameter @weight : {{.*}} group <lr = 5.000000e-01 : f64, weight_decay = 1.250000e-01 : f64>
// FIRST-NEXT: fcdp.parameter @bias : {{.*}} group <lr = 2.000000e+00 : f64, weight_decay = 1.000000e+00 : f64>
// FIRST-NEXT: fcdp.parameter @norm : {{.*}} names ["norm.weight"]{{$}}
// FIRST-NEXT: fcdp.parameter @frozen
// FIRST-NEXT: fcdp.parameter @given : {{.*}} group <lr = 5.000000e-01 : f64, weight_decay = 2.500000e-01 : f64>

// Groups have no buckets of their own.
// RUN: fcdp-opt %s --fcdp-shard="group=*.bias:weight_decay=0" --fcdp-bucket | FileCheck %s --check-prefix=BUCKET
// BUCKET: fcdp.bucket @bucket.root {{.*}} members [@weight at 0, @bias at 16, @norm at 32, @given at 48]

// A pattern of a list may match nothing if another one matches.
// RUN: fcdp-opt %s --fcdp-shard="group=*.scale,frozen.*,*norm*:lr=0" | FileCheck %s --check-prefix=LIST
// LIST: fcdp.parameter @bias : {{.*}} names ["fc.bias"]{{$}}
// LIST-NEXT: fcdp.parameter @norm : {{.*}} group <lr = 0.000000e+00 : f64, weight_decay = {{.*}}>

// A group that names the optimizer alone changes no setting.
// RUN: fcdp-opt %s --fcdp-shard="group=*.bias:optimizer=adamw" | FileCheck %s --check-prefix=ALONE
// ALONE: fcdp.parameter @bias : {{.*}} names ["fc.bias"]{{$}}

// RUN: not fcdp-opt %s --fcdp-shard="group=*.bias" 2>&1 | FileCheck %s --check-prefix=FORM
// RUN: not fcdp-opt %s --fcdp-shard="group=:lr=1" 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not fcdp-opt %s --fcdp-shard="group=*.bias,:lr=1" 2>&1 | FileCheck %s --check-prefix=EMPTY
// RUN: not fcdp-opt %s --fcdp-shard="group=[a:lr=1" 2>&1 | FileCheck %s --check-prefix=GLOB
// RUN: not fcdp-opt %s --fcdp-shard="group=*:eps=1" 2>&1 | FileCheck %s --check-prefix=SETTING
// RUN: not fcdp-opt %s --fcdp-shard="group=*:lr" 2>&1 | FileCheck %s --check-prefix=NUMBER
// RUN: not fcdp-opt %s --fcdp-shard="group=*:weight_decay=-1" 2>&1 | FileCheck %s --check-prefix=RANGE
// RUN: not fcdp-opt %s --fcdp-shard="group=*:lr=nan" 2>&1 | FileCheck %s --check-prefix=NAN
// RUN: not fcdp-opt %s --fcdp-shard="group=*.bais:lr=1" 2>&1 | FileCheck %s --check-prefix=NOTHING
// RUN: not fcdp-opt %s --fcdp-shard="group=*.scale,*.bais:lr=1" 2>&1 | FileCheck %s --check-prefix=NO-PATTERN
// RUN: not fcdp-opt %s --fcdp-shard="group=*.bias,norm.wieght:lr=1" 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not fcdp-opt %s --fcdp-shard="group=frozen.*:lr=1" 2>&1 | FileCheck %s --check-prefix=FROZEN
// FORM: error: expected PATTERN[,PATTERN]...:KEY=VALUE[,KEY=VALUE]..., got '*.bias'
// NONE: error: expected PATTERN[,PATTERN]...:KEY=VALUE[,KEY=VALUE]..., got ':lr=1'
// EMPTY: error: expected a pattern of names, got ''
// GLOB: error: expected a pattern of names, got '[a': {{.}}
// RUN: not fcdp-opt %s --fcdp-shard="group=*:optimizer=adam" 2>&1 | FileCheck %s --check-prefix=WORD
// RUN: not fcdp-opt %s --fcdp-shard="group=*:optimizer=sgd" 2>&1 | FileCheck %s --check-prefix=OTHER
// WORD: error: expected 'optimizer' to be one of adamw, sgd, lion, ademamix, muon, adamw8bit, adafactor, soap, got 'adam'
// OTHER: error: group: expected an optimizer of 'adamw', got 'sgd'
// SETTING: error: a group has no 'eps'; it has lr, weight_decay, optimizer
// NUMBER: error: expected a number for 'lr', got ''
// RANGE: error: expected 'weight_decay' in [0.00, INF), got '-1'
// NAN: error: expected 'lr' in [0.00, INF), got 'nan'
// NOTHING: error: group: no parameter that is trained has a name like '*.bais'; there are 'fc.weight', 'fc.bias', 'norm.weight', 'given'
// NO-PATTERN: error: group: no parameter that is trained has a name like '*.scale'; there are 'fc.weight', 'fc.bias', 'norm.weight', 'given'
// NAME: error: group: no parameter that is trained has a name like 'norm.wieght'; there are 'fc.weight', 'fc.bias', 'norm.weight', 'given'
// FROZEN: error: group: no parameter that is trained has a name like 'frozen.*'; 'frozen.bias' is not trained: the model has it frozen, or the loss of the example inputs does not depend on it

module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @weight : tensor<4xf32> unit "" trainable names ["fc.weight", "head.weight"]
  fcdp.parameter @bias : tensor<4xf32> unit "" trainable names ["fc.bias"]
  fcdp.parameter @norm : tensor<4xf32> unit "" trainable names ["norm.weight"]
  fcdp.parameter @frozen : tensor<4xf32> unit "" names ["frozen.bias"]
  fcdp.parameter @given : tensor<4xf32> unit "" trainable names ["given"] group <lr = 0.5, weight_decay = 0.25>
  func.func @step() {
    %w = fcdp.read_parameter @weight : tensor<4xf32>
    %b = fcdp.read_parameter @bias : tensor<4xf32>
    %n = fcdp.read_parameter @norm : tensor<4xf32>
    %f = fcdp.read_parameter @frozen : tensor<4xf32>
    %v = fcdp.read_parameter @given : tensor<4xf32>
    %0 = aten.call "aten.mul.Tensor"(self = %w, other = %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %1 = aten.call "aten.mul.Tensor"(self = %0, other = %n) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %2 = aten.call "aten.mul.Tensor"(self = %1, other = %f) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %3 = aten.call "aten.mul.Tensor"(self = %2, other = %v) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %l = aten.call "aten.sum.default"(self = %3) : (tensor<4xf32>) -> tensor<f32>
    fcdp.loss %l : tensor<f32>
    fcdp.gradient %0 of @weight : tensor<4xf32>
    fcdp.gradient %1 of @bias : tensor<4xf32>
    fcdp.gradient %2 of @norm : tensor<4xf32>
    fcdp.gradient %3 of @given : tensor<4xf32>
    return
  }
}
