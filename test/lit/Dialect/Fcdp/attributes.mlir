// RUN: fcdp-opt %s | fcdp-opt | FileCheck %s
// RUN: fcdp-opt %s --emit-bytecode | fcdp-opt | FileCheck %s

// CHECK-LABEL: func.func private @phases
// CHECK-SAME: [#fcdp.phase<imported>, #fcdp.phase<sharded>, #fcdp.phase<scheduled>, #fcdp.phase<planned>]
func.func private @phases() attributes {values = [#fcdp.phase<imported>, #fcdp.phase<sharded>, #fcdp.phase<scheduled>, #fcdp.phase<planned>]}

// CHECK-LABEL: func.func private @roles
// CHECK-SAME: [#fcdp.role<init>, #fcdp.role<only_microbatch>, #fcdp.role<first_microbatch>, #fcdp.role<next_microbatch>, #fcdp.role<last_microbatch>, #fcdp.role<update>, #fcdp.role<first_evaluation>, #fcdp.role<next_evaluation>, #fcdp.role<outer_update>]
func.func private @roles() attributes {values = [#fcdp.role<init>, #fcdp.role<only_microbatch>, #fcdp.role<first_microbatch>, #fcdp.role<next_microbatch>, #fcdp.role<last_microbatch>, #fcdp.role<update>, #fcdp.role<first_evaluation>, #fcdp.role<next_evaluation>, #fcdp.role<outer_update>]}

// CHECK-LABEL: func.func private @bare
// CHECK-SAME: [#fcdp<axis node>, #fcdp<axis local>, #fcdp<stream compute>, #fcdp<stream inter>, #fcdp<stream intra>, #fcdp<stream d2h>, #fcdp<stream h2d>, #fcdp<stream inter_reduce>, #fcdp<stream intra_reduce>
func.func private @bare() attributes {values = [#fcdp<axis node>, #fcdp<axis local>, #fcdp<stream compute>, #fcdp<stream inter>, #fcdp<stream intra>, #fcdp<stream d2h>, #fcdp<stream h2d>, #fcdp<stream inter_reduce>, #fcdp<stream intra_reduce>]}

// CHECK-LABEL: func.func private @decisions
// CHECK-SAME: [#fcdp<residency full>, #fcdp<residency node>, #fcdp<residency host>, #fcdp<residency drop>, #fcdp<accumulate_mode overwrite>, #fcdp<accumulate_mode add>, #fcdp<accumulation node_host>, #fcdp<arena device>, #fcdp<arena host>]
func.func private @decisions() attributes {values = [#fcdp<residency full>, #fcdp<residency node>, #fcdp<residency host>, #fcdp<residency drop>, #fcdp<accumulate_mode overwrite>, #fcdp<accumulate_mode add>, #fcdp<accumulation node_host>, #fcdp<arena device>, #fcdp<arena host>]}

// CHECK-LABEL: func.func private @state_roles
// CHECK-SAME: [#fcdp<state_role shard>, #fcdp<state_role grad>, #fcdp<state_role exp_avg>, #fcdp<state_role exp_avg_sq>, #fcdp<state_role momentum_buffer>, #fcdp<state_role cache>, #fcdp<state_role residual>, #fcdp<state_role outer>, #fcdp<state_role outer_momentum>]
func.func private @state_roles() attributes {values = [#fcdp<state_role shard>, #fcdp<state_role grad>, #fcdp<state_role exp_avg>, #fcdp<state_role exp_avg_sq>, #fcdp<state_role momentum_buffer>, #fcdp<state_role cache>, #fcdp<state_role residual>, #fcdp<state_role outer>, #fcdp<state_role outer_momentum>]}

// CHECK-LABEL: func.func private @places
// CHECK-SAME: [#fcdp.member<@w, 64>, #fcdp.buffer<arena = host, offset = 1, bytes = 2, node_stride = 3, local_stride = 4>, #fcdp.buffer<arena = device, offset = 0, bytes = 0>]
func.func private @places() attributes {values = [#fcdp.member<@w, 64>, #fcdp.buffer<arena = host, offset = 1, bytes = 2, node_stride = 3, local_stride = 4>, #fcdp.buffer<arena = device, offset = 0, bytes = 0>]}

// CHECK-LABEL: func.func private @layouts
// CHECK-SAME: [#fcdp<layout flat>, #fcdp<layout ragged<16>>, #fcdp<layout owned>, #fcdp<layout blocks<256>>, #fcdp<layout whole>]
func.func private @layouts() attributes {values = [#fcdp<layout flat>, #fcdp<layout ragged<16>>, #fcdp<layout owned>, #fcdp<layout blocks<256>>, #fcdp<layout whole>]}

// CHECK-LABEL: func.func private @optimizers
// CHECK-SAME: #fcdp.adamw<lr = 1.000000e-03 : f64, beta1 = 9.000000e-01 : f64, beta2 = 0.99899999999999999 : f64, eps = 1.000000e-08 : f64, weight_decay = 1.000000e-02 : f64>
// CHECK-SAME: #fcdp.sgd<lr = 1.000000e-01 : f64, momentum = 0.000000e+00 : f64, dampening = -5.000000e-01 : f64, weight_decay = 0.000000e+00 : f64, nesterov = false>
// CHECK-SAME: #fcdp.lion<lr = 1.000000e-04 : f64, beta1 = 9.000000e-01 : f64, beta2 = 0.98999999999999999 : f64, weight_decay = 0.000000e+00 : f64>
// CHECK-SAME: #fcdp.ademamix<lr = 1.000000e-03 : f64, beta1 = 9.000000e-01 : f64, beta2 = 0.99899999999999999 : f64, beta3 = 9.999000e-01 : f64, alpha = 2.000000e+00 : f64, beta3_warmup = 7, alpha_warmup = 0, eps = 1.000000e-08 : f64, weight_decay = 0.000000e+00 : f64>
// CHECK-SAME: #fcdp.muon<lr = 1.000000e-03 : f64, weight_decay = 1.000000e-01 : f64, momentum = 0.94999999999999996 : f64, nesterov = true, ns_a = 3.444500e+00 : f64, ns_b = -4.775000e+00 : f64, ns_c = 2.031500e+00 : f64, eps = 9.9999999999999995E-8 : f64, ns_steps = 5, adjust_lr_fn = original>
// CHECK-SAME: ns_steps = 0, adjust_lr_fn = match_rms_adamw>
// CHECK-SAME: #fcdp.adamw8bit<lr = 1.000000e-03 : f64, beta1 = 9.000000e-01 : f64, beta2 = 0.99899999999999999 : f64, eps = 1.000000e-08 : f64, weight_decay = 1.000000e-02 : f64>
// CHECK-SAME: #fcdp.adafactor<lr = 1.000000e-02 : f64, beta2_decay = -8.000000e-01 : f64, eps2 = 1.000000e-03 : f64, d = 1.000000e+00 : f64, weight_decay = 0.000000e+00 : f64>
// CHECK-SAME: #fcdp.adafactor<lr = 0.000000e+00 : f64, beta2_decay = 0.000000e+00 : f64, eps1 = 5.000000e-01 : f64, eps2 =
// CHECK-SAME: #fcdp.soap<lr = 3.000000e-03 : f64, beta1 = 0.94999999999999996 : f64, beta2 = 0.94999999999999996 : f64, shampoo_beta = -1.000000e+00 : f64, eps = 1.000000e-08 : f64, weight_decay = 1.000000e-02 : f64, precondition_frequency = 10, max_precond_dim = 10000>
func.func private @optimizers() attributes {values = [
  #fcdp.adamw<lr = 1.0e-03, beta1 = 9.0e-01, beta2 = 9.99e-01, eps = 1.0e-08, weight_decay = 1.0e-02>,
  #fcdp.sgd<lr = 0.1, momentum = 0.0, dampening = -0.5, weight_decay = 0.0, nesterov = false>,
  #fcdp.lion<lr = 1.0e-04, beta1 = 9.0e-01, beta2 = 9.9e-01, weight_decay = 0.0>,
  #fcdp.ademamix<lr = 1.0e-03, beta1 = 0.9, beta2 = 0.999, beta3 = 0.9999, alpha = 2.0, beta3_warmup = 7, alpha_warmup = 0, eps = 1.0e-08, weight_decay = 0.0>,
  #fcdp.muon<lr = 1.0e-03, weight_decay = 0.1, momentum = 0.95, nesterov = true, ns_a = 3.4445, ns_b = -4.775, ns_c = 2.0315, eps = 1.0e-07, ns_steps = 5, adjust_lr_fn = original>,
  #fcdp.muon<lr = 0.0, weight_decay = 0.0, momentum = 0.0, nesterov = false, ns_a = 0.0, ns_b = 0.0, ns_c = 0.0, eps = 0.0, ns_steps = 0, adjust_lr_fn = match_rms_adamw>,
  #fcdp.adamw8bit<lr = 1.0e-03, beta1 = 9.0e-01, beta2 = 9.99e-01, eps = 1.0e-08, weight_decay = 1.0e-02>,
  #fcdp.adafactor<lr = 1.0e-02, beta2_decay = -0.8, eps2 = 1.0e-03, d = 1.0, weight_decay = 0.0>,
  #fcdp.adafactor<lr = 0.0, beta2_decay = 0.0, eps1 = 0.5, eps2 = 0.0, d = 1.0, weight_decay = 0.0>,
  #fcdp.soap<lr = 3.0e-03, beta1 = 0.95, beta2 = 0.95, shampoo_beta = -1.0, eps = 1.0e-08, weight_decay = 0.01, precondition_frequency = 10, max_precond_dim = 10000>]}

// CHECK-LABEL: func.func private @groups
// CHECK-SAME: [#fcdp.group<lr = 5.000000e-01 : f64, weight_decay = 0.000000e+00 : f64>]
func.func private @groups() attributes {values = [#fcdp.group<lr = 0.5, weight_decay = 0.0>]}
// CHECK: func.func private @packed
// CHECK-SAME: [#fcdp.packed<packing = nf4, whole = tensor<8x64xbf16>>, #fcdp.packed<packing = int8, whole = tensor<8x64xf32>, transposed = true>]
func.func private @packed() attributes {values = [#fcdp.packed<packing = nf4, whole = tensor<8x64xbf16>>, #fcdp.packed<packing = int8, whole = tensor<8x64xf32>, transposed = true>]}

// CHECK-LABEL: func.func private @outer
// CHECK-SAME: #fcdp.outer<every = 500, lr = 0.69999999999999996 : f64, momentum = 9.000000e-01 : f64, nesterov = true, fragments = 4>
// CHECK-SAME: #fcdp.outer<every = 1, lr = 0.000000e+00 : f64, momentum = 0.000000e+00 : f64, nesterov = false, fragments = 1>
func.func private @outer() attributes {values = [
  #fcdp.outer<every = 500, lr = 0.7, momentum = 0.9, nesterov = true, fragments = 4>,
  #fcdp.outer<every = 1, lr = 0.0, momentum = 0.0, nesterov = false, fragments = 1>]}

// CHECK-LABEL: func.func private @types
// CHECK-SAME: (!fcdp.token, !fcdp.shard<tensor<8x4xbf16>>, !fcdp.shard<tensor<f32>>, !fcdp.shard<tensor<0x4xf8E4M3FN>>)
func.func private @types(!fcdp.token, !fcdp.shard<tensor<8x4xbf16>>, !fcdp.shard<tensor<f32>>, !fcdp.shard<tensor<0x4xf8E4M3FN>>)
