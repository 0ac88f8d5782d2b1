// The optimizer's specification: PyTorch's names and defaults.
// RUN: fcdp-opt %s --fcdp-shard="optimizer=adamw" | FileCheck %s --check-prefix=ADAMW
// RUN: fcdp-opt %s --fcdp-shard="optimizer=adamw,lr=0.5,beta1=0.25,beta2=0.75,eps=0.125,weight_decay=0" | FileCheck %s --check-prefix=GIVEN
// RUN: fcdp-opt %s --fcdp-shard="optimizer=sgd" | FileCheck %s --check-prefix=SGD
// RUN: fcdp-opt %s --fcdp-shard="optimizer=sgd,momentum=0.5,nesterov=1" | FileCheck %s --check-prefix=NESTEROV
// RUN: fcdp-opt %s --fcdp-shard="optimizer=sgd,momentum=0.5,dampening=-0.5" | FileCheck %s --check-prefix=NEGATIVE
// RUN: fcdp-opt %s --fcdp-shard="optimizer=lion" | FileCheck %s --check-prefix=LION
// LION: #fcdp.lion<lr = 1.000000e-04 : f64, beta1 = 9.000000e-01 : f64, beta2 = 0.98999999999999999 : f64, weight_decay = 0.000000e+00 : f64>
// ADAMW: #fcdp.adamw<lr = 1.000000e-03 : f64, beta1 = 9.000000e-01 : f64, beta2 = {{0.998.*}} : f64, eps = 1.000000e-08 : f64, weight_decay = 1.000000e-02 : f64>
// GIVEN: #fcdp.adamw<lr = 5.000000e-01 : f64, beta1 = 2.500000e-01 : f64, beta2 = 7.500000e-01 : f64, eps = 1.250000e-01 : f64, weight_decay = 0.000000e+00 : f64>
// SGD: #fcdp.sgd<lr = 1.000000e-03 : f64, momentum = 0.000000e+00 : f64, dampening = 0.000000e+00 : f64, weight_decay = 0.000000e+00 : f64, nesterov = false>
// NESTEROV: #fcdp.sgd<{{.*}}momentum = 5.000000e-01 : f64, {{.*}}nesterov = true>
// NEGATIVE: dampening = -5.000000e-01 : f64

// Momentum has a state of its own, and only where there is some.
// RUN: fcdp-opt %s --fcdp-shard="optimizer=sgd,momentum=0.5" --fcdp-bucket | FileCheck %s --check-prefix=MOMENTUM
// RUN: fcdp-opt %s --fcdp-shard="optimizer=sgd" --fcdp-bucket | FileCheck %s --check-prefix=PLAIN
// MOMENTUM: fcdp.state @bucket.root.grad
// MOMENTUM-NEXT: fcdp.state @bucket.root.momentum_buffer
// MOMENTUM-NEXT: func.func
// PLAIN: fcdp.state @bucket.root.grad
// PLAIN-NEXT: func.func
// RUN: fcdp-opt %s --fcdp-shard="optimizer=lion" --fcdp-bucket | FileCheck %s --check-prefix=ONE
// ONE: fcdp.state @bucket.root.grad
// ONE-NEXT: fcdp.state @bucket.root.exp_avg
// ONE-NEXT: func.func

// RUN: fcdp-opt %s --fcdp-shard="optimizer=ademamix,beta3_warmup=5" --fcdp-bucket | FileCheck %s --check-prefix=TWO
// TWO: fcdp.state @bucket.root.exp_avg
// TWO-NEXT: fcdp.state @bucket.root.exp_avg_sq
// TWO-NEXT: fcdp.state @bucket.root.momentum_buffer
// TWO-NEXT: func.func
// TWO: #fcdp.ademamix<{{.*}}, alpha = 2.000000e+00 : f64, beta3_warmup = 5, alpha_warmup = 0,
// RUN: not fcdp-opt %s --fcdp-shard="optimizer=ademamix,alpha_warmup=0.5" 2>&1 | FileCheck %s --check-prefix=PART
// PART: error: expected 'alpha_warmup' to be a whole number
// RUN: not fcdp-opt %s --fcdp-shard="optimizer=soap,precondition_frequency=0" 2>&1 | FileCheck %s --check-prefix=NEVER
// NEVER: error: expected 'precondition_frequency' in [1.00, 1000000001.00), got '0'
// RUN: not fcdp-opt %s --fcdp-shard="optimizer=soap,shampoo_beta=1" 2>&1 | FileCheck %s --check-prefix=SHAMPOO
// SHAMPOO: error: expected 'shampoo_beta' in [-1.00, 1.00), got '1'

