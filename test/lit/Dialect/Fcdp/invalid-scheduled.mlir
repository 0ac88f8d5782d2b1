// RUN: fcdp-opt %s --split-input-file --verify-diagnostics

// One case for each constraint, named for it.

func.func @record_event() {
  // expected-error@+1 {{attribute 'event' failed to satisfy constraint: 64-bit signless integer attribute whose value is non-negative}}
  %t = fcdp.record on inter event -1
  return
}

// -----

func.func @record_stream() {
  // expected-error@+2 {{expected ::fcdp::Stream to be one of: compute, inter, intra, d2h, h2d, inter_reduce, intra_reduce}}
  // expected-error@+2 {{failed to parse}}
  %t = fcdp.record on outer
  return
}

// -----

func.func @wait_c1() {
  %t = fcdp.record on inter
  // expected-error@+1 {{waits on 'inter' for a token of the same stream}}
  fcdp.wait %t on inter
  return
}

// -----

func.func @wait_operand(%t: tensor<f32>) {
  // expected-error@+1 {{operand #0 must be a point in a stream that other streams can wait for, but got 'tensor<f32>'}}
  "fcdp.wait"(%t) <{stream = #fcdp<stream inter>}> : (tensor<f32>) -> ()
  return
}

// -----

func.func @release_c1_argument(%s: tensor<16xf32>) {
  // expected-error@+1 {{expected the result of a gather, a load, a cast, a pack, a reduction or an addition}}
  fcdp.release %s : tensor<16xf32>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.parameter @more : tensor<32xf32> unit "fc" trainable names ["more"]
fcdp.parameter @frozen : tensor<8xf32> unit "fc" names ["frozen"]
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire f32 trainable members [@w at 0, @more at 32]
fcdp.bucket @bucket.frozen unit "fc" elements 16 storage f32 wire f32 members [@frozen at 0]
fcdp.state @cache cache of @bucket in host : tensor<32xf32>
func.func @release_c1_shard() {
  %s = fcdp.read_shard @bucket : tensor<16xf32>
  // expected-error@+1 {{expected the result of a gather, a load, a cast, a pack, a reduction or an addition}}
  fcdp.release %s : tensor<16xf32>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.parameter @more : tensor<32xf32> unit "fc" trainable names ["more"]
fcdp.parameter @frozen : tensor<8xf32> unit "fc" names ["frozen"]
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire f32 trainable members [@w at 0, @more at 32]
fcdp.bucket @bucket.frozen unit "fc" elements 16 storage f32 wire f32 members [@frozen at 0]
fcdp.state @cache cache of @bucket in host : tensor<32xf32>
func.func @release_c2_use() -> tensor<32xf32> {
  %s = fcdp.cache_load @cache on h2d : tensor<32xf32>
  // expected-error@+1 {{the value is used later}}
  fcdp.release %s : tensor<32xf32>
  // expected-note@+1 {{used here}}
  return %s : tensor<32xf32>
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.parameter @more : tensor<32xf32> unit "fc" trainable names ["more"]
fcdp.parameter @frozen : tensor<8xf32> unit "fc" names ["frozen"]
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire f32 trainable members [@w at 0, @more at 32]
fcdp.bucket @bucket.frozen unit "fc" elements 16 storage f32 wire f32 members [@frozen at 0]
fcdp.state @cache cache of @bucket in host : tensor<32xf32>
func.func @release_c2_twice() {
  %s = fcdp.cache_load @cache on h2d : tensor<32xf32>
  // expected-error@+1 {{the value is used later}}
  fcdp.release %s : tensor<32xf32>
  // expected-note@+1 {{used here}}
  fcdp.release %s : tensor<32xf32>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.parameter @more : tensor<32xf32> unit "fc" trainable names ["more"]
fcdp.parameter @frozen : tensor<8xf32> unit "fc" names ["frozen"]
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire f32 trainable members [@w at 0, @more at 32]
fcdp.bucket @bucket.frozen unit "fc" elements 16 storage f32 wire f32 members [@frozen at 0]
fcdp.state @cache cache of @bucket in host : tensor<32xf32>
func.func @release_c2_other_block() -> tensor<32xf32> {
  %s = fcdp.cache_load @cache on h2d : tensor<32xf32>
  // expected-error@+1 {{the value is used later}}
  fcdp.release %s : tensor<32xf32>
  %r = fcdp.cache_load @cache on h2d : tensor<32xf32>
  return %r : tensor<32xf32>
^other:
  // expected-note@+1 {{used here}}
  return %s : tensor<32xf32>
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire f32 trainable members [@w at 0]
fcdp.state @cache cache of @bucket in host : tensor<32xf32>
func.func @release_c3() {
  %s = fcdp.cache_load @cache on h2d : tensor<32xf32>
  // expected-error@+1 {{expected another stream than 'compute', which is meant without one}}
  fcdp.release %s on compute : tensor<32xf32>
  return
}
