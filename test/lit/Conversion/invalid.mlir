// Each diagnostic of the conversion.
//
// RUN: fcdp-opt %s --convert-fcdp-to-llvm --split-input-file --verify-diagnostics

// expected-error@+1 {{expected a module in phase 'planned'; run --fcdp-pipeline first}}
module attributes {fcdp.phase = #fcdp.phase<scheduled>} {}

// -----

// expected-error@+1 {{expected a mesh}}
module attributes {fcdp.phase = #fcdp.phase<planned>} {}

// -----

// expected-error@+1 {{expected the attribute 'fcdp.micro_batches'}}
module attributes {fcdp.phase = #fcdp.phase<planned>} {
fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<16xf32> unit "" trainable names ["w"]
fcdp.bucket @b unit "" elements 64 storage f32 wire f32 trainable members [@w at 0]
fcdp.state @shard shard of @b in device : tensor<16xf32> at <arena = device, offset = 0, bytes = 64>
fcdp.state @grad grad of @b in device : tensor<16xf32> at <arena = device, offset = 64, bytes = 64>
func.func @update() attributes {fcdp.role = #fcdp.role<update>} {
  fcdp.shard_update @b scale 1.0 with #fcdp.sgd<lr = 0.0, momentum = 0.0, dampening = 0.0, weight_decay = 0.0, nesterov = false>
  return
}
}

// -----

// expected-error@+1 {{nothing is trained: expected at least one fcdp.shard_update}}
module attributes {fcdp.micro_batches = 1 : i64, fcdp.phase = #fcdp.phase<planned>} {
fcdp.mesh @world(node = 2, local = 2)
}

// -----

module attributes {fcdp.micro_batches = 1 : i64, fcdp.phase = #fcdp.phase<planned>} {
fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<16xf32> unit "" trainable names ["w"]
fcdp.bucket @b unit "" elements 64 storage f32 wire f32 trainable members [@w at 0]
fcdp.state @shard shard of @b in device : tensor<16xf32> at <arena = device, offset = 0, bytes = 64>
fcdp.state @grad grad of @b in device : tensor<16xf32> at <arena = device, offset = 64, bytes = 64>
func.func @update() attributes {fcdp.role = #fcdp.role<update>} {
  // expected-note@+1 {{the first is here}}
  fcdp.shard_update @b scale 1.0 with #fcdp.sgd<lr = 0.0, momentum = 0.0, dampening = 0.0, weight_decay = 0.0, nesterov = false>
  // expected-error@+1 {{expected the same optimizer in all updates}}
  fcdp.shard_update @b scale 1.0 with #fcdp.sgd<lr = 1.0, momentum = 0.0, dampening = 0.0, weight_decay = 0.0, nesterov = false>
  return
}
}

// -----

// There is one optimizer beside one that needs matrices.
module attributes {fcdp.micro_batches = 1 : i64, fcdp.phase = #fcdp.phase<planned>} {
fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<16xf32> unit "" trainable names ["w"]
fcdp.parameter @m : tensor<4x4xf32> unit "" trainable names ["m"]
fcdp.bucket @b unit "" elements 64 storage f32 wire f32 trainable members [@w at 0]
fcdp.bucket @c unit "" elements 64 storage f32 wire f32 trainable layout owned members [@m at 0]
func.func @update() attributes {fcdp.role = #fcdp.role<update>} {
  // expected-note@+1 {{the first is here}}
  fcdp.shard_update @b scale 1.0 with #fcdp.sgd<lr = 0.0, momentum = 0.0, dampening = 0.0, weight_decay = 0.0, nesterov = false>
  fcdp.shard_update @c scale 1.0 with #fcdp.muon<lr = 1.0, weight_decay = 0.0, momentum = 0.9, nesterov = true, ns_a = 3.0, ns_b = -4.0, ns_c = 2.0, eps = 1.0e-07, ns_steps = 5, adjust_lr_fn = original>
  // expected-error@+1 {{expected the same optimizer in all updates}}
  fcdp.shard_update @b scale 1.0 with #fcdp.sgd<lr = 1.0, momentum = 0.0, dampening = 0.0, weight_decay = 0.0, nesterov = false>
  return
}
}

// -----

module attributes {fcdp.micro_batches = 1 : i64, fcdp.phase = #fcdp.phase<planned>} {
fcdp.mesh @world(node = 2, local = 2)
// expected-error@+1 {{the runtime has no call for this operation}}
module {}
}

// -----

module attributes {fcdp.micro_batches = 1 : i64, fcdp.phase = #fcdp.phase<planned>} {
fcdp.mesh @world(node = 2, local = 2)
// expected-error@+1 {{expected to be a member of a bucket}}
fcdp.parameter @loose : tensor<1xf32> unit "" names ["loose"]
fcdp.parameter @w : tensor<16xf32> unit "" trainable names ["w"]
fcdp.bucket @b unit "" elements 64 storage f32 wire f32 trainable members [@w at 0]
fcdp.state @shard shard of @b in device : tensor<16xf32> at <arena = device, offset = 0, bytes = 64>
fcdp.state @grad grad of @b in device : tensor<16xf32> at <arena = device, offset = 64, bytes = 64>
func.func @update() attributes {fcdp.role = #fcdp.role<update>} {
  fcdp.shard_update @b scale 1.0 with #fcdp.sgd<lr = 0.0, momentum = 0.0, dampening = 0.0, weight_decay = 0.0, nesterov = false>
  return
}
}

// -----

module attributes {fcdp.micro_batches = 1 : i64, fcdp.phase = #fcdp.phase<planned>} {
fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<16xf32> unit "" trainable names ["w"]
fcdp.bucket @b unit "" elements 64 storage f32 wire f32 trainable members [@w at 0]
// expected-error@+1 {{expected a buffer; run --fcdp-plan-memory first}}
fcdp.state @shard shard of @b in device : tensor<16xf32>
}

// -----

module attributes {fcdp.micro_batches = 1 : i64, fcdp.phase = #fcdp.phase<planned>} {
fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<16xf32> unit "" trainable names ["w"]
fcdp.bucket @b unit "" elements 64 storage f32 wire f32 trainable members [@w at 0]
fcdp.state @shard shard of @b in device : tensor<16xf32> at <arena = device, offset = 0, bytes = 64>
fcdp.state @grad grad of @b in device : tensor<16xf32> at <arena = device, offset = 64, bytes = 64>
// expected-error@+1 {{the runtime has no data type 'ui16'; it has f16, bf16, f32, f64, i8, i16, i32, i64, ui8, i1, complex<f32> and complex<f64>}}
fcdp.input @x : tensor<2xui16> name "x"
func.func @update() attributes {fcdp.role = #fcdp.role<update>} {
  fcdp.shard_update @b scale 1.0 with #fcdp.sgd<lr = 0.0, momentum = 0.0, dampening = 0.0, weight_decay = 0.0, nesterov = false>
  return
}
}

// -----

module attributes {fcdp.micro_batches = 1 : i64, fcdp.phase = #fcdp.phase<planned>} {
fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<16xf32> unit "" trainable names ["w"]
fcdp.bucket @b unit "" elements 64 storage f32 wire f32 trainable members [@w at 0]
fcdp.state @shard shard of @b in device : tensor<16xf32> at <arena = device, offset = 0, bytes = 64>
fcdp.state @grad grad of @b in device : tensor<16xf32> at <arena = device, offset = 64, bytes = 64>
// expected-error@+1 {{the runtime has no data type 'complex<f16>'}}
fcdp.buffer @x : tensor<2xcomplex<f16>> name "x" persistent
func.func @update() attributes {fcdp.role = #fcdp.role<update>} {
  fcdp.shard_update @b scale 1.0 with #fcdp.sgd<lr = 0.0, momentum = 0.0, dampening = 0.0, weight_decay = 0.0, nesterov = false>
  return
}
}

// -----

module attributes {fcdp.micro_batches = 1 : i64, fcdp.phase = #fcdp.phase<planned>} {
fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<16xf32> unit "" trainable names ["w"]
fcdp.bucket @b unit "" elements 64 storage f32 wire f32 trainable members [@w at 0]
fcdp.state @shard shard of @b in device : tensor<16xf32> at <arena = device, offset = 0, bytes = 64>
fcdp.state @grad grad of @b in device : tensor<16xf32> at <arena = device, offset = 64, bytes = 64>
// expected-error@+1 {{cannot read its value: the module names no archive in 'fcdp.archive', and no other archive is given}}
fcdp.buffer @x : tensor<2xf32> name "x"
func.func @update() attributes {fcdp.role = #fcdp.role<update>} {
  fcdp.shard_update @b scale 1.0 with #fcdp.sgd<lr = 0.0, momentum = 0.0, dampening = 0.0, weight_decay = 0.0, nesterov = false>
  return
}
}

// -----

module attributes {fcdp.archive = "absent.pt2", fcdp.micro_batches = 1 : i64, fcdp.phase = #fcdp.phase<planned>} {
fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<16xf32> unit "" trainable names ["w"]
fcdp.bucket @b unit "" elements 64 storage f32 wire f32 trainable members [@w at 0]
fcdp.state @shard shard of @b in device : tensor<16xf32> at <arena = device, offset = 0, bytes = 64>
fcdp.state @grad grad of @b in device : tensor<16xf32> at <arena = device, offset = 64, bytes = 64>
// expected-error@+1 {{cannot read its value: 'absent.pt2': }}
fcdp.buffer @x : tensor<2xf32> name "x"
func.func @update() attributes {fcdp.role = #fcdp.role<update>} {
  fcdp.shard_update @b scale 1.0 with #fcdp.sgd<lr = 0.0, momentum = 0.0, dampening = 0.0, weight_decay = 0.0, nesterov = false>
  return
}
}

// -----

module attributes {fcdp.micro_batches = 1 : i64, fcdp.phase = #fcdp.phase<planned>} {
fcdp.mesh @world(node = 2, local = 2)
// expected-error@+1 {{expected the attribute 'fcdp.role' on the function}}
func.func @update() {
  return
}
}

// -----

module attributes {fcdp.micro_batches = 1 : i64, fcdp.phase = #fcdp.phase<planned>} {
fcdp.mesh @world(node = 2, local = 2)
// expected-error@+1 {{expected tokens only as arguments and results}}
func.func @update(%x: tensor<f32>) attributes {fcdp.role = #fcdp.role<update>} {
  return
}
}

// -----

module attributes {fcdp.micro_batches = 1 : i64, fcdp.phase = #fcdp.phase<planned>} {
fcdp.mesh @world(node = 2, local = 2)
// expected-error@+1 {{expected a function of one block}}
func.func private @update() attributes {fcdp.role = #fcdp.role<update>}
}

// -----

module attributes {fcdp.micro_batches = 1 : i64, fcdp.phase = #fcdp.phase<planned>} {
fcdp.mesh @world(node = 2, local = 2)
// expected-note@+1 {{this is another}}
func.func @update() attributes {fcdp.role = #fcdp.role<update>} {
  return
}
// expected-error@+1 {{expected one function of the role 'update'}}
func.func @again() attributes {fcdp.role = #fcdp.role<update>} {
  return
}
}

// -----

module attributes {fcdp.micro_batches = 1 : i64, fcdp.phase = #fcdp.phase<planned>} {
fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<16xf32> unit "" trainable names ["w"]
fcdp.bucket @b unit "" elements 64 storage f32 wire f32 trainable members [@w at 0]
fcdp.state @shard shard of @b in device : tensor<16xf32> at <arena = device, offset = 0, bytes = 64>
fcdp.state @grad grad of @b in device : tensor<16xf32> at <arena = device, offset = 64, bytes = 64>
func.func @only_microbatch() attributes {fcdp.role = #fcdp.role<only_microbatch>} {
  // expected-error@+1 {{'fcdp.read_parameter' op the runtime has no call for this operation}}
  %0 = fcdp.read_parameter @w : tensor<16xf32>
  return
}
func.func @update() attributes {fcdp.role = #fcdp.role<update>} {
  fcdp.shard_update @b scale 1.0 with #fcdp.sgd<lr = 0.0, momentum = 0.0, dampening = 0.0, weight_decay = 0.0, nesterov = false>
  return
}
}

// -----

module attributes {fcdp.micro_batches = 1 : i64, fcdp.phase = #fcdp.phase<planned>} {
fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<16xf32> unit "" trainable names ["w"]
fcdp.bucket @b unit "" elements 64 storage f32 wire f32 trainable members [@w at 0]
fcdp.state @shard shard of @b in device : tensor<16xf32> at <arena = device, offset = 0, bytes = 64>
fcdp.state @grad grad of @b in device : tensor<16xf32> at <arena = device, offset = 64, bytes = 64>
func.func @only_microbatch() attributes {fcdp.role = #fcdp.role<only_microbatch>} {
  // expected-error@+1 {{expected a bucket with a state 'shard', got @w}}
  %0 = fcdp.read_shard @w : !fcdp.shard<tensor<16xf32>>
  return
}
func.func @update() attributes {fcdp.role = #fcdp.role<update>} {
  fcdp.shard_update @b scale 1.0 with #fcdp.sgd<lr = 0.0, momentum = 0.0, dampening = 0.0, weight_decay = 0.0, nesterov = false>
  return
}
}

// -----

module attributes {fcdp.micro_batches = 1 : i64, fcdp.phase = #fcdp.phase<planned>} {
fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<16xf32> unit "" trainable names ["w"]
fcdp.bucket @b unit "" elements 64 storage f32 wire f32 trainable members [@w at 0]
fcdp.state @shard shard of @b in device : tensor<16xf32> at <arena = device, offset = 0, bytes = 64>
fcdp.state @grad grad of @b in device : tensor<16xf32> at <arena = device, offset = 64, bytes = 64>
func.func @only_microbatch() attributes {fcdp.role = #fcdp.role<only_microbatch>} {
  %0 = fcdp.read_shard @b : tensor<16xf32>
  // expected-error@+1 {{expected a buffer; run --fcdp-plan-memory first}}
  %1 = fcdp.cast_shard %0 : tensor<16xf32> to tensor<16xbf16>
  return
}
func.func @update() attributes {fcdp.role = #fcdp.role<update>} {
  fcdp.shard_update @b scale 1.0 with #fcdp.sgd<lr = 0.0, momentum = 0.0, dampening = 0.0, weight_decay = 0.0, nesterov = false>
  return
}
}

// -----

module attributes {fcdp.micro_batches = 1 : i64, fcdp.phase = #fcdp.phase<planned>} {
fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<16xf32> unit "" trainable names ["w"]
fcdp.bucket @b unit "" elements 64 storage f32 wire f32 trainable members [@w at 0]
fcdp.state @shard shard of @b in device : tensor<16xf32> at <arena = device, offset = 0, bytes = 64>
fcdp.state @grad grad of @b in device : tensor<16xf32> at <arena = device, offset = 64, bytes = 64>
func.func @only_microbatch() attributes {fcdp.role = #fcdp.role<only_microbatch>} {
  %0 = aten.call "aten.ones.default"(size = [16]) : () -> tensor<16xf32>
  // expected-error@+1 {{expected 'in' to have a place in an arena}}
  %1 = fcdp.cast_shard %0 {buffer = #fcdp.buffer<arena = device, offset = 128, bytes = 32>} : tensor<16xf32> to tensor<16xbf16>
  return
}
func.func @update() attributes {fcdp.role = #fcdp.role<update>} {
  fcdp.shard_update @b scale 1.0 with #fcdp.sgd<lr = 0.0, momentum = 0.0, dampening = 0.0, weight_decay = 0.0, nesterov = false>
  return
}
}

// -----

module attributes {fcdp.micro_batches = 1 : i64, fcdp.phase = #fcdp.phase<planned>} {
fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<16xf32> unit "" trainable names ["w"]
fcdp.bucket @b unit "" elements 64 storage f32 wire f32 trainable members [@w at 0]
fcdp.state @shard shard of @b in device : tensor<16xf32> at <arena = device, offset = 0, bytes = 64>
fcdp.state @grad grad of @b in device : tensor<16xf32> at <arena = device, offset = 64, bytes = 64>
func.func @only_microbatch() attributes {fcdp.role = #fcdp.role<only_microbatch>} {
  %0 = aten.call "aten.ones.default"(size = [64]) : () -> tensor<64xf32>
  // expected-error@+1 {{expected a bucket that has a place in an arena}}
  %1 = fcdp.view_member %0 @w of @b : tensor<64xf32> to tensor<16xf32>
  return
}
func.func @update() attributes {fcdp.role = #fcdp.role<update>} {
  fcdp.shard_update @b scale 1.0 with #fcdp.sgd<lr = 0.0, momentum = 0.0, dampening = 0.0, weight_decay = 0.0, nesterov = false>
  return
}
}

// -----

module attributes {fcdp.micro_batches = 1 : i64, fcdp.phase = #fcdp.phase<planned>} {
fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<16xf32> unit "" trainable names ["w"]
fcdp.bucket @b unit "" elements 64 storage f32 wire f32 trainable members [@w at 0]
fcdp.state @shard shard of @b in device : tensor<16xf32> at <arena = device, offset = 0, bytes = 64>
fcdp.state @grad grad of @b in device : tensor<16xf32> at <arena = device, offset = 64, bytes = 64>
func.func @only_microbatch() attributes {fcdp.role = #fcdp.role<only_microbatch>} {
  %0 = fcdp.read_shard @b : tensor<16xf32>
  // expected-error@+1 {{expected a stream; run --fcdp-schedule first}}
  %1 = fcdp.all_gather %0 of @b over @world[node] range 0 {buffer = #fcdp.buffer<arena = device, offset = 128, bytes = 128>} : tensor<16xf32> to tensor<32xf32>
  return
}
func.func @update() attributes {fcdp.role = #fcdp.role<update>} {
  fcdp.shard_update @b scale 1.0 with #fcdp.sgd<lr = 0.0, momentum = 0.0, dampening = 0.0, weight_decay = 0.0, nesterov = false>
  return
}
}

// -----

module attributes {fcdp.micro_batches = 1 : i64, fcdp.phase = #fcdp.phase<planned>} {
fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<16xf32> unit "" trainable names ["w"]
fcdp.bucket @b unit "" elements 64 storage f32 wire f32 trainable members [@w at 0]
fcdp.state @shard shard of @b in device : tensor<16xf32> at <arena = device, offset = 0, bytes = 64>
fcdp.state @grad grad of @b in device : tensor<16xf32> at <arena = device, offset = 64, bytes = 64>
func.func @only_microbatch() attributes {fcdp.role = #fcdp.role<only_microbatch>} {
  %0 = fcdp.read_shard @b : tensor<16xf32>
  // expected-error@+1 {{expected a bucket, got @w}}
  %1 = fcdp.all_gather %0 of @w over @world[node] range 0 on inter {buffer = #fcdp.buffer<arena = device, offset = 128, bytes = 128>} : tensor<16xf32> to tensor<32xf32>
  return
}
func.func @update() attributes {fcdp.role = #fcdp.role<update>} {
  fcdp.shard_update @b scale 1.0 with #fcdp.sgd<lr = 0.0, momentum = 0.0, dampening = 0.0, weight_decay = 0.0, nesterov = false>
  return
}
}

// -----

module attributes {fcdp.micro_batches = 1 : i64, fcdp.phase = #fcdp.phase<planned>} {
fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<16xf32> unit "" trainable names ["w"]
fcdp.bucket @b unit "" elements 64 storage f32 wire f32 trainable members [@w at 0]
fcdp.state @shard shard of @b in device : tensor<16xf32> at <arena = device, offset = 0, bytes = 64>
fcdp.state @grad grad of @b in device : tensor<16xf32> at <arena = device, offset = 64, bytes = 64>
func.func @only_microbatch() attributes {fcdp.role = #fcdp.role<only_microbatch>} {
  %0 = fcdp.read_shard @b : tensor<16xf32>
  // expected-error@+1 {{expected a scratch buffer; run --fcdp-plan-memory first}}
  %1 = fcdp.reduce_scatter %0 of @b over @world[node] on inter_reduce {buffer = #fcdp.buffer<arena = device, offset = 128, bytes = 32>} : tensor<16xf32> to tensor<8xf32>
  return
}
func.func @update() attributes {fcdp.role = #fcdp.role<update>} {
  fcdp.shard_update @b scale 1.0 with #fcdp.sgd<lr = 0.0, momentum = 0.0, dampening = 0.0, weight_decay = 0.0, nesterov = false>
  return
}
}

// -----

module attributes {fcdp.micro_batches = 1 : i64, fcdp.phase = #fcdp.phase<planned>} {
fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<16xf32> unit "" trainable names ["w"]
fcdp.bucket @b unit "" elements 64 storage f32 wire f32 trainable members [@w at 0]
fcdp.state @shard shard of @b in device : tensor<16xf32> at <arena = device, offset = 0, bytes = 64>
func.func @only_microbatch() attributes {fcdp.role = #fcdp.role<only_microbatch>} {
  %0 = fcdp.read_shard @b : tensor<16xf32>
  // expected-error@+1 {{expected a bucket with a state 'grad', got @b}}
  fcdp.accumulate %0 into @b overwrite : tensor<16xf32>
  return
}
func.func @update() attributes {fcdp.role = #fcdp.role<update>} {
  fcdp.shard_update @b scale 1.0 with #fcdp.sgd<lr = 0.0, momentum = 0.0, dampening = 0.0, weight_decay = 0.0, nesterov = false>
  return
}
}

// -----

module attributes {fcdp.micro_batches = 1 : i64, fcdp.phase = #fcdp.phase<planned>} {
fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<16xf32> unit "" trainable names ["w"]
fcdp.bucket @b unit "" elements 64 storage f32 wire f32 trainable members [@w at 0]
fcdp.state @shard shard of @b in device : tensor<16xf32> at <arena = device, offset = 0, bytes = 64>
fcdp.state @grad grad of @b in device : tensor<16xf32> at <arena = device, offset = 64, bytes = 64>
func.func @only_microbatch() attributes {fcdp.role = #fcdp.role<only_microbatch>} {
  // expected-error@+1 {{expected an event; run --fcdp-plan-memory first}}
  %0 = fcdp.record on inter
  return
}
func.func @update() attributes {fcdp.role = #fcdp.role<update>} {
  fcdp.shard_update @b scale 1.0 with #fcdp.sgd<lr = 0.0, momentum = 0.0, dampening = 0.0, weight_decay = 0.0, nesterov = false>
  return
}
}

// -----

// All errors of the operations are reported.
module attributes {fcdp.micro_batches = 1 : i64, fcdp.phase = #fcdp.phase<planned>} {
fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<16xf32> unit "" trainable names ["w"]
fcdp.bucket @b unit "" elements 64 storage f32 wire f32 trainable members [@w at 0]
fcdp.state @shard shard of @b in device : tensor<16xf32> at <arena = device, offset = 0, bytes = 64>
fcdp.state @grad grad of @b in device : tensor<16xf32> at <arena = device, offset = 64, bytes = 64>
func.func @only_microbatch() attributes {fcdp.role = #fcdp.role<only_microbatch>} {
  // expected-error@+1 {{expected an event}}
  %0 = fcdp.record on inter
  // expected-error@+1 {{expected the token of a record with an event}}
  fcdp.wait %0 on compute
  return
}
func.func @update() attributes {fcdp.role = #fcdp.role<update>} {
  fcdp.shard_update @b scale 1.0 with #fcdp.sgd<lr = 0.0, momentum = 0.0, dampening = 0.0, weight_decay = 0.0, nesterov = false>
  return
}
}

// -----

module attributes {fcdp.micro_batches = 1 : i64, fcdp.phase = #fcdp.phase<planned>} {
fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<16xf32> unit "" trainable names ["w"]
fcdp.bucket @b unit "" elements 64 storage f32 wire f32 trainable members [@w at 0]
fcdp.state @shard shard of @b in device : tensor<16xf32> at <arena = device, offset = 0, bytes = 64>
fcdp.state @grad grad of @b in device : tensor<16xf32> at <arena = device, offset = 64, bytes = 64>
func.func @only_microbatch() attributes {fcdp.role = #fcdp.role<only_microbatch>} {
  // expected-error@+1 {{unsupported list ["a"]; expected booleans, integers or floats}}
  %0 = aten.call "aten.einsum.default"(equation = ["a"]) : () -> tensor<f32>
  return
}
func.func @update() attributes {fcdp.role = #fcdp.role<update>} {
  fcdp.shard_update @b scale 1.0 with #fcdp.sgd<lr = 0.0, momentum = 0.0, dampening = 0.0, weight_decay = 0.0, nesterov = false>
  return
}
}

// -----

module attributes {fcdp.micro_batches = 1 : i64, fcdp.phase = #fcdp.phase<planned>} {
fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<16xf32> unit "" trainable names ["w"]
fcdp.bucket @b unit "" elements 64 storage f32 wire f32 trainable members [@w at 0]
fcdp.state @shard shard of @b in device : tensor<16xf32> at <arena = device, offset = 0, bytes = 64>
fcdp.state @grad grad of @b in device : tensor<16xf32> at <arena = device, offset = 64, bytes = 64>
func.func @only_microbatch() attributes {fcdp.role = #fcdp.role<only_microbatch>} {
  // expected-error@+1 {{unsupported list [1, true]; expected booleans}}
  %0 = aten.call "aten.einsum.default"(equation = [1, true]) : () -> tensor<f32>
  return
}
func.func @update() attributes {fcdp.role = #fcdp.role<update>} {
  fcdp.shard_update @b scale 1.0 with #fcdp.sgd<lr = 0.0, momentum = 0.0, dampening = 0.0, weight_decay = 0.0, nesterov = false>
  return
}
}

// -----

module attributes {fcdp.micro_batches = 1 : i64, fcdp.phase = #fcdp.phase<planned>} {
fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<16xf32> unit "" trainable names ["w"]
fcdp.bucket @b unit "" elements 64 storage f32 wire f32 trainable members [@w at 0]
fcdp.state @shard shard of @b in device : tensor<16xf32> at <arena = device, offset = 0, bytes = 64>
fcdp.state @grad grad of @b in device : tensor<16xf32> at <arena = device, offset = 64, bytes = 64>
func.func @only_microbatch() attributes {fcdp.role = #fcdp.role<only_microbatch>} {
  // expected-error@+1 {{the runtime has no data type 'complex<f16>'}}
  %0 = aten.call "aten.ones.default"(size = [], dtype = complex<f16>) : () -> tensor<f32>
  return
}
func.func @update() attributes {fcdp.role = #fcdp.role<update>} {
  fcdp.shard_update @b scale 1.0 with #fcdp.sgd<lr = 0.0, momentum = 0.0, dampening = 0.0, weight_decay = 0.0, nesterov = false>
  return
}
}

// -----

// A view of the buffer would show the new value.
module attributes {fcdp.micro_batches = 1 : i64, fcdp.phase = #fcdp.phase<planned>} {
fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<16xf32> unit "" trainable names ["w"]
fcdp.bucket @b unit "" elements 64 storage f32 wire f32 trainable members [@w at 0]
fcdp.state @shard shard of @b in device : tensor<16xf32> at <arena = device, offset = 0, bytes = 64>
fcdp.state @grad grad of @b in device : tensor<16xf32> at <arena = device, offset = 64, bytes = 64>
fcdp.buffer @m : tensor<2xf32> name "m" persistent mutable
func.func @only_microbatch() attributes {fcdp.role = #fcdp.role<only_microbatch>} {
  // expected-note@+1 {{read here}}
  %0 = fcdp.read_buffer @m : tensor<2xf32>
  %1 = aten.call "aten.view.default"(self = %0, size = [2]) : (tensor<2xf32>) -> tensor<2xf32>
  %2 = aten.call "aten.neg.default"(self = %1) : (tensor<2xf32>) -> tensor<2xf32>
  // expected-note@+1 {{written here}}
  fcdp.write_buffer %2 to @m : tensor<2xf32>
  // expected-error@+1 {{'aten.call' op uses a value of buffer @m after the buffer was written}}
  %3 = aten.call "aten.neg.default"(self = %1) : (tensor<2xf32>) -> tensor<2xf32>
  return
}
func.func @update() attributes {fcdp.role = #fcdp.role<update>} {
  fcdp.shard_update @b scale 1.0 with #fcdp.sgd<lr = 0.0, momentum = 0.0, dampening = 0.0, weight_decay = 0.0, nesterov = false>
  return
}
}