// RUN: not fcdp-opt %s --fcdp-shard="optimizer=adam" 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not fcdp-opt %s --fcdp-shard="optimizer=adamw,momentum=1" 2>&1 | FileCheck %s --check-prefix=SETTING
// RUN: not fcdp-opt %s --fcdp-shard="optimizer=adamw,lr" 2>&1 | FileCheck %s --check-prefix=NUMBER
// RUN: not fcdp-opt %s --fcdp-shard="optimizer=adamw,lr=fast" 2>&1 | FileCheck %s --check-prefix=WORD
// RUN: not fcdp-opt %s --fcdp-shard="optimizer=adamw,beta2=1" 2>&1 | FileCheck %s --check-prefix=RANGE
// RUN: not fcdp-opt %s --fcdp-shard="optimizer=adamw,lr=-1" 2>&1 | FileCheck %s --check-prefix=MINUS
// RUN: not fcdp-opt %s --fcdp-shard="optimizer=adamw,lr=nan" 2>&1 | FileCheck %s --check-prefix=NAN
// RUN: not fcdp-opt %s --fcdp-shard="optimizer=sgd,dampening=-inf" 2>&1 | FileCheck %s --check-prefix=INFINITE
// RUN: not fcdp-opt %s --fcdp-shard="optimizer=sgd,nesterov=0.5" 2>&1 | FileCheck %s --check-prefix=BOOL
// RUN: not fcdp-opt %s --fcdp-shard="optimizer=sgd,nesterov=1" 2>&1 | FileCheck %s --check-prefix=NEEDS
// RUN: not fcdp-opt %s --fcdp-shard="optimizer=sgd,momentum=0.5,dampening=0.5,nesterov=1" 2>&1 | FileCheck %s --check-prefix=NEEDS
// RUN: not fcdp-opt %s --fcdp-shard="optimizer=lion,eps=1" 2>&1 | FileCheck %s --check-prefix=NOEPS
// RUN: not fcdp-opt %s --fcdp-shard="optimizer=lion,beta1=1" 2>&1 | FileCheck %s --check-prefix=BETA
// RUN: not fcdp-opt %s --fcdp-shard="optimizer=lion,weight_decay=-0.1" 2>&1 | FileCheck %s --check-prefix=DECAY
// RUN: not fcdp-opt %s --fcdp-shard="optimizer=muon,ns_steps=100" 2>&1 | FileCheck %s --check-prefix=STEPS
// RUN: not fcdp-opt %s --fcdp-shard="optimizer=muon,ns_steps=2.5" 2>&1 | FileCheck %s --check-prefix=HALF
// RUN: not fcdp-opt %s --fcdp-shard="optimizer=muon,nesterov=0.5" 2>&1 | FileCheck %s --check-prefix=BOTH
// RUN: not fcdp-opt %s --fcdp-shard="optimizer=muon,adjust_lr_fn=none" 2>&1 | FileCheck %s --check-prefix=ADJUST
// RUN: not fcdp-opt %s --fcdp-shard="optimizer=adamw+sgd" 2>&1 | FileCheck %s --check-prefix=PLUS
// RUN: not fcdp-opt %s --fcdp-shard="optimizer=muon+muon" 2>&1 | FileCheck %s --check-prefix=PLUS
// RUN: not fcdp-opt %s --fcdp-shard="optimizer=muon+" 2>&1 | FileCheck %s --check-prefix=SECOND
// RUN: not fcdp-opt %s --fcdp-shard="optimizer=muon+sgd,eps=1" 2>&1 | FileCheck %s --check-prefix=REST
// RUN: not fcdp-opt %s --fcdp-shard="optimizer=muon,lr=0+adamw" 2>&1 | FileCheck %s --check-prefix=PROPORTION
// STEPS: error: expected 'ns_steps' in [0.00, 100.00), got '100'
// HALF: error: expected 'ns_steps' to be a whole number
// BOTH: error: expected 'nesterov' to be a whole number
// ADJUST: error: expected 'adjust_lr_fn' to be one of original, match_rms_adamw, got 'none'
// PLUS: error: expected '+' between 'muon', 'adafactor' or 'soap' and 'adamw', 'sgd', 'lion' or 'ademamix', for the parameters that the first does not update, got '{{adamw\+sgd|muon\+muon}}'
// SECOND: error: unknown optimizer ''; expected 'adamw', 'sgd', 'lion', 'ademamix', 'muon', 'adamw8bit', 'adafactor' or 'soap'
// REST: error: optimizer 'sgd' has no 'eps'
// PROPORTION: error: expected a learning rate of 'muon' above 0, since the other optimizer's rate is scaled with it
// NAME: error: unknown optimizer 'adam'; expected 'adamw', 'sgd', 'lion', 'ademamix', 'muon', 'adamw8bit', 'adafactor' or 'soap'; did you mean 'adamw'?
// SETTING: error: optimizer 'adamw' has no 'momentum'; it has lr, beta1, beta2, eps, weight_decay
// NOEPS: error: optimizer 'lion' has no 'eps'; it has lr, beta1, beta2, weight_decay
// BETA: error: expected 'beta1' in [0.00, 1.00), got '1'
// DECAY: error: expected 'weight_decay' in [0.00, INF), got '-0.1'
// NUMBER: error: expected a number for 'lr', got ''
// WORD: error: expected a number for 'lr', got 'fast'
// RANGE: error: expected 'beta2' in [0.00, 1.00), got '1'
// MINUS: error: expected 'lr' in [0.00, INF), got '-1'
// NAN: error: expected 'lr' in [0.00, INF), got 'nan'
// INFINITE: error: expected 'dampening' in [-INF, INF), got '-inf'
// BOOL: error: expected 'nesterov' to be 0 or 1
// NEEDS: error: 'nesterov' needs a momentum and no dampening

module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @w : tensor<4xf32> unit "" trainable names ["w"]
  func.func @step() {
    %w = fcdp.read_parameter @w : tensor<4xf32>
    %l = aten.call "aten.sum.default"(self = %w) : (tensor<4xf32>) -> tensor<f32>
    %g = aten.call "aten.ones_like.default"(self = %w) : (tensor<4xf32>) -> tensor<4xf32>
    fcdp.loss %l : tensor<f32>
    fcdp.gradient %g of @w : tensor<4xf32>
    return
  }
}
