// RUN: fcdp-opt %s --split-input-file --verify-diagnostics

// One case for each constraint of outer steps, named for it.

// expected-error@+1 {{expected 'every' from 1 to 2^31 - 1, and 'fragments' from 1 to it, got 0 and 1}}
func.func private @outer_c1_every() attributes {value = #fcdp.outer<every = 0, lr = 0.7, momentum = 0.9, nesterov = true, fragments = 1>}

// -----

// expected-error@+1 {{expected 'every' from 1 to 2^31 - 1, and 'fragments' from 1 to it, got 2147483648 and 1}}
func.func private @outer_c1_steps() attributes {value = #fcdp.outer<every = 2147483648, lr = 0.7, momentum = 0.9, nesterov = true, fragments = 1>}

// -----

// expected-error@+1 {{expected 'every' from 1 to 2^31 - 1, and 'fragments' from 1 to it, got 4 and 0}}
func.func private @outer_c1_no_fragment() attributes {value = #fcdp.outer<every = 4, lr = 0.7, momentum = 0.9, nesterov = true, fragments = 0>}

// -----

// expected-error@+1 {{expected 'every' from 1 to 2^31 - 1, and 'fragments' from 1 to it, got 4 and 5}}
func.func private @outer_c1_fragments() attributes {value = #fcdp.outer<every = 4, lr = 0.7, momentum = 0.9, nesterov = true, fragments = 5>}

// -----

// expected-error@+1 {{expected 'lr' to be a finite f64 from 0 on, got}}
func.func private @outer_c2_lr() attributes {value = #fcdp.outer<every = 4, lr = -0.5, momentum = 0.9, nesterov = true, fragments = 1>}

// -----

// expected-error@+1 {{expected 'lr' to be a finite f64 from 0 on, got}}
func.func private @outer_c2_lr_type() attributes {value = #fcdp.outer<every = 4, lr = 0.5 : f32, momentum = 0.9, nesterov = true, fragments = 1>}

// -----

// expected-error@+1 {{expected 'momentum' to be a finite f64 from 0 on, got}}
func.func private @outer_c2_momentum() attributes {value = #fcdp.outer<every = 4, lr = 0.7, momentum = 0x7FF0000000000000 : f64, nesterov = true, fragments = 1>}

// -----

// expected-error@+1 {{'nesterov' needs momentum}}
func.func private @outer_c2_nesterov() attributes {value = #fcdp.outer<every = 4, lr = 0.7, momentum = 0.0, nesterov = true, fragments = 1>}

// -----

// outer_on_a_function
// expected-error@+1 {{attribute 'fcdp.outer' must be an outer optimizer on a module, got '#fcdp.outer<every = 4, lr = 0.69999999999999996 : f64, momentum = 9.000000e-01 : f64, nesterov = true, fragments = 1>'}}
func.func private @f() attributes {fcdp.outer = #fcdp.outer<every = 4, lr = 0.7, momentum = 0.9, nesterov = true, fragments = 1>}

// -----

// outer_number
// expected-error@+1 {{attribute 'fcdp.outer' must be an outer optimizer on a module, got '4 : i64'}}
module attributes {fcdp.outer = 4} {}

// -----

// bucket_c15_negative
// expected-error@+1 {{expected 'outer' not to be negative, in a trainable bucket of sharding 'node' with accumulation 'sharded' or 'full' and two-level collectives, got -1}}
fcdp.bucket @bucket unit "" elements 64 storage f32 wire f32 trainable sharding node outer -1 members []

// -----

// bucket_c15_frozen
// expected-error@+1 {{expected 'outer' not to be negative, in a trainable bucket of sharding 'node' with accumulation 'sharded' or 'full' and two-level collectives, got 0}}
fcdp.bucket @bucket unit "" elements 64 storage f32 wire f32 sharding node outer 0 members []

// -----

// bucket_c15_world
// expected-error@+1 {{expected 'outer' not to be negative, in a trainable bucket of sharding 'node' with accumulation 'sharded' or 'full' and two-level collectives, got 0}}
fcdp.bucket @bucket unit "" elements 64 storage f32 wire f32 trainable outer 0 members []

// -----

// bucket_c15_none
// expected-error@+1 {{expected 'outer' not to be negative, in a trainable bucket of sharding 'node' with accumulation 'sharded' or 'full' and two-level collectives, got 2}}
fcdp.bucket @bucket unit "" elements 64 storage f32 wire f32 trainable sharding none outer 2 members []

// -----

// bucket_c15_flat
// expected-error@+1 {{expected 'outer' not to be negative, in a trainable bucket of sharding 'node' with accumulation 'sharded' or 'full' and two-level collectives, got 0}}
fcdp.bucket @bucket unit "" elements 64 storage f32 wire f32 trainable sharding node collectives flat outer 0 members []

// -----

// bucket_c15_node
// expected-error@+1 {{expected 'outer' not to be negative, in a trainable bucket of sharding 'node' with accumulation 'sharded' or 'full' and two-level collectives, got 0}}
fcdp.bucket @bucket unit "" elements 64 storage f32 wire f32 trainable sharding node accumulation node outer 0 members []

// -----

// bucket_c15_node_host
// expected-error@+1 {{expected 'outer' not to be negative, in a trainable bucket of sharding 'node' with accumulation 'sharded' or 'full' and two-level collectives, got 0}}
fcdp.bucket @bucket unit "" elements 64 storage f32 wire f32 trainable sharding node accumulation node_host outer 0 members []

// -----

// state_c2_outer
fcdp.mesh @world(node = 2, local = 2)
fcdp.bucket @a unit "a" elements 64 storage f32 wire f32 trainable sharding node outer 0 members []
fcdp.bucket @b unit "b" elements 64 storage f32 wire f32 trainable sharding node members []
// expected-error@+1 {{expected to be in host memory}}
fcdp.state @s outer of @a in device : tensor<32xf32>

// -----

// state_c3_outer
fcdp.mesh @world(node = 2, local = 2)
fcdp.bucket @a unit "a" elements 64 storage f32 wire f32 trainable sharding node outer 0 members []
fcdp.bucket @b unit "b" elements 64 storage f32 wire f32 trainable sharding node members []
// expected-error@+1 {{expected type 'tensor<32xf32>', got 'tensor<64xf32>'}}
fcdp.state @s outer of @a in host : tensor<64xf32>

// -----

// state_c5_outer
fcdp.mesh @world(node = 2, local = 2)
fcdp.bucket @a unit "a" elements 64 storage f32 wire f32 trainable sharding node outer 0 members []
fcdp.bucket @b unit "b" elements 64 storage f32 wire f32 trainable sharding node members []
// expected-error@+1 {{expected a bucket with 'outer', got @b}}
fcdp.state @s outer of @b in host : tensor<32xf32>

// -----

// state_c2_outer_momentum
fcdp.mesh @world(node = 2, local = 2)
fcdp.bucket @a unit "a" elements 64 storage f32 wire f32 trainable sharding node outer 0 members []
fcdp.bucket @b unit "b" elements 64 storage f32 wire f32 trainable sharding node members []
// expected-error@+1 {{expected to be in host memory}}
fcdp.state @s outer_momentum of @a in device : tensor<32xf32>

// -----

// state_c3_outer_momentum
fcdp.mesh @world(node = 2, local = 2)
fcdp.bucket @a unit "a" elements 64 storage f32 wire f32 trainable sharding node outer 0 members []
fcdp.bucket @b unit "b" elements 64 storage f32 wire f32 trainable sharding node members []
// expected-error@+1 {{expected type 'tensor<32xf32>', got 'tensor<64xf32>'}}
fcdp.state @s outer_momentum of @a in host : tensor<64xf32>

// -----

// state_c5_outer_momentum
fcdp.mesh @world(node = 2, local = 2)
fcdp.bucket @a unit "a" elements 64 storage f32 wire f32 trainable sharding node outer 0 members []
fcdp.bucket @b unit "b" elements 64 storage f32 wire f32 trainable sharding node members []
// expected-error@+1 {{expected a bucket with 'outer', got @b}}
fcdp.state @s outer_momentum of @b in host : tensor<32xf32>

// -----

// state_c3_outer_type
fcdp.mesh @world(node = 2, local = 2)
fcdp.bucket @a unit "a" elements 64 storage f32 wire f32 trainable sharding node outer 0 members []
fcdp.bucket @b unit "b" elements 64 storage f32 wire f32 trainable sharding node members []
// expected-error@+1 {{expected type 'tensor<32xf32>', got 'tensor<32xbf16>'}}
fcdp.state @s outer of @a in host : tensor<32xbf16>

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.bucket @a unit "a" elements 64 storage f32 wire f32 trainable sharding node outer 0 members []
fcdp.bucket @b unit "b" elements 64 storage f32 wire f32 trainable sharding node members []
func.func @outer_difference_c1() {
  // expected-error@+1 {{expected a bucket with 'outer', got @b}}
  %d = fcdp.outer_difference @b : tensor<32xf32>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.bucket @a unit "a" elements 64 storage f32 wire f32 trainable sharding node outer 0 members []
fcdp.bucket @b unit "b" elements 64 storage f32 wire f32 trainable sharding node members []
func.func @outer_difference_c1_nothing() {
  // expected-error@+1 {{expected a bucket with 'outer', got @c}}
  %d = fcdp.outer_difference @c : tensor<32xf32>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.bucket @a unit "a" elements 64 storage f32 wire f32 trainable sharding node outer 0 members []
fcdp.bucket @b unit "b" elements 64 storage f32 wire f32 trainable sharding node members []
func.func @outer_difference_c2() {
  // expected-error@+1 {{expected 32 floats, got 'tensor<16xf32>'}}
  %d = fcdp.outer_difference @a : tensor<16xf32>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.bucket @a unit "a" elements 64 storage f32 wire f32 trainable sharding node outer 0 members []
fcdp.bucket @b unit "b" elements 64 storage f32 wire f32 trainable sharding node members []
func.func @outer_difference_c2_type() {
  // expected-error@+1 {{result #0 must be flat static tensor of floats, but got 'tensor<32xi64>'}}
  %d = fcdp.outer_difference @a : tensor<32xi64>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.bucket @a unit "a" elements 64 storage f32 wire f32 trainable sharding node outer 0 members []
fcdp.bucket @b unit "b" elements 64 storage f32 wire f32 trainable sharding node members []
func.func @outer_update_c1(%v: tensor<32xf32>) {
  // expected-error@+1 {{expected a bucket with 'outer', got @b}}
  fcdp.outer_update @b with %v scale 0.5 : tensor<32xf32>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.bucket @a unit "a" elements 64 storage f32 wire f32 trainable sharding node outer 0 members []
fcdp.bucket @b unit "b" elements 64 storage f32 wire f32 trainable sharding node members []
func.func @outer_update_c1_nothing(%v: tensor<32xf32>) {
  // expected-error@+1 {{expected a bucket with 'outer', got @c}}
  fcdp.outer_update @c with %v scale 0.5 : tensor<32xf32>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.bucket @a unit "a" elements 64 storage f32 wire f32 trainable sharding node outer 0 members []
fcdp.bucket @b unit "b" elements 64 storage f32 wire f32 trainable sharding node members []
func.func @outer_update_c2(%v: tensor<16xf32>) {
  // expected-error@+1 {{expected 32 floats, got 'tensor<16xf32>'}}
  fcdp.outer_update @a with %v scale 0.5 : tensor<16xf32>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.bucket @a unit "a" elements 64 storage f32 wire f32 trainable sharding node outer 0 members []
fcdp.bucket @b unit "b" elements 64 storage f32 wire f32 trainable sharding node members []
func.func @outer_update_c2_type(%v: tensor<32xi64>) {
  // expected-error@+1 {{operand #0 must be flat static tensor of floats, but got 'tensor<32xi64>'}}
  fcdp.outer_update @a with %v scale 0.5 : tensor<32xi64>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.bucket @a unit "a" elements 64 storage f32 wire f32 trainable sharding node outer 0 members []
fcdp.bucket @b unit "b" elements 64 storage f32 wire f32 trainable sharding node members []
fcdp.state @outer outer of @a in host : tensor<32xf32>
func.func @cache_load_c1_outer() {
  // expected-error@+1 {{expected a state of role 'cache' or 'host_grad', got @outer}}
  %v = fcdp.cache_load @outer : tensor<32xf32>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.bucket @a unit "a" elements 64 storage f32 wire f32 trainable sharding node outer 0 members []
fcdp.state @resident resident of @a in device : tensor<32xf32>
func.func @all_gather_c7_into(%v: tensor<16xf32>) {
  // expected-error@+1 {{without 'range' expected an f32 gradient, or a difference of outer steps, of a bucket and no 'into', got 'tensor<16xf32>' of @a}}
  %w = fcdp.all_gather %v of @a over @world[node] into @resident : tensor<16xf32> to tensor<32xf32>
  return
}
