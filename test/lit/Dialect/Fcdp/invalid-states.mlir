// The constraints of states in host memory, each of which is in the name of a case.
// RUN: fcdp-opt %s --split-input-file --verify-diagnostics

fcdp.mesh @world(node = 2, local = 2)
fcdp.bucket @bucket unit "s" elements 2048 storage f32 wire f32 trainable states host members []
fcdp.state @bucket.exp_avg exp_avg of @bucket in host : tensor<512xf32>
fcdp.state @bucket.shard shard of @bucket in device : tensor<512xf32>
func.func @shard_update_c3_end(%m: tensor<256xf32>) {
  // expected-error@+1 {{expected a piece of the 512 elements of the shard, got 256 to 768}}
  fcdp.shard_update @bucket piece 256 to 768 states(%m : tensor<256xf32>) scale 1.0 with #fcdp.lion<lr = 0.1, beta1 = 0.9, beta2 = 0.99, weight_decay = 0.0>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.bucket @bucket unit "s" elements 2048 storage f32 wire f32 trainable layout blocks<256> states host members []
fcdp.state @bucket.exp_avg exp_avg of @bucket in host : tensor<512xf32>
fcdp.state @bucket.shard shard of @bucket in device : tensor<512xf32>
func.func @shard_update_c3_blocks(%m: tensor<256xf32>) {
  // expected-error@+1 {{expected a piece of whole blocks of 256 elements, which 'adamw8bit' needs, got elements 0 to 128 of 512}}
  fcdp.shard_update @bucket piece 0 to 128 states(%m : tensor<256xf32>) scale 1.0 with #fcdp.adamw8bit<lr = 0.1, beta1 = 0.9, beta2 = 0.99, eps = 1.0e-08, weight_decay = 0.0>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.bucket @bucket unit "s" elements 2048 storage f32 wire f32 trainable layout owned states host members []
fcdp.state @bucket.exp_avg exp_avg of @bucket in host : tensor<512xf32>
fcdp.state @bucket.shard shard of @bucket in device : tensor<512xf32>
func.func @shard_update_c3_whole(%m: tensor<256xf32>) {
  // expected-error@+1 {{expected the whole shard, which 'muon' needs, got elements 0 to 256 of 512}}
  fcdp.shard_update @bucket piece 0 to 256 states(%m : tensor<256xf32>) scale 1.0 with #fcdp.muon<lr = 0.1, weight_decay = 0.0, momentum = 0.9, nesterov = true, ns_a = 3.0, ns_b = -4.0, ns_c = 2.0, eps = 1.0e-07, ns_steps = 5, adjust_lr_fn = original>
  return
}

// -----

// 1,024 elements have 4,096 bytes.
fcdp.mesh @world(node = 2, local = 2)
fcdp.bucket @bucket unit "s" elements 16384 storage f32 wire f32 trainable states file members []
fcdp.state @bucket.exp_avg exp_avg of @bucket in file : tensor<4096xf32>
fcdp.state @bucket.shard shard of @bucket in device : tensor<4096xf32>
func.func @shard_update_c3_file(%m: tensor<1280xf32>) {
  // expected-error@+1 {{expected a piece of whole blocks in a file, multiples of 1024 elements, got 1024 to 2304}}
  fcdp.shard_update @bucket piece 1024 to 2304 states(%m : tensor<1280xf32>) scale 1.0 with #fcdp.lion<lr = 0.1, beta1 = 0.9, beta2 = 0.99, weight_decay = 0.0>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.bucket @bucket unit "s" elements 2048 storage f32 wire f32 trainable states host members []
fcdp.state @bucket.exp_avg exp_avg of @bucket in host : tensor<512xf32>
fcdp.state @bucket.shard shard of @bucket in device : tensor<512xf32>
func.func @shard_update_c4_type(%m: tensor<256xf32>) {
  // expected-error@+1 {{expected a piece of 'exp_avg' of type 'tensor<512xf32>', got 'tensor<256xf32>'}}
  fcdp.shard_update @bucket piece 0 to 512 states(%m : tensor<256xf32>) scale 1.0 with #fcdp.lion<lr = 0.1, beta1 = 0.9, beta2 = 0.99, weight_decay = 0.0>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.bucket @bucket unit "s" elements 2048 storage f32 wire f32 trainable states host members []
fcdp.state @bucket.exp_avg exp_avg of @bucket in host : tensor<512xf32>
fcdp.state @bucket.shard shard of @bucket in device : tensor<512xf32>
func.func @shard_update_c4_count(%m: tensor<256xf32>) {
  // expected-error@+1 {{expected 1 states, got 2}}
  fcdp.shard_update @bucket piece 0 to 256 states(%m, %m : tensor<256xf32>, tensor<256xf32>) scale 1.0 with #fcdp.lion<lr = 0.1, beta1 = 0.9, beta2 = 0.99, weight_decay = 0.0>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.bucket @bucket unit "s" elements 2048 storage f32 wire f32 trainable states host members []
fcdp.state @bucket.exp_avg exp_avg of @bucket in host : tensor<512xf32>
fcdp.state @bucket.shard shard of @bucket in device : tensor<512xf32>
func.func @state_load_c1() {
  // expected-error@+1 {{expected a state in host memory or a file that the optimizer updates, got @bucket.shard}}
  %p = fcdp.state_load @bucket.shard at 0 : tensor<256xf32>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.bucket @bucket unit "s" elements 2048 storage f32 wire f32 trainable states host members []
fcdp.state @bucket.exp_avg exp_avg of @bucket in host : tensor<512xf32>
fcdp.state @bucket.shard shard of @bucket in device : tensor<512xf32>
func.func @state_load_c2() {
  // expected-error@+1 {{expected a piece of 'tensor<512xf32>', got 'tensor<256xf32>' at 300}}
  %p = fcdp.state_load @bucket.exp_avg at 300 : tensor<256xf32>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.bucket @bucket unit "s" elements 2048 storage f32 wire f32 trainable states host members []
fcdp.state @bucket.exp_avg exp_avg of @bucket in host : tensor<512xf32>
fcdp.state @bucket.shard shard of @bucket in device : tensor<512xf32>
func.func @state_store_c1(%m: tensor<256xf32>) {
  // expected-error@+1 {{expected a state in host memory or a file that the optimizer updates, got @missing}}
  fcdp.state_store %m to @missing at 0 : tensor<256xf32>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.bucket @bucket unit "s" elements 2048 storage f32 wire f32 trainable states host members []
fcdp.state @bucket.exp_avg exp_avg of @bucket in host : tensor<512xf32>
fcdp.state @bucket.shard shard of @bucket in device : tensor<512xf32>
func.func @state_store_c2(%m: tensor<256xbf16>) {
  // expected-error@+1 {{expected a piece of 'tensor<512xf32>', got 'tensor<256xbf16>' at 0}}
  fcdp.state_store %m to @bucket.exp_avg at 0 : tensor<256xbf16>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.bucket @bucket unit "s" elements 2048 storage f32 wire f32 trainable members []
func.func @shard_update_c3_device(%m: tensor<256xf32>) {
  // expected-error@+1 {{expected a piece to have a begin and an end, and a bucket with 'states host' or 'file'}}
  fcdp.shard_update @bucket piece 0 to 256 states(%m : tensor<256xf32>) scale 1.0 with #fcdp.lion<lr = 0.1, beta1 = 0.9, beta2 = 0.99, weight_decay = 0.0>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.bucket @bucket unit "s" elements 2048 storage f32 wire f32 trainable members []
// expected-error@+1 {{expected to be in device memory}}
fcdp.state @state_c2 exp_avg of @bucket in host : tensor<512xf32>

// -----

fcdp.mesh @world(node = 2, local = 2)
// expected-error@+1 {{expected 'states' in a trainable bucket and, if they are in 'host' memory or a 'file', one reduced over all ranks, got 'host'}}
fcdp.bucket @bucket_c17_frozen unit "s" elements 2048 storage f32 wire f32 states host members []

// -----

fcdp.mesh @world(node = 2, local = 2)
// expected-error@+1 {{expected a 'piece' of a multiple of 256 elements, with 'states host' or 'file', got 100}}
fcdp.bucket @bucket_c17_piece unit "s" elements 2048 storage f32 wire f32 trainable states host piece 100 members []
