// The constraints of updates on the host, each of which is in the name of a case.
// RUN: fcdp-opt %s --split-input-file --verify-diagnostics

fcdp.mesh @world(node = 2, local = 2)
fcdp.bucket @bucket unit "s" elements 2048 storage f32 wire f32 trainable states host members []
func.func @store_gradient_c1() {
  // expected-error@+1 {{expected a bucket with 'update host', got @bucket}}
  %g = fcdp.store_gradient @bucket piece 0 to 256 shard : !fcdp.stored<tensor<256xf32>>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.bucket @bucket unit "s" elements 2048 storage f32 wire f32 trainable states host update host members []
func.func @store_gradient_c2_end() {
  // expected-error@+1 {{expected a piece of the 512 elements of the shard, got 256 to 768}}
  %g = fcdp.store_gradient @bucket piece 256 to 768 shard : !fcdp.stored<tensor<512xf32>>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.bucket @bucket unit "s" elements 2048 storage f32 wire f32 trainable states host update host members []
func.func @store_gradient_c2_type() {
  // expected-error@+1 {{expected memory of 'tensor<256xf32>', got 'tensor<128xf32>'}}
  %g = fcdp.store_gradient @bucket piece 0 to 256 shard : !fcdp.stored<tensor<128xf32>>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.bucket @bucket unit "s" elements 2048 storage f32 wire f32 trainable states host update host members []
func.func @store_gradient_c3_none() {
  // expected-error@+1 {{expected 'shard', as the bucket has no master}}
  %g = fcdp.store_gradient @bucket piece 0 to 256 : !fcdp.stored<tensor<256xf32>>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.bucket @bucket unit "s" elements 2048 storage bf16 wire bf16 master f32 trainable states host update host members []
func.func @store_gradient_c3_master() {
  // expected-error@+1 {{expected no 'shard', as the bucket has a master in host memory}}
  %g = fcdp.store_gradient @bucket piece 0 to 256 shard : !fcdp.stored<tensor<256xbf16>>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.bucket @bucket unit "s" elements 2048 storage f32 wire f32 trainable states host update host members []
func.func @store_gradient_c5() {
  // expected-error@+1 {{expected a place of 2048 bytes in the rank's part of host memory, got}}
  %g = fcdp.store_gradient @bucket piece 0 to 256 shard {place = #fcdp.buffer<arena = host, offset = 0, bytes = 1024, local_stride = 4096>} : !fcdp.stored<tensor<256xf32>>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.bucket @bucket unit "s" elements 2048 storage f32 wire f32 trainable states host update host members []
func.func @host_update_c1() {
  %g = fcdp.store_gradient @bucket piece 0 to 256 shard : !fcdp.stored<tensor<256xf32>>
  // expected-error@+1 {{expected the gradient of elements 256 to 512 of @bucket}}
  %s = fcdp.host_update %g : !fcdp.stored<tensor<256xf32>> of @bucket piece 256 to 512 scale 1.0 with #fcdp.lion<lr = 0.1, beta1 = 0.9, beta2 = 0.99, weight_decay = 0.0>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.bucket @bucket unit "s" elements 2048 storage f32 wire f32 trainable states host update host members []
func.func @host_update_c2_layout() {
  %g = fcdp.store_gradient @bucket piece 0 to 256 shard : !fcdp.stored<tensor<256xf32>>
  // expected-error@+1 {{expected a bucket with the layout}}
  %s = fcdp.host_update %g : !fcdp.stored<tensor<256xf32>> of @bucket piece 0 to 256 scale 1.0 with #fcdp.adamw8bit<lr = 0.1, beta1 = 0.9, beta2 = 0.99, eps = 1.0e-08, weight_decay = 0.0>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.bucket @bucket unit "s" elements 2048 storage f32 wire f32 trainable layout owned states host update host members []
func.func @host_update_c2_whole() {
  %g = fcdp.store_gradient @bucket piece 0 to 256 shard : !fcdp.stored<tensor<256xf32>>
  // expected-error@+1 {{expected an optimizer that updates elements, got 'muon', which updates whole parameters}}
  %s = fcdp.host_update %g : !fcdp.stored<tensor<256xf32>> of @bucket piece 0 to 256 scale 1.0 with #fcdp.muon<lr = 0.1, weight_decay = 0.0, momentum = 0.9, nesterov = true, ns_a = 3.0, ns_b = -4.0, ns_c = 2.0, eps = 1.0e-07, ns_steps = 5, adjust_lr_fn = original>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.bucket @bucket unit "s" elements 2048 storage f32 wire f32 trainable layout blocks<256> states host update host members []
func.func @host_update_c2_blocks() {
  %g = fcdp.store_gradient @bucket piece 0 to 128 shard : !fcdp.stored<tensor<128xf32>>
  // expected-error@+1 {{expected a piece of whole blocks of 256 elements, which 'adamw8bit' needs, got elements 0 to 128}}
  %s = fcdp.host_update %g : !fcdp.stored<tensor<128xf32>> of @bucket piece 0 to 128 scale 1.0 with #fcdp.adamw8bit<lr = 0.1, beta1 = 0.9, beta2 = 0.99, eps = 1.0e-08, weight_decay = 0.0>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.bucket @bucket unit "s" elements 2048 storage f32 wire f32 trainable states host update host members []
func.func @load_shard_c1() {
  %g = fcdp.store_gradient @bucket piece 0 to 256 shard : !fcdp.stored<tensor<256xf32>>
  // expected-error@+1 {{expected the update of the piece of @bucket that begins at element 0}}
  fcdp.load_shard %g to @bucket at 0 : !fcdp.stored<tensor<256xf32>>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
// expected-error@+1 {{expected 'states host' for 'update host'}}
fcdp.bucket @bucket_c18 unit "s" elements 2048 storage f32 wire f32 trainable update host members []
