// RUN: fcdp-opt %s --split-input-file --verify-diagnostics

// One case for each constraint, named for it.

// expected-error@+1 {{expected an offset from 0 on, got -1}}
func.func private @member_c1() attributes {value = #fcdp.member<@w, -1>}

// -----

// expected-error@+1 {{expected a number from 0 on, got -8}}
func.func private @buffer_c1_offset() attributes {value = #fcdp.buffer<arena = device, offset = -8, bytes = 64, node_stride = 0, local_stride = 0>}

// -----

// expected-error@+1 {{expected a number from 0 on, got -8}}
func.func private @buffer_c1_bytes() attributes {value = #fcdp.buffer<arena = device, offset = 0, bytes = -8, node_stride = 0, local_stride = 0>}

// -----

// expected-error@+1 {{expected a number from 0 on, got -8}}
func.func private @buffer_c1_node_stride() attributes {value = #fcdp.buffer<arena = device, offset = 0, bytes = 64, node_stride = -8, local_stride = 0>}

// -----

// expected-error@+1 {{expected a number from 0 on, got -8}}
func.func private @buffer_c1_local_stride() attributes {value = #fcdp.buffer<arena = device, offset = 0, bytes = 64, node_stride = 0, local_stride = -8>}

// -----

// expected-error@+1 {{the buffer's end is out of range}}
func.func private @buffer_c1_end() attributes {value = #fcdp.buffer<arena = device, offset = 9223372036854775807, bytes = 1>}

// -----

// expected-error@+1 {{expected 'lr' to be a finite f64 from 0 on, got}}
func.func private @adamw_c1_lr() attributes {value = #fcdp.adamw<lr = -0.5, beta1 = 0.9, beta2 = 0.99, eps = 0.1, weight_decay = 0.0>}

// -----

// expected-error@+1 {{expected 'beta1' to be a finite f64 from 0 on, got}}
func.func private @adamw_c1_beta1() attributes {value = #fcdp.adamw<lr = 0.1, beta1 = -0.5, beta2 = 0.99, eps = 0.1, weight_decay = 0.0>}

// -----

// expected-error@+1 {{expected a beta below 1, got 1.0}}
func.func private @adamw_c2_beta1() attributes {value = #fcdp.adamw<lr = 0.1, beta1 = 1.0, beta2 = 0.99, eps = 0.1, weight_decay = 0.0>}

// -----

// expected-error@+1 {{expected 'beta2' to be a finite f64 from 0 on, got}}
func.func private @adamw_c1_beta2() attributes {value = #fcdp.adamw<lr = 0.1, beta1 = 0.9, beta2 = -0.5, eps = 0.1, weight_decay = 0.0>}

// -----

// expected-error@+1 {{expected a beta below 1, got 1.0}}
func.func private @adamw_c2_beta2() attributes {value = #fcdp.adamw<lr = 0.1, beta1 = 0.9, beta2 = 1.0, eps = 0.1, weight_decay = 0.0>}

// -----

// expected-error@+1 {{expected 'eps' to be a finite f64 from 0 on, got}}
func.func private @adamw_c1_eps() attributes {value = #fcdp.adamw<lr = 0.1, beta1 = 0.9, beta2 = 0.99, eps = -0.5, weight_decay = 0.0>}

// -----

// expected-error@+1 {{expected 'weight_decay' to be a finite f64 from 0 on, got}}
func.func private @adamw_c1_weight_decay() attributes {value = #fcdp.adamw<lr = 0.1, beta1 = 0.9, beta2 = 0.99, eps = 0.1, weight_decay = -0.5>}

// -----

// expected-error@+1 {{expected 'lr' to be a finite f64 from 0 on, got}}
func.func private @adamw_c1_nan() attributes {value = #fcdp.adamw<lr = 0x7FF8000000000000 : f64, beta1 = 0.9, beta2 = 0.99, eps = 0.1, weight_decay = 0.0>}

// -----

// expected-error@+1 {{expected 'lr' to be a finite f64 from 0 on, got}}
func.func private @adamw_c1_f32() attributes {value = #fcdp.adamw<lr = 0.1 : f32, beta1 = 0.9, beta2 = 0.99, eps = 0.1, weight_decay = 0.0>}

// -----

// expected-error@+1 {{expected 'lr' to be a finite f64 from 0 on, got}}
func.func private @adamw8bit_c1_lr() attributes {value = #fcdp.adamw8bit<lr = -0.5, beta1 = 0.9, beta2 = 0.9, eps = 0.1, weight_decay = 0.0>}

// -----

// expected-error@+1 {{expected 'beta1' to be a finite f64 from 0 on, got}}
func.func private @adamw8bit_c1_beta1() attributes {value = #fcdp.adamw8bit<lr = 0.1, beta1 = -0.5, beta2 = 0.9, eps = 0.1, weight_decay = 0.0>}

// -----

// expected-error@+1 {{expected 'beta2' to be a finite f64 from 0 on, got}}
func.func private @adamw8bit_c1_beta2() attributes {value = #fcdp.adamw8bit<lr = 0.1, beta1 = 0.9, beta2 = -0.5, eps = 0.1, weight_decay = 0.0>}

// -----

// expected-error@+1 {{expected 'eps' to be a finite f64 from 0 on, got}}
func.func private @adamw8bit_c1_eps() attributes {value = #fcdp.adamw8bit<lr = 0.1, beta1 = 0.9, beta2 = 0.9, eps = -0.5, weight_decay = 0.0>}

// -----

// expected-error@+1 {{expected 'weight_decay' to be a finite f64 from 0 on, got}}
func.func private @adamw8bit_c1_weight_decay() attributes {value = #fcdp.adamw8bit<lr = 0.1, beta1 = 0.9, beta2 = 0.9, eps = 0.1, weight_decay = -0.5>}

// -----

// expected-error@+1 {{expected a beta below 1, got 1.0}}
func.func private @adamw8bit_c2() attributes {value = #fcdp.adamw8bit<lr = 0.1, beta1 = 1.0, beta2 = 0.9, eps = 0.1, weight_decay = 0.0>}

// -----

// expected-error@+1 {{expected 'lr' to be a finite f64 from 0 on, got}}
func.func private @ademamix_c1_lr() attributes {value = #fcdp.ademamix<lr = -0.5, beta1 = 0.9, beta2 = 0.99, beta3 = 0.999, alpha = 2.0, beta3_warmup = 0, alpha_warmup = 0, eps = 0.1, weight_decay = 0.0>}

// -----

// expected-error@+1 {{expected 'beta1' to be a finite f64 from 0 on, got}}
func.func private @ademamix_c1_beta1() attributes {value = #fcdp.ademamix<lr = 0.1, beta1 = -0.5, beta2 = 0.99, beta3 = 0.999, alpha = 2.0, beta3_warmup = 0, alpha_warmup = 0, eps = 0.1, weight_decay = 0.0>}

// -----

// expected-error@+1 {{expected 'beta2' to be a finite f64 from 0 on, got}}
func.func private @ademamix_c1_beta2() attributes {value = #fcdp.ademamix<lr = 0.1, beta1 = 0.9, beta2 = -0.5, beta3 = 0.999, alpha = 2.0, beta3_warmup = 0, alpha_warmup = 0, eps = 0.1, weight_decay = 0.0>}

// -----

// expected-error@+1 {{expected 'beta3' to be a finite f64 from 0 on, got}}
func.func private @ademamix_c1_beta3() attributes {value = #fcdp.ademamix<lr = 0.1, beta1 = 0.9, beta2 = 0.99, beta3 = -0.5, alpha = 2.0, beta3_warmup = 0, alpha_warmup = 0, eps = 0.1, weight_decay = 0.0>}

// -----

// expected-error@+1 {{expected 'alpha' to be a finite f64 from 0 on, got}}
func.func private @ademamix_c1_alpha() attributes {value = #fcdp.ademamix<lr = 0.1, beta1 = 0.9, beta2 = 0.99, beta3 = 0.999, alpha = -0.5, beta3_warmup = 0, alpha_warmup = 0, eps = 0.1, weight_decay = 0.0>}

// -----

// expected-error@+1 {{expected 'eps' to be a finite f64 from 0 on, got}}
func.func private @ademamix_c1_eps() attributes {value = #fcdp.ademamix<lr = 0.1, beta1 = 0.9, beta2 = 0.99, beta3 = 0.999, alpha = 2.0, beta3_warmup = 0, alpha_warmup = 0, eps = -0.5, weight_decay = 0.0>}

// -----

// expected-error@+1 {{expected 'weight_decay' to be a finite f64 from 0 on, got}}
func.func private @ademamix_c1_weight_decay() attributes {value = #fcdp.ademamix<lr = 0.1, beta1 = 0.9, beta2 = 0.99, beta3 = 0.999, alpha = 2.0, beta3_warmup = 0, alpha_warmup = 0, eps = 0.1, weight_decay = -0.5>}

// -----

// expected-error@+1 {{expected a beta below 1, got 1.0}}
func.func private @ademamix_c2_beta1() attributes {value = #fcdp.ademamix<lr = 0.1, beta1 = 1.0, beta2 = 0.99, beta3 = 0.999, alpha = 2.0, beta3_warmup = 0, alpha_warmup = 0, eps = 0.1, weight_decay = 0.0>}

// -----

// expected-error@+1 {{expected a beta below 1, got 1.0}}
func.func private @ademamix_c2_beta2() attributes {value = #fcdp.ademamix<lr = 0.1, beta1 = 0.9, beta2 = 1.0, beta3 = 0.999, alpha = 2.0, beta3_warmup = 0, alpha_warmup = 0, eps = 0.1, weight_decay = 0.0>}

// -----

// expected-error@+1 {{expected a beta below 1, got 1.0}}
func.func private @ademamix_c2_beta3() attributes {value = #fcdp.ademamix<lr = 0.1, beta1 = 0.9, beta2 = 0.99, beta3 = 1.0, alpha = 2.0, beta3_warmup = 0, alpha_warmup = 0, eps = 0.1, weight_decay = 0.0>}

// -----

// expected-error@+1 {{expected 'beta3_warmup' from 0 to 1000000000, got -1}}
func.func private @ademamix_c3_beta3_warmup() attributes {value = #fcdp.ademamix<lr = 0.1, beta1 = 0.9, beta2 = 0.99, beta3 = 0.999, alpha = 2.0, beta3_warmup = -1, alpha_warmup = 0, eps = 0.1, weight_decay = 0.0>}

// -----

// expected-error@+1 {{expected 'alpha_warmup' from 0 to 1000000000, got -1}}
func.func private @ademamix_c3_alpha_warmup() attributes {value = #fcdp.ademamix<lr = 0.1, beta1 = 0.9, beta2 = 0.99, beta3 = 0.999, alpha = 2.0, beta3_warmup = 0, alpha_warmup = -1, eps = 0.1, weight_decay = 0.0>}

// -----

// expected-error@+1 {{expected 'lr' to be a finite f64 from 0 on, got}}
func.func private @soap_c1_lr() attributes {value = #fcdp.soap<lr = -0.5, beta1 = 0.9, beta2 = 0.99, shampoo_beta = 0.5, eps = 0.1, weight_decay = 0.0, precondition_frequency = 10, max_precond_dim = 64>}

// -----

// expected-error@+1 {{expected 'beta1' to be a finite f64 from 0 on, got}}
func.func private @soap_c1_beta1() attributes {value = #fcdp.soap<lr = 0.1, beta1 = -0.5, beta2 = 0.99, shampoo_beta = 0.5, eps = 0.1, weight_decay = 0.0, precondition_frequency = 10, max_precond_dim = 64>}

// -----

// expected-error@+1 {{expected 'beta2' to be a finite f64 from 0 on, got}}
func.func private @soap_c1_beta2() attributes {value = #fcdp.soap<lr = 0.1, beta1 = 0.9, beta2 = -0.5, shampoo_beta = 0.5, eps = 0.1, weight_decay = 0.0, precondition_frequency = 10, max_precond_dim = 64>}

// -----

// expected-error@+1 {{expected 'eps' to be a finite f64 from 0 on, got}}
func.func private @soap_c1_eps() attributes {value = #fcdp.soap<lr = 0.1, beta1 = 0.9, beta2 = 0.99, shampoo_beta = 0.5, eps = -0.5, weight_decay = 0.0, precondition_frequency = 10, max_precond_dim = 64>}

// -----

// expected-error@+1 {{expected 'weight_decay' to be a finite f64 from 0 on, got}}
func.func private @soap_c1_weight_decay() attributes {value = #fcdp.soap<lr = 0.1, beta1 = 0.9, beta2 = 0.99, shampoo_beta = 0.5, eps = 0.1, weight_decay = -0.5, precondition_frequency = 10, max_precond_dim = 64>}

// -----

// expected-error@+1 {{expected 'shampoo_beta' to be a finite f64, got}}
func.func private @soap_c1_shampoo_beta() attributes {value = #fcdp.soap<lr = 0.1, beta1 = 0.9, beta2 = 0.99, shampoo_beta = 0x7FF0000000000000 : f64, eps = 0.1, weight_decay = 0.0, precondition_frequency = 10, max_precond_dim = 64>}

// -----

// expected-error@+1 {{expected a beta below 1, got 1.0}}
func.func private @soap_c2_beta1() attributes {value = #fcdp.soap<lr = 0.1, beta1 = 1.0, beta2 = 0.99, shampoo_beta = 0.5, eps = 0.1, weight_decay = 0.0, precondition_frequency = 10, max_precond_dim = 64>}

// -----

// expected-error@+1 {{expected a beta below 1, got 1.0}}
func.func private @soap_c2_beta2() attributes {value = #fcdp.soap<lr = 0.1, beta1 = 0.9, beta2 = 1.0, shampoo_beta = 0.5, eps = 0.1, weight_decay = 0.0, precondition_frequency = 10, max_precond_dim = 64>}

// -----

// expected-error@+1 {{expected 'shampoo_beta' of at least -1 and below 1, got 1.0}}
func.func private @soap_c2_shampoo_beta() attributes {value = #fcdp.soap<lr = 0.1, beta1 = 0.9, beta2 = 0.99, shampoo_beta = 1.0, eps = 0.1, weight_decay = 0.0, precondition_frequency = 10, max_precond_dim = 64>}

// -----

// expected-error@+1 {{expected 'shampoo_beta' of at least -1 and below 1, got -2.0}}
func.func private @soap_c2_least_shampoo_beta() attributes {value = #fcdp.soap<lr = 0.1, beta1 = 0.9, beta2 = 0.99, shampoo_beta = -2.0, eps = 0.1, weight_decay = 0.0, precondition_frequency = 10, max_precond_dim = 64>}

// -----

// expected-error@+1 {{expected 'precondition_frequency' from 1 to 1000000000, got 0}}
func.func private @soap_c3_precondition_frequency() attributes {value = #fcdp.soap<lr = 0.1, beta1 = 0.9, beta2 = 0.99, shampoo_beta = 0.5, eps = 0.1, weight_decay = 0.0, precondition_frequency = 0, max_precond_dim = 64>}

// -----

// expected-error@+1 {{expected 'max_precond_dim' from 0 to 1000000, got 1000001}}
func.func private @soap_c3_max_precond_dim() attributes {value = #fcdp.soap<lr = 0.1, beta1 = 0.9, beta2 = 0.99, shampoo_beta = 0.5, eps = 0.1, weight_decay = 0.0, precondition_frequency = 10, max_precond_dim = 1000001>}

// -----

// expected-error@+1 {{expected 'lr' to be a finite f64 from 0 on, got}}
func.func private @lion_c1_lr() attributes {value = #fcdp.lion<lr = -0.5, beta1 = 0.9, beta2 = 0.99, weight_decay = 0.0>}

// -----

// expected-error@+1 {{expected 'beta1' to be a finite f64 from 0 on, got}}
func.func private @lion_c1_beta1() attributes {value = #fcdp.lion<lr = 0.1, beta1 = -0.5, beta2 = 0.99, weight_decay = 0.0>}

// -----

// expected-error@+1 {{expected 'beta2' to be a finite f64 from 0 on, got}}
func.func private @lion_c1_beta2() attributes {value = #fcdp.lion<lr = 0.1, beta1 = 0.9, beta2 = -0.5, weight_decay = 0.0>}

// -----

// expected-error@+1 {{expected 'weight_decay' to be a finite f64 from 0 on, got}}
func.func private @lion_c1_weight_decay() attributes {value = #fcdp.lion<lr = 0.1, beta1 = 0.9, beta2 = 0.99, weight_decay = -0.5>}

// -----

// expected-error@+1 {{expected a beta below 1, got 1.0}}
func.func private @lion_c2() attributes {value = #fcdp.lion<lr = 0.1, beta1 = 0.9, beta2 = 1.0, weight_decay = 0.0>}

// -----

// expected-error@+1 {{expected 'lr' to be a finite f64 from 0 on, got}}
func.func private @adafactor_c1_lr() attributes {value = #fcdp.adafactor<lr = -0.5, beta2_decay = -0.8, eps1 = 0.1, eps2 = 0.1, d = 1.0, weight_decay = 0.0>}

// -----

// expected-error@+1 {{expected 'eps1' to be a finite f64 from 0 on, got}}
func.func private @adafactor_c1_eps1() attributes {value = #fcdp.adafactor<lr = 0.1, beta2_decay = -0.8, eps1 = -0.5, eps2 = 0.1, d = 1.0, weight_decay = 0.0>}

// -----

// expected-error@+1 {{expected 'eps2' to be a finite f64 from 0 on, got}}
func.func private @adafactor_c1_eps2() attributes {value = #fcdp.adafactor<lr = 0.1, beta2_decay = -0.8, eps1 = 0.1, eps2 = -0.5, d = 1.0, weight_decay = 0.0>}

// -----

// expected-error@+1 {{expected 'd' to be a finite f64 from 0 on, got}}
func.func private @adafactor_c1_d() attributes {value = #fcdp.adafactor<lr = 0.1, beta2_decay = -0.8, eps1 = 0.1, eps2 = 0.1, d = -0.5, weight_decay = 0.0>}

// -----

// expected-error@+1 {{expected 'weight_decay' to be a finite f64 from 0 on, got}}
func.func private @adafactor_c1_weight_decay() attributes {value = #fcdp.adafactor<lr = 0.1, beta2_decay = -0.8, eps1 = 0.1, eps2 = 0.1, d = 1.0, weight_decay = -0.5>}

// -----

// expected-error@+1 {{expected 'beta2_decay' to be a finite f64, got}}
func.func private @adafactor_c1_beta2_decay() attributes {value = #fcdp.adafactor<lr = 0.1, beta2_decay = 0x7FF0000000000000 : f64, eps1 = 0.1, eps2 = 0.1, d = 1.0, weight_decay = 0.0>}

// -----

// expected-error@+1 {{expected 'beta2_decay' of at most 0, got}}
func.func private @adafactor_c2_beta2_decay() attributes {value = #fcdp.adafactor<lr = 0.1, beta2_decay = 0.5, eps1 = 0.1, eps2 = 0.1, d = 1.0, weight_decay = 0.0>}

// -----

// expected-error@+1 {{expected 'd' of at least 1, got}}
func.func private @adafactor_c2_d() attributes {value = #fcdp.adafactor<lr = 0.1, beta2_decay = -0.8, eps1 = 0.1, eps2 = 0.1, d = 0.5, weight_decay = 0.0>}

// -----

// expected-error@+1 {{expected 'lr' to be a finite f64 from 0 on, got}}
func.func private @muon_c1_lr() attributes {value = #fcdp.muon<lr = -0.5, weight_decay = 0.0, momentum = 0.9, nesterov = true, ns_a = 3.0, ns_b = -4.0, ns_c = 2.0, eps = 1.0e-07, ns_steps = 5, adjust_lr_fn = original>}

// -----

// expected-error@+1 {{expected 'weight_decay' to be a finite f64 from 0 on, got}}
func.func private @muon_c1_weight_decay() attributes {value = #fcdp.muon<lr = 0.1, weight_decay = -0.5, momentum = 0.9, nesterov = true, ns_a = 3.0, ns_b = -4.0, ns_c = 2.0, eps = 1.0e-07, ns_steps = 5, adjust_lr_fn = original>}

// -----

// expected-error@+1 {{expected 'momentum' to be a finite f64 from 0 on, got}}
func.func private @muon_c1_momentum() attributes {value = #fcdp.muon<lr = 0.1, weight_decay = 0.0, momentum = -0.5, nesterov = true, ns_a = 3.0, ns_b = -4.0, ns_c = 2.0, eps = 1.0e-07, ns_steps = 5, adjust_lr_fn = original>}

// -----

// expected-error@+1 {{expected 'eps' to be a finite f64 from 0 on, got}}
func.func private @muon_c1_eps() attributes {value = #fcdp.muon<lr = 0.1, weight_decay = 0.0, momentum = 0.9, nesterov = true, ns_a = 3.0, ns_b = -4.0, ns_c = 2.0, eps = -0.5, ns_steps = 5, adjust_lr_fn = original>}

// -----

// expected-error@+1 {{expected 'ns_a' to be a finite f64, got}}
func.func private @muon_c1_ns_a() attributes {value = #fcdp.muon<lr = 0.1, weight_decay = 0.0, momentum = 0.9, nesterov = true, ns_a = 0x7FF0000000000000 : f64, ns_b = -4.0, ns_c = 2.0, eps = 1.0e-07, ns_steps = 5, adjust_lr_fn = original>}

// -----

// expected-error@+1 {{expected 'ns_b' to be a finite f64, got}}
func.func private @muon_c1_ns_b() attributes {value = #fcdp.muon<lr = 0.1, weight_decay = 0.0, momentum = 0.9, nesterov = true, ns_a = 3.0, ns_b = 0x7FF0000000000000 : f64, ns_c = 2.0, eps = 1.0e-07, ns_steps = 5, adjust_lr_fn = original>}

// -----

// expected-error@+1 {{expected 'ns_c' to be a finite f64, got}}
func.func private @muon_c1_ns_c() attributes {value = #fcdp.muon<lr = 0.1, weight_decay = 0.0, momentum = 0.9, nesterov = true, ns_a = 3.0, ns_b = -4.0, ns_c = 0x7FF0000000000000 : f64, eps = 1.0e-07, ns_steps = 5, adjust_lr_fn = original>}

// -----

// expected-error@+1 {{expected 'ns_steps' from 0 to 99, got -1}}
func.func private @muon_c2_below() attributes {value = #fcdp.muon<lr = 0.1, weight_decay = 0.0, momentum = 0.9, nesterov = true, ns_a = 3.0, ns_b = -4.0, ns_c = 2.0, eps = 1.0e-07, ns_steps = -1, adjust_lr_fn = original>}

// -----

// expected-error@+1 {{expected 'ns_steps' from 0 to 99, got 100}}
func.func private @muon_c2_above() attributes {value = #fcdp.muon<lr = 0.1, weight_decay = 0.0, momentum = 0.9, nesterov = true, ns_a = 3.0, ns_b = -4.0, ns_c = 2.0, eps = 1.0e-07, ns_steps = 100, adjust_lr_fn = original>}

// -----

// expected-error@+1 {{expected 'lr' to be a finite f64 from 0 on, got}}
func.func private @sgd_c1_lr() attributes {value = #fcdp.sgd<lr = -0.5, momentum = 0.0, dampening = 0.0, weight_decay = 0.0, nesterov = false>}

// -----

// expected-error@+1 {{expected 'momentum' to be a finite f64 from 0 on, got}}
func.func private @sgd_c1_momentum() attributes {value = #fcdp.sgd<lr = 0.1, momentum = -0.5, dampening = 0.0, weight_decay = 0.0, nesterov = false>}

// -----

// expected-error@+1 {{expected 'weight_decay' to be a finite f64 from 0 on, got}}
func.func private @sgd_c1_weight_decay() attributes {value = #fcdp.sgd<lr = 0.1, momentum = 0.0, dampening = 0.0, weight_decay = -0.5, nesterov = false>}

// -----

// expected-error@+1 {{expected 'dampening' to be a finite f64, got}}
func.func private @sgd_c1_dampening() attributes {value = #fcdp.sgd<lr = 0.1, momentum = 0.0, dampening = 0x7FF0000000000000 : f64, weight_decay = 0.0, nesterov = false>}

// -----

// expected-error@+1 {{'nesterov' needs momentum and no dampening}}
func.func private @sgd_c2_momentum() attributes {value = #fcdp.sgd<lr = 0.1, momentum = 0.0, dampening = 0.0, weight_decay = 0.0, nesterov = true>}

// -----

// expected-error@+1 {{'nesterov' needs momentum and no dampening}}
func.func private @sgd_c2_dampening() attributes {value = #fcdp.sgd<lr = 0.1, momentum = 0.9, dampening = 0.1, weight_decay = 0.0, nesterov = true>}

// -----

// expected-error@+1 {{expected 'lr' to be a finite f64 from 0 on, got}}
func.func private @group_c1_lr() attributes {value = #fcdp.group<lr = -0.5, weight_decay = 0.0>}

// -----

// expected-error@+1 {{expected 'weight_decay' to be a finite f64 from 0 on, got}}
func.func private @group_c1_weight_decay() attributes {value = #fcdp.group<lr = 1.0, weight_decay = 0x7FF0000000000000 : f64>}

// -----

// expected-error@+1 {{expected a static matrix of f32, bf16 or f16 of at most 2^48 bytes, got 'tensor<8xf32>'}}
func.func private @packed_c1_rank() attributes {value = #fcdp.packed<packing = nf4, whole = tensor<8xf32>>}

// -----

// expected-error@+1 {{expected a static matrix of f32, bf16 or f16 of at most 2^48 bytes, got 'tensor<8x8xf64>'}}
func.func private @packed_c1_type() attributes {value = #fcdp.packed<packing = nf4, whole = tensor<8x8xf64>>}

// -----

// expected-error@+1 {{expected a static matrix of f32, bf16 or f16 of at most 2^48 bytes, got 'tensor<4294967296x4294967296xf32>'}}
func.func private @packed_c1_huge() attributes {value = #fcdp.packed<packing = int8, whole = tensor<4294967296x4294967296xf32>>}

// -----

// expected-error@+1 {{expected a static tensor of floats or ui8, got 'tensor<?xf32>'}}
func.func private @shard_c1_dynamic(!fcdp.shard<tensor<?xf32>>)

// -----

// expected-error@+1 {{expected a static tensor of floats or ui8, got 'tensor<4xi64>'}}
func.func private @shard_c1_integer(!fcdp.shard<tensor<4xi64>>)

// -----

// expected-error@+1 {{expected a static tensor of floats or ui8, got 'tensor<4294967296x4294967296xf32>'}}
func.func private @shard_c1_huge(!fcdp.shard<tensor<4294967296x4294967296xf32>>)

// -----

// phase_string
// expected-error@+1 {{attribute 'fcdp.phase' must be a phase on a module, got '"sharded"'}}
module attributes {fcdp.phase = "sharded"} {}

// -----

// expected-error@+1 {{attribute 'fcdp.phase' must be a phase on a module, got '#fcdp.phase<sharded>'}}
func.func private @phase_on_function() attributes {fcdp.phase = #fcdp.phase<sharded>}

// -----

// role_on_module
// expected-error@+1 {{attribute 'fcdp.role' must be a role on a function}}
module attributes {fcdp.role = #fcdp.role<init>} {}

// -----

// expected-error@+1 {{attribute 'fcdp.role' must be a role on a function, got '"init"'}}
func.func private @role_string() attributes {fcdp.role = "init"}

// -----

// variant_on_module
// expected-error@+1 {{attribute 'fcdp.variant' must be an i64 from 0 on, on a function}}
module attributes {fcdp.variant = 0 : i64} {}

// -----

// expected-error@+1 {{attribute 'fcdp.variant' must be an i64 from 0 on, on a function, got '-1 : i64'}}
func.func private @variant_negative() attributes {fcdp.variant = -1 : i64}

// -----

// expected-error@+1 {{attribute 'fcdp.variant_archives' must be an array of strings on a module, got '[1]'}}
module attributes {fcdp.variant_archives = [1]} {}

// -----

// archive_number
// expected-error@+1 {{attribute 'fcdp.archive' must be a string on a module}}
module attributes {fcdp.archive = 1} {}

// -----

// expected-error@+1 {{attribute 'fcdp.archive' must be a string on a module}}
func.func private @archive_on_function() attributes {fcdp.archive = "a.pt2"}

// -----

// strategy_number
// expected-error@+1 {{attribute 'fcdp.strategy' must be a string on a module}}
module attributes {fcdp.strategy = 1} {}

// -----

// micro_batches_zero
// expected-error@+1 {{attribute 'fcdp.micro_batches' must be a positive i64 on a module}}
module attributes {fcdp.micro_batches = 0} {}

// -----

// micro_batches_string
// expected-error@+1 {{attribute 'fcdp.micro_batches' must be a positive i64 on a module}}
module attributes {fcdp.micro_batches = "4"} {}

// -----

// micro_batches_wide
// expected-error@+1 {{attribute 'fcdp.micro_batches' must be a positive i64 on a module}}
module attributes {fcdp.micro_batches = 4 : i128} {}

// -----

// micro_batches_signed
// expected-error@+1 {{attribute 'fcdp.micro_batches' must be a positive i64 on a module}}
module attributes {fcdp.micro_batches = 4 : si64} {}

// -----

// unknown_on_module
// expected-error@+1 {{unknown attribute 'fcdp.phases'}}
module attributes {fcdp.phases = 1} {}

// -----

// expected-error@+1 {{unknown attribute 'fcdp.mesh'}}
func.func private @unknown_on_function() attributes {fcdp.mesh = @world}

// -----

// expected-error@+1 {{unknown attribute 'fcdp.role' on argument 0}}
func.func private @unknown_on_argument(tensor<f32> {fcdp.role = #fcdp.role<init>})

// -----

// expected-error@+1 {{attribute 'fcdp.event' must be an i64 from 0 on, on a token, got '-1 : i64' on argument 0}}
func.func private @event_negative(!fcdp.token {fcdp.event = -1})

// -----

// expected-error@+1 {{attribute 'fcdp.event' must be an i64 from 0 on, on a token, got '1 : i64' on argument 0}}
func.func private @event_on_tensor(tensor<f32> {fcdp.event = 1})

// -----

// expected-error@+1 {{unknown attribute 'fcdp.event' on result 0}}
func.func private @unknown_on_result() -> (!fcdp.token {fcdp.event = 1})

// -----

// prefetch_negative
// expected-error@+1 {{attribute 'fcdp.prefetch' must be an i64 from 0 on, on a module, a gather or a load}}
module attributes {fcdp.prefetch = -1} {}

// -----

// prefetch_function
// expected-error@+1 {{attribute 'fcdp.prefetch' must be an i64 from 0 on, on a module, a gather or a load}}
func.func private @f() attributes {fcdp.prefetch = 1}

// -----

func.func @prefetch_call(%x: tensor<f32>) {
  // expected-error@+1 {{attribute 'fcdp.prefetch' must be an i64 from 0 on, on a module, a gather or a load}}
  aten.call "aten.neg.default"(self = %x) {fcdp.prefetch = 1} : (tensor<f32>) -> tensor<f32>
  return
}

// -----

// reductions_none
// expected-error@+1 {{attribute 'fcdp.reductions' must be a positive i64 on a module or a sum}}
module attributes {fcdp.reductions = 0} {}

// -----

func.func @reductions_call(%x: tensor<f32>) {
  // expected-error@+1 {{attribute 'fcdp.reductions' must be a positive i64 on a module or a sum}}
  aten.call "aten.neg.default"(self = %x) {fcdp.reductions = 1} : (tensor<f32>) -> tensor<f32>
  return
}

// -----

// target_other
// expected-error@+1 {{attribute 'fcdp.target' must be 'cpu' or 'cuda' on a module}}
module attributes {fcdp.target = "tpu"} {}

// -----

// target_function
// expected-error@+1 {{attribute 'fcdp.target' must be 'cpu' or 'cuda' on a module}}
func.func private @target() attributes {fcdp.target = "cpu"}

// -----

func.func @dim_order_twice(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{attribute 'fcdp.dim_order' must be a permutation of the dimensions of a call's first result}}
  %0 = aten.call "aten.clone.default"(self = %x) {fcdp.dim_order = array<i64: 0, 0>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

// dim_order_function
// expected-error@+1 {{attribute 'fcdp.dim_order' must be a permutation of the dimensions of a call's first result}}
func.func private @dim_order() attributes {fcdp.dim_order = array<i64: 0>}

// -----

// remat_number
// expected-error@+1 {{attribute 'fcdp.loss_weight' must be a string on a module}}
module attributes {fcdp.loss_weight = 8} {}

// -----

// expected-error@+1 {{attribute 'fcdp.loss_chunk' must be a string on a module}}
module attributes {fcdp.loss_chunk = 8} {}

// -----

// expected-error@+1 {{attribute 'fcdp.frozen' must be a string on a module}}
module attributes {fcdp.frozen = 8} {}

// -----

// expected-error@+1 {{attribute 'fcdp.remat' must be a string on a module}}
module attributes {fcdp.remat = 8} {}

// -----

func.func @checkpoint_region_negative(%x: tensor<f32>) {
  // expected-error@+1 {{attribute 'fcdp.checkpoint_region' must be an i64 from 0 on, on a call}}
  aten.call "aten.neg.default"(self = %x) {fcdp.checkpoint_region = -1 : i64} : (tensor<f32>) -> tensor<f32>
  return
}

// -----

func.func @recompute_word(%x: tensor<f32>) {
  // expected-error@+1 {{attribute 'fcdp.recompute' must be a bool on a call}}
  aten.call "aten.neg.default"(self = %x) {fcdp.recompute} : (tensor<f32>) -> tensor<f32>
  return
}

// -----

// expected-error@+1 {{attribute 'fcdp.recompute' must be a bool on a call}}
func.func private @recompute_function() attributes {fcdp.recompute = true}

// -----

// open_sharding
// expected-error@+1 {{attribute 'fcdp.open_sharding' must be a unit on a module}}
module attributes {fcdp.open_sharding = true} {}

// -----

// open_merging
// expected-error@+1 {{attribute 'fcdp.open_merging' must be a unit on a module}}
module attributes {fcdp.open_merging = false} {}

// -----

func.func @repeated_bool(%x: tensor<f32>) {
  // expected-error@+1 {{attribute 'fcdp.repeated' must be a unit on a call}}
  aten.call "aten.neg.default"(self = %x) {fcdp.repeated = true} : (tensor<f32>) -> tensor<f32>
  return
}

// -----

// bucket_bytes
// expected-error@+1 {{attribute 'fcdp.bucket_bytes' must be a positive i64 on a module}}
module attributes {fcdp.bucket_bytes = 0} {}

// -----

// layout_c1_no_rows
// expected-error@+1 {{expected 'flat', 'ragged<rows>' or 'blocks<elements>' with a positive number, 'owned' or 'whole', got 'ragged<0>'}}
func.func private @f() attributes {value = #fcdp<layout ragged>}

// -----

// layout_c1_negative
// expected-error@+1 {{expected 'flat', 'ragged<rows>' or 'blocks<elements>' with a positive number, 'owned' or 'whole', got 'ragged<-2>'}}
func.func private @f() attributes {value = #fcdp<layout ragged<-2>>}

// -----

// layout_c1_rows
// expected-error@+1 {{expected 'flat', 'ragged<rows>' or 'blocks<elements>' with a positive number, 'owned' or 'whole', got 'owned<2>'}}
func.func private @f() attributes {value = #fcdp<layout owned<2>>}

// -----

// layout_c1_no_blocks
// expected-error@+1 {{expected 'flat', 'ragged<rows>' or 'blocks<elements>' with a positive number, 'owned' or 'whole', got 'blocks<0>'}}
func.func private @f() attributes {value = #fcdp<layout blocks>}

// -----

// clip_norm_zero
// expected-error@+1 {{attribute 'fcdp.clip_norm' must be a finite, positive f64 on a module, got '0.000000e+00 : f64'}}
module attributes {fcdp.phase = #fcdp.phase<imported>, fcdp.clip_norm = 0.0} {}

// -----

// own_scale_on_module
// expected-error@+1 {{attribute 'fcdp.own_scale' must be a unit on an update or on the clipping of gradients, got 'unit'}}
module attributes {fcdp.phase = #fcdp.phase<imported>, fcdp.own_scale} {}

// -----

// parameters_for_each_operand
func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{attribute 'fcdp.parameters' must be a parameter or a unit for each operand of a call, got '[@w, @v]'}}
  %0 = aten.call "aten.neg.default"(self = %x) {fcdp.parameters = [@w, @v]} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// gradients_for_each_result
func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{attribute 'fcdp.gradients' must be an array of parameters for each result of a call, got '[@w]'}}
  %0 = aten.call "aten.neg.default"(self = %x) {fcdp.gradients = [@w]} : (tensor<4xf32>) -> tensor<4xf32>
  return
}
