// RUN: fcdp-opt %s --split-input-file --verify-diagnostics

// One case for each constraint, named for it.

fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.parameter @more : tensor<32xf32> unit "fc" trainable names ["more"]
fcdp.parameter @frozen : tensor<8xf32> unit "fc" names ["frozen"]
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire f32 trainable members [@w at 0, @more at 32]
fcdp.bucket @bucket.frozen unit "fc" elements 16 storage f32 wire f32 members [@frozen at 0]
fcdp.state @cache cache of @bucket in host : tensor<32xf32>
func.func @read_shard_c1_missing() {
  // expected-error@+1 {{expected a parameter or bucket, got @no}}
  %0 = fcdp.read_shard @no : tensor<16xf32>
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
func.func @read_shard_c1_mesh() {
  // expected-error@+1 {{expected a parameter or bucket, got @world}}
  %0 = fcdp.read_shard @world : tensor<16xf32>
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
func.func @read_shard_c1_parameter() {
  // expected-error@+1 {{expected result type '!fcdp.shard<tensor<3x4xf32>>', got '!fcdp.shard<tensor<3x4xbf16>>'}}
  %0 = fcdp.read_shard @w : !fcdp.shard<tensor<3x4xbf16>>
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
func.func @read_shard_c1_bucket() {
  // expected-error@+1 {{expected result type 'tensor<16xf32>', got 'tensor<64xf32>'}}
  %0 = fcdp.read_shard @bucket : tensor<64xf32>
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
func.func @read_shard_dynamic() {
  // expected-error@+1 {{must be a shard or a flat tensor, but got 'tensor<?xf32>'}}
  %0 = fcdp.read_shard @bucket : tensor<?xf32>
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
func.func @read_shard_rank() {
  // expected-error@+1 {{must be a shard or a flat tensor, but got 'tensor<4x4xf32>'}}
  %0 = fcdp.read_shard @bucket : tensor<4x4xf32>
  return
}

// -----

func.func @cast_shard_c1_shape(%s: tensor<16xf32>) {
  // expected-error@+1 {{expected a result that differs from 'tensor<16xf32>' in its element type only, got 'tensor<8xf32>'}}
  %0 = fcdp.cast_shard %s : tensor<16xf32> to tensor<8xf32>
  return
}

// -----

func.func @cast_shard_c1_kind(%s: tensor<16xf32>) {
  // expected-error@+1 {{in its element type only, got '!fcdp.shard<tensor<16xf32>>'}}
  %0 = fcdp.cast_shard %s : tensor<16xf32> to !fcdp.shard<tensor<16xf32>>
  return
}

// -----

func.func @cast_shard_c1_shard(%s: !fcdp.shard<tensor<3x4xf32>>) {
  // expected-error@+1 {{in its element type only, got '!fcdp.shard<tensor<4x3xf32>>'}}
  %0 = fcdp.cast_shard %s : !fcdp.shard<tensor<3x4xf32>> to !fcdp.shard<tensor<4x3xf32>>
  return
}

// -----

func.func @cast_shard_c2_bytes(%s: tensor<16xf32>) {
  // expected-error@+1 {{expected a buffer of 32 bytes in device memory, got}}
  %0 = fcdp.cast_shard %s {buffer = #fcdp.buffer<arena = device, offset = 0, bytes = 31>} : tensor<16xf32> to tensor<16xbf16>
  return
}

// -----

func.func @cast_shard_c2_shard(%s: !fcdp.shard<tensor<3x4xf32>>) {
  // expected-error@+1 {{a shard without layout has no buffer}}
  %0 = fcdp.cast_shard %s {buffer = #fcdp.buffer<arena = device, offset = 0, bytes = 48>} : !fcdp.shard<tensor<3x4xf32>> to !fcdp.shard<tensor<3x4xf32>>
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
func.func @all_gather_c1_source(%s: tensor<16xf32>) {
  // expected-error@+1 {{expected a parameter or bucket, got @no}}
  %0 = fcdp.all_gather %s of @no over @world[node] range 0 : tensor<16xf32> to tensor<32xf32>
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
func.func @all_gather_c1_mesh(%s: tensor<16xf32>) {
  // expected-error@+1 {{expected a mesh, got @bucket}}
  %0 = fcdp.all_gather %s of @bucket over @bucket[node] range 0 : tensor<16xf32> to tensor<32xf32>
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
func.func @all_gather_c1_no_axis(%s: tensor<16xf32>) {
  // expected-error@+1 {{expected at least one axis}}
  %0 = fcdp.all_gather %s of @bucket over @world[] range 0 : tensor<16xf32> to tensor<32xf32>
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
func.func @all_gather_c1_twice(%s: tensor<16xf32>) {
  // expected-error@+1 {{axis 'node' is given twice}}
  %0 = fcdp.all_gather %s of @bucket over @world[node, node] range 0 : tensor<16xf32> to tensor<32xf32>
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
func.func @all_gather_c1_unknown_axis(%s: tensor<16xf32>) {
  // expected-error@+1 {{expected 'node' or 'local', got 'rank'}}
  %0 = fcdp.all_gather %s of @bucket over @world[rank] range 0 : tensor<16xf32> to tensor<32xf32>
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
func.func @reduce_scatter_c1_source(%s: tensor<64xf32>) {
  // expected-error@+1 {{expected a parameter or bucket, got @no}}
  %0 = fcdp.reduce_scatter %s of @no over @world[node] : tensor<64xf32> to tensor<32xf32>
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
func.func @reduce_scatter_c1_mesh(%s: tensor<64xf32>) {
  // expected-error@+1 {{expected a mesh, got @bucket}}
  %0 = fcdp.reduce_scatter %s of @bucket over @bucket[node] : tensor<64xf32> to tensor<32xf32>
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
func.func @reduce_scatter_c1_no_axis(%s: tensor<64xf32>) {
  // expected-error@+1 {{expected at least one axis}}
  %0 = fcdp.reduce_scatter %s of @bucket over @world[] : tensor<64xf32> to tensor<32xf32>
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
func.func @reduce_scatter_c1_twice(%s: tensor<64xf32>) {
  // expected-error@+1 {{axis 'node' is given twice}}
  %0 = fcdp.reduce_scatter %s of @bucket over @world[node, node] : tensor<64xf32> to tensor<32xf32>
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
func.func @reduce_scatter_c1_unknown_axis(%s: tensor<64xf32>) {
  // expected-error@+1 {{expected 'node' or 'local', got 'rank'}}
  %0 = fcdp.reduce_scatter %s of @bucket over @world[rank] : tensor<64xf32> to tensor<32xf32>
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
func.func @all_gather_c2_axes(%s: !fcdp.shard<tensor<3x4xf32>>) {
  // expected-error@+1 {{expected both axes for a shard without layout}}
  %0 = fcdp.all_gather %s of @w over @world[node] range 0 : !fcdp.shard<tensor<3x4xf32>> to tensor<3x4xf32>
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
func.func @all_gather_c2_whole(%s: !fcdp.shard<tensor<3x4xf32>>) {
  // expected-error@+1 {{expected the whole tensor 'tensor<3x4xf32>', got 'tensor<12xf32>'}}
  %0 = fcdp.all_gather %s of @w over @world[node, local] range 0 : !fcdp.shard<tensor<3x4xf32>> to tensor<12xf32>
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
func.func @all_gather_c3_elements(%s: tensor<16xf32>) {
  // expected-error@+1 {{expected 2 times the elements of 'tensor<16xf32>', got 'tensor<64xf32>'}}
  %0 = fcdp.all_gather %s of @bucket over @world[node] range 0 : tensor<16xf32> to tensor<64xf32>
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
func.func @all_gather_c3_both(%s: tensor<16xf32>) {
  // expected-error@+1 {{expected 4 times the elements of 'tensor<16xf32>', got 'tensor<32xf32>'}}
  %0 = fcdp.all_gather %s of @bucket over @world[node, local] range 0 : tensor<16xf32> to tensor<32xf32>
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
func.func @all_gather_c3_type(%s: tensor<16xf32>) {
  // expected-error@+1 {{expected 2 times the elements of 'tensor<16xf32>', got 'tensor<32xbf16>'}}
  %0 = fcdp.all_gather %s of @bucket over @world[node] range 0 : tensor<16xf32> to tensor<32xbf16>
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
func.func @all_gather_c3_rank(%s: tensor<16xf32>) {
  // expected-error@+1 {{expected 2 times the elements of 'tensor<16xf32>', got 'tensor<2x16xf32>'}}
  %0 = fcdp.all_gather %s of @bucket over @world[node] range 0 : tensor<16xf32> to tensor<2x16xf32>
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
func.func @all_gather_c3_overflow(%s: tensor<2305843009213693951xf32>) {
  // expected-error@+1 {{expected 2 times the elements of 'tensor<2305843009213693951xf32>', got 'tensor<4xf32>'}}
  %0 = fcdp.all_gather %s of @bucket over @world[node] range 0 : tensor<2305843009213693951xf32> to tensor<4xf32>
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
func.func @all_gather_c5(%s: tensor<16xf32>) {
  // expected-error@+1 {{expected a buffer of 128 bytes in device memory, got}}
  %0 = fcdp.all_gather %s of @bucket over @world[node] range 0 {buffer = #fcdp.buffer<arena = host, offset = 0, bytes = 128>} : tensor<16xf32> to tensor<32xf32>
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
func.func @all_gather_dynamic(%s: tensor<16xf32>) {
  // expected-error@+1 {{must be static tensor of floats or ui8, but got 'tensor<?xf32>'}}
  %0 = fcdp.all_gather %s of @bucket over @world[node] range 0 : tensor<16xf32> to tensor<?xf32>
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
func.func @all_gather_huge(%s: tensor<4611686018427387904xf32>) {
  // expected-error@+1 {{must be a shard or a flat tensor, but got 'tensor<4611686018427387904xf32>'}}
  %0 = fcdp.all_gather %s of @bucket over @world[node] range 0 : tensor<4611686018427387904xf32> to tensor<32xf32>
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
func.func @all_gather_range(%s: tensor<16xf32>) {
  // expected-error@+1 {{attribute 'range' failed to satisfy constraint: 64-bit signless integer attribute whose value is non-negative}}
  %0 = fcdp.all_gather %s of @bucket over @world[node] range -1 : tensor<16xf32> to tensor<32xf32>
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
func.func @all_gather_axes_of_another_kind(%s: tensor<16xf32>) {
  // expected-error@+1 {{attribute 'axes' failed to satisfy constraint: mesh axes, outermost first}}
  %0 = "fcdp.all_gather"(%s) <{source = @bucket, mesh = @world, axes = [0], range = 0 : i64}> : (tensor<16xf32>) -> tensor<32xf32>
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
func.func @reduce_scatter_c2_axes(%s: tensor<3x4xf32>) {
  // expected-error@+1 {{expected both axes for a shard without layout}}
  %0 = fcdp.reduce_scatter %s of @w over @world[node] : tensor<3x4xf32> to !fcdp.shard<tensor<3x4xf32>>
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
func.func @reduce_scatter_c2_whole(%s: tensor<3x4xbf16>) {
  // expected-error@+1 {{expected the whole tensor 'tensor<3x4xf32>', got 'tensor<3x4xbf16>'}}
  %0 = fcdp.reduce_scatter %s of @w over @world[local, node] : tensor<3x4xbf16> to !fcdp.shard<tensor<3x4xf32>>
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
func.func @reduce_scatter_c3_elements(%s: tensor<64xf32>) {
  // expected-error@+1 {{expected 2 times the elements of 'tensor<16xf32>', got 'tensor<64xf32>'}}
  %0 = fcdp.reduce_scatter %s of @bucket over @world[node] : tensor<64xf32> to tensor<16xf32>
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
func.func @reduce_scatter_c3_rank(%s: tensor<8x8xf32>) {
  // expected-error@+1 {{expected 2 times the elements of 'tensor<32xf32>', got 'tensor<8x8xf32>'}}
  %0 = fcdp.reduce_scatter %s of @bucket over @world[node] : tensor<8x8xf32> to tensor<32xf32>
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
func.func @reduce_scatter_c3_type(%s: tensor<64xf32>) {
  // expected-error@+1 {{expected elements of 'f32' or f32, got 'bf16'}}
  %0 = fcdp.reduce_scatter %s of @bucket over @world[node] : tensor<64xf32> to tensor<32xbf16>
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
func.func @reduce_scatter_c3_overflow(%s: tensor<64xf32>) {
  // expected-error@+1 {{expected 2 times the elements of 'tensor<2305843009213693951xf32>', got 'tensor<64xf32>'}}
  %0 = fcdp.reduce_scatter %s of @bucket over @world[node] : tensor<64xf32> to tensor<2305843009213693951xf32>
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
func.func @reduce_scatter_c5_buffer(%s: tensor<64xf32>) {
  // expected-error@+1 {{expected a buffer of 128 bytes in device memory, got}}
  %0 = fcdp.reduce_scatter %s of @bucket over @world[node] {buffer = #fcdp.buffer<arena = device, offset = 0, bytes = 64>} : tensor<64xf32> to tensor<32xf32>
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
func.func @reduce_scatter_c5_scratch(%s: tensor<64xf32>) {
  // expected-error@+1 {{expected a scratch buffer of 256 bytes in device memory, got}}
  %0 = fcdp.reduce_scatter %s of @bucket over @world[node] {scratch = #fcdp.buffer<arena = device, offset = 0, bytes = 128>} : tensor<64xf32> to tensor<32xf32>
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
func.func @reduce_scatter_index(%s: tensor<64xindex>) {
  // expected-error@+1 {{must be static tensor of floats, but got 'tensor<64xindex>'}}
  %0 = fcdp.reduce_scatter %s of @bucket over @world[node] {scratch = #fcdp.buffer<arena = device, offset = 0, bytes = 512>} : tensor<64xindex> to tensor<32xf32>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.bucket @bucket unit "fc" elements 64 storage bf16 wire bf16 trainable members []
fcdp.state @cache cache of @bucket in host : tensor<32xbf16>
fcdp.state @shard shard of @bucket in device : tensor<16xbf16>
func.func @all_gather_c8_role(%s: tensor<16xbf16>) {
  // expected-error@+1 {{expected 'delta' to be a state of role 'cache' of @bucket and of type 'tensor<32xbf16>', got @shard}}
  %0 = fcdp.all_gather %s of @bucket over @world[node] range 0 delta @shard : tensor<16xbf16> to tensor<32xbf16>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.bucket @bucket unit "fc" elements 64 storage bf16 wire bf16 trainable members []
fcdp.state @cache cache of @bucket in host : tensor<32xbf16>
fcdp.state @shard shard of @bucket in device : tensor<16xbf16>
func.func @all_gather_c8_size(%s: tensor<32xbf16>) {
  // expected-error@+1 {{expected 'delta' to be a state of role 'cache' of @bucket and of type 'tensor<64xbf16>', got @cache}}
  %0 = fcdp.all_gather %s of @bucket over @world[local] range 0 delta @cache : tensor<32xbf16> to tensor<64xbf16>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.bucket @bucket unit "fc" elements 64 storage bf16 wire bf16 trainable members []
fcdp.state @cache cache of @bucket in host : tensor<32xbf16>
fcdp.state @shard shard of @bucket in device : tensor<16xbf16>
func.func @all_gather_c8_axes(%s: tensor<16xbf16>) {
  // expected-error@+1 {{expected a gather of parameters over 'node' alone, in bf16 or f16, with 'delta'}}
  %0 = fcdp.all_gather %s of @bucket over @world[local] range 0 delta @cache : tensor<16xbf16> to tensor<32xbf16>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire f32 trainable members []
fcdp.state @cache cache of @bucket in host : tensor<32xf32>
fcdp.state @shard shard of @bucket in device : tensor<16xf32>
func.func @all_gather_c8_type(%s: tensor<16xf32>) {
  // expected-error@+1 {{expected a gather of parameters over 'node' alone, in bf16 or f16, with 'delta'}}
  %0 = fcdp.all_gather %s of @bucket over @world[node] range 0 delta @cache : tensor<16xf32> to tensor<32xf32>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.bucket @bucket unit "fc" elements 64 storage bf16 wire bf16 trainable members []
fcdp.state @cache cache of @bucket in host : tensor<32xbf16>
fcdp.state @shard shard of @bucket in device : tensor<16xbf16>
func.func @all_gather_c8_scratch(%s: tensor<16xbf16>) {
  // expected-error@+1 {{expected a scratch buffer of 256 bytes in device memory, got}}
  %0 = fcdp.all_gather %s of @bucket over @world[node] range 0 delta @cache {scratch = #fcdp.buffer<arena = device, offset = 0, bytes = 128>} : tensor<16xbf16> to tensor<32xbf16>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.bucket @bucket unit "fc" elements 64 storage bf16 wire bf16 trainable members []
fcdp.state @cache cache of @bucket in host : tensor<32xbf16>
fcdp.state @shard shard of @bucket in device : tensor<16xbf16>
func.func @reduce_scatter_c6_code(%s: tensor<32xbf16>) {
  // expected-error@+1 {{expected 'code' to be 'coded', 'int8' or 'int4', in a reduction over 'node' alone, got 'delta'}}
  %0 = fcdp.reduce_scatter %s of @bucket over @world[node] code delta : tensor<32xbf16> to tensor<16xf32>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.bucket @bucket unit "fc" elements 64 storage bf16 wire bf16 trainable members []
fcdp.state @cache cache of @bucket in host : tensor<32xbf16>
fcdp.state @shard shard of @bucket in device : tensor<16xbf16>
func.func @reduce_scatter_c6_axes(%s: tensor<64xbf16>) {
  // expected-error@+1 {{expected 'code' to be 'coded', 'int8' or 'int4', in a reduction over 'node' alone, got 'coded'}}
  %0 = fcdp.reduce_scatter %s of @bucket over @world[local] code coded : tensor<64xbf16> to tensor<32xbf16>
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
func.func @view_member_c1_bucket(%s: tensor<64xf32>) {
  // expected-error@+1 {{expected a parameter and its bucket, got @w of @world}}
  %0 = fcdp.view_member %s @w of @world : tensor<64xf32> to tensor<3x4xf32>
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
func.func @view_member_c1_parameter(%s: tensor<64xf32>) {
  // expected-error@+1 {{expected a parameter and its bucket, got @no of @bucket}}
  %0 = fcdp.view_member %s @no of @bucket : tensor<64xf32> to tensor<3x4xf32>
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
func.func @view_member_c1_member(%s: tensor<64xf32>) {
  // expected-error@+1 {{expected a parameter and its bucket, got @frozen of @bucket}}
  %0 = fcdp.view_member %s @frozen of @bucket : tensor<64xf32> to tensor<3x4xf32>
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
func.func @view_member_c1_whole(%s: tensor<32xf32>) {
  // expected-error@+1 {{expected the whole bucket 'tensor<64xf32>', got 'tensor<32xf32>'}}
  %0 = fcdp.view_member %s @w of @bucket : tensor<32xf32> to tensor<3x4xf32>
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
func.func @view_member_c1_wire(%s: tensor<64xbf16>) {
  // expected-error@+1 {{expected the whole bucket 'tensor<64xf32>', got 'tensor<64xbf16>'}}
  %0 = fcdp.view_member %s @w of @bucket : tensor<64xbf16> to tensor<3x4xf32>
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
func.func @view_member_c2_shape(%s: tensor<64xf32>) {
  // expected-error@+1 {{expected result type 'tensor<3x4xf32>', got 'tensor<4x3xf32>'}}
  %0 = fcdp.view_member %s @w of @bucket : tensor<64xf32> to tensor<4x3xf32>
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
func.func @view_member_c2_type(%s: tensor<64xf32>) {
  // expected-error@+1 {{expected result type 'tensor<3x4xf32>', got 'tensor<3x4xbf16>'}}
  %0 = fcdp.view_member %s @w of @bucket : tensor<64xf32> to tensor<3x4xbf16>
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
func.func @pack_c1_bucket(%g: tensor<3x4xf32>) {
  // expected-error@+1 {{expected a bucket, got @w}}
  %0 = fcdp.pack @w(%g as @w) : (tensor<3x4xf32>) -> tensor<64xf32>
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
func.func @pack_c5_twice(%g: tensor<3x4xf32>) {
  // expected-error@+1 {{expected 'in_place' to be distinct parameters of the values, got @w}}
  %0 = fcdp.pack @bucket(%g as @w) {in_place = [@w, @w]} : (tensor<3x4xf32>) -> tensor<64xf32>
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
func.func @pack_c5_absent(%g: tensor<3x4xf32>) {
  // expected-error@+1 {{expected 'in_place' to be distinct parameters of the values, got @more}}
  %0 = fcdp.pack @bucket(%g as @w) {in_place = [@more]} : (tensor<3x4xf32>) -> tensor<64xf32>
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
func.func @pack_c1_member(%g: tensor<3x4xf32>) {
  // expected-error@+1 {{expected distinct members of @bucket, got @frozen}}
  %0 = fcdp.pack @bucket(%g as @frozen) : (tensor<3x4xf32>) -> tensor<64xf32>
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
func.func @pack_c1_twice(%g: tensor<3x4xf32>) {
  // expected-error@+1 {{expected distinct members of @bucket, got @w}}
  %0 = fcdp.pack @bucket(%g as @w, %g as @w) : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<64xf32>
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
func.func @pack_c1_shape(%g: tensor<3x4xf32>) {
  // expected-error@+1 {{expected type 'tensor<32xf32>' for @more, got 'tensor<3x4xf32>'}}
  %0 = fcdp.pack @bucket(%g as @more) : (tensor<3x4xf32>) -> tensor<64xf32>
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
func.func @pack_c1_fewer_parameters(%g: tensor<3x4xf32>) {
  // expected-error@+1 {{expected as many parameters as values, got 0 and 1}}
  %0 = "fcdp.pack"(%g) <{bucket = @bucket, parameters = []}> : (tensor<3x4xf32>) -> tensor<64xf32>
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
func.func @pack_c1_fewer_values(%g: tensor<3x4xf32>) {
  // expected-error@+1 {{expected as many parameters as values, got 1 and 0}}
  %0 = "fcdp.pack"() <{bucket = @bucket, parameters = [@w]}> : () -> tensor<64xf32>
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
func.func @pack_c2_whole(%g: tensor<3x4xf32>) {
  // expected-error@+1 {{expected the whole bucket of 64 elements, got 'tensor<32xf32>'}}
  %0 = fcdp.pack @bucket(%g as @w) : (tensor<3x4xf32>) -> tensor<32xf32>
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
func.func @pack_c2_type(%g: tensor<3x4xf32>) {
  // expected-error@+1 {{expected type 'tensor<3x4xbf16>' for @w, got 'tensor<3x4xf32>'}}
  %0 = fcdp.pack @bucket(%g as @w) : (tensor<3x4xf32>) -> tensor<64xbf16>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire f32 reduce bf16 trainable members [@w at 0]
func.func @pack_c2_reduce(%g: tensor<3x4xf32>) {
  // expected-error@+1 {{expected the bucket's type of reductions 'bf16', got 'tensor<64xf32>'}}
  %0 = fcdp.pack @bucket(%g as @w) : (tensor<3x4xf32>) -> tensor<64xf32>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire f32 reduce bf16 trainable members [@w at 0]
func.func @pack_c2_integer(%g: tensor<3x4xi64>) {
  // expected-error@+1 {{expected type 'tensor<3x4xbf16>' for @w, got 'tensor<3x4xi64>'}}
  %0 = fcdp.pack @bucket(%g as @w) : (tensor<3x4xi64>) -> tensor<64xbf16>
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
func.func @pack_c4(%g: tensor<3x4xf32>) {
  // expected-error@+1 {{expected a buffer of 256 bytes in device memory, got}}
  %0 = fcdp.pack @bucket(%g as @w) {buffer = #fcdp.buffer<arena = device, offset = 0, bytes = 128>} : (tensor<3x4xf32>) -> tensor<64xf32>
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
func.func @accumulate_c1_missing(%s: tensor<16xf32>) {
  // expected-error@+1 {{expected a trainable parameter or bucket, got @no}}
  fcdp.accumulate %s into @no add : tensor<16xf32>
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
func.func @accumulate_c1_frozen_parameter(%s: tensor<16xf32>) {
  // expected-error@+1 {{expected a trainable parameter or bucket, got @frozen}}
  fcdp.accumulate %s into @frozen add : tensor<16xf32>
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
func.func @accumulate_c1_frozen_bucket(%s: tensor<16xf32>) {
  // expected-error@+1 {{expected a trainable parameter or bucket, got @bucket.frozen}}
  fcdp.accumulate %s into @bucket.frozen add : tensor<16xf32>
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
func.func @accumulate_c2_elements(%s: tensor<64xf32>) {
  // expected-error@+1 {{expected type 'tensor<16xf32>', got 'tensor<64xf32>'}}
  fcdp.accumulate %s into @bucket add : tensor<64xf32>
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
func.func @accumulate_c2_type(%s: tensor<16xbf16>) {
  // expected-error@+1 {{expected type 'tensor<16xf32>', got 'tensor<16xbf16>'}}
  fcdp.accumulate %s into @bucket add : tensor<16xbf16>
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
func.func @accumulate_c2_parameter(%s: tensor<16xf32>) {
  // expected-error@+1 {{expected a shard of the shape of 'tensor<3x4xf32>', got 'tensor<16xf32>'}}
  fcdp.accumulate %s into @w add : tensor<16xf32>
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
func.func @accumulate_c2_shape(%s: !fcdp.shard<tensor<4x3xf32>>) {
  // expected-error@+1 {{expected a shard of the shape of 'tensor<3x4xf32>', got '!fcdp.shard<tensor<4x3xf32>>'}}
  fcdp.accumulate %s into @w add : !fcdp.shard<tensor<4x3xf32>>
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
func.func @shard_update_c1_missing() {
  // expected-error@+1 {{expected a trainable parameter or bucket, got @no}}
  fcdp.shard_update @no scale 1.0 with #fcdp.sgd<lr = 0.1, momentum = 0.0, dampening = 0.0, weight_decay = 0.0, nesterov = false>
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
func.func @shard_update_c1_frozen() {
  // expected-error@+1 {{expected a trainable parameter or bucket, got @bucket.frozen}}
  fcdp.shard_update @bucket.frozen scale 1.0 with #fcdp.sgd<lr = 0.1, momentum = 0.0, dampening = 0.0, weight_decay = 0.0, nesterov = false>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @bias : tensor<16xf32> unit "fc" trainable names ["bias"]
func.func @shard_update_c2_parameter() {
  // expected-error@+1 {{expected parameters that 'muon' can update, got @bias of type}}
  fcdp.shard_update @bias scale 1.0 with #fcdp.muon<lr = 0.1, weight_decay = 0.0, momentum = 0.9, nesterov = true, ns_a = 3.0, ns_b = -4.0, ns_c = 2.0, eps = 1.0e-07, ns_steps = 5, adjust_lr_fn = original>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<4x4xf32> unit "fc" trainable names ["w"]
fcdp.parameter @cube : tensor<2x2x4xf32> unit "fc" trainable names ["cube"]
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire f32 trainable layout owned members [@w at 0, @cube at 16]
func.func @shard_update_c2_member() {
  // expected-error@+1 {{expected parameters that 'muon' can update, got @cube of type}}
  fcdp.shard_update @bucket scale 1.0 with #fcdp.muon<lr = 0.1, weight_decay = 0.0, momentum = 0.9, nesterov = true, ns_a = 3.0, ns_b = -4.0, ns_c = 2.0, eps = 1.0e-07, ns_steps = 5, adjust_lr_fn = original>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<4x4xf32> unit "fc" trainable names ["w"]
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire f32 trainable members [@w at 0]
func.func @shard_update_c2_flat() {
  // expected-error@+1 {{expected a bucket with the layout #fcdp<layout owned>, which 'muon' needs, got @bucket}}
  fcdp.shard_update @bucket scale 1.0 with #fcdp.muon<lr = 0.1, weight_decay = 0.0, momentum = 0.9, nesterov = true, ns_a = 3.0, ns_b = -4.0, ns_c = 2.0, eps = 1.0e-07, ns_steps = 5, adjust_lr_fn = original>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<4x4xf32> unit "fc" trainable names ["w"]
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire f32 trainable layout ragged<4> members [@w at 0]
func.func @shard_update_c2_ragged() {
  // expected-error@+1 {{expected a bucket with the layout #fcdp<layout owned>, which 'muon' needs, got @bucket}}
  fcdp.shard_update @bucket scale 1.0 with #fcdp.muon<lr = 0.1, weight_decay = 0.0, momentum = 0.9, nesterov = true, ns_a = 3.0, ns_b = -4.0, ns_c = 2.0, eps = 1.0e-07, ns_steps = 5, adjust_lr_fn = original>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @cube : tensor<2x2x4xf32> unit "fc" trainable names ["cube"]
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire f32 trainable layout owned members [@cube at 0]
func.func @shard_update_c2_whole() {
  // expected-error@+1 {{expected a bucket with the layout #fcdp<layout whole>, which 'adafactor' needs, got @bucket}}
  fcdp.shard_update @bucket scale 1.0 with #fcdp.adafactor<lr = 0.1, beta2_decay = -0.8, eps1 = 0.1, eps2 = 0.1, d = 1.0, weight_decay = 0.0>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @odd : tensor<16x17xf32> unit "fc" trainable names ["odd"]
func.func @shard_update_c2_blocks() {
  // expected-error@+1 {{expected parameters that 'adamw8bit' can update, got @odd of type}}
  fcdp.shard_update @odd scale 1.0 with #fcdp.adamw8bit<lr = 1.0, beta1 = 0.9, beta2 = 0.99, eps = 1.0e-08, weight_decay = 0.0>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<256xf32> unit "fc" trainable names ["w"]
fcdp.bucket @bucket unit "fc" elements 1024 storage f32 wire f32 trainable layout blocks<128> members [@w at 0]
func.func @shard_update_c2_other_blocks() {
  // expected-error@+1 {{expected a bucket with the layout #fcdp<layout blocks<256>>, which 'adamw8bit' needs, got @bucket}}
  fcdp.shard_update @bucket scale 1.0 with #fcdp.adamw8bit<lr = 1.0, beta1 = 0.9, beta2 = 0.99, eps = 1.0e-08, weight_decay = 0.0>
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
func.func @shard_update_optimizer() {
  // expected-error@+1 {{failed to satisfy constraint: an optimizer}}
  fcdp.shard_update @bucket scale 1.0 with "adam"
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
func.func @shard_update_scale() {
  // expected-error@+1 {{failed to satisfy constraint: 64-bit float attribute}}
  "fcdp.shard_update"() <{target = @bucket, scale = 1.0 : f32, optimizer = #fcdp.sgd<lr = 0.1, momentum = 0.0, dampening = 0.0, weight_decay = 0.0, nesterov = false>}> : () -> ()
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
fcdp.state @grad grad of @bucket in device : tensor<16xf32>
func.func @cache_store_c1_missing(%s: tensor<32xf32>) {
  // expected-error@+1 {{expected a state of role 'cache' or 'host_grad', got @no}}
  fcdp.cache_store %s to @no : tensor<32xf32>
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
fcdp.state @grad grad of @bucket in device : tensor<16xf32>
func.func @cache_store_c1_role(%s: tensor<16xf32>) {
  // expected-error@+1 {{expected a state of role 'cache' or 'host_grad', got @grad}}
  fcdp.cache_store %s to @grad : tensor<16xf32>
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
fcdp.state @grad grad of @bucket in device : tensor<16xf32>
func.func @cache_store_c1_type(%s: tensor<16xf32>) {
  // expected-error@+1 {{expected type 'tensor<32xf32>', got 'tensor<16xf32>'}}
  fcdp.cache_store %s to @cache : tensor<16xf32>
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
fcdp.state @grad grad of @bucket in device : tensor<16xf32>
func.func @cache_load_c1_role() {
  // expected-error@+1 {{expected a state of role 'cache' or 'host_grad', got @bucket}}
  %0 = fcdp.cache_load @bucket : tensor<32xf32>
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
fcdp.state @grad grad of @bucket in device : tensor<16xf32>
func.func @cache_load_c1_type() {
  // expected-error@+1 {{expected type 'tensor<32xf32>', got 'tensor<32xbf16>'}}
  %0 = fcdp.cache_load @cache : tensor<32xbf16>
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
fcdp.state @grad grad of @bucket in device : tensor<16xf32>
func.func @cache_load_c3() {
  // expected-error@+1 {{expected a buffer of 128 bytes in device memory, got}}
  %0 = fcdp.cache_load @cache {buffer = #fcdp.buffer<arena = host, offset = 0, bytes = 128>} : tensor<32xf32>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire bf16 trainable members [@w at 0]
fcdp.bucket @other unit "fc" elements 64 storage f32 wire bf16 trainable members []
fcdp.state @cache cache of @bucket in host : tensor<32xbf16>
fcdp.state @resident resident of @bucket in device : tensor<32xbf16>
fcdp.state @sum node_grad of @bucket in device : tensor<32xf32>
func.func @all_gather_c6_role(%s: tensor<16xbf16>) {
  // expected-error@+1 {{expected a state of role 'resident' or 'prefetched' of @bucket and of type 'tensor<32xbf16>', got @cache}}
  %0 = fcdp.all_gather %s of @bucket over @world[node] range 0 into @cache : tensor<16xbf16> to tensor<32xbf16>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire bf16 trainable members [@w at 0]
fcdp.bucket @other unit "fc" elements 64 storage f32 wire bf16 trainable members []
fcdp.state @cache cache of @bucket in host : tensor<32xbf16>
fcdp.state @resident resident of @bucket in device : tensor<32xbf16>
fcdp.state @sum node_grad of @bucket in device : tensor<32xf32>
func.func @all_gather_c6_bucket(%s: tensor<16xbf16>) {
  // expected-error@+1 {{expected a state of role 'resident' or 'prefetched' of @other and of type 'tensor<32xbf16>', got @resident}}
  %0 = fcdp.all_gather %s of @other over @world[node] range 0 into @resident : tensor<16xbf16> to tensor<32xbf16>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire bf16 trainable members [@w at 0]
fcdp.bucket @other unit "fc" elements 64 storage f32 wire bf16 trainable members []
fcdp.state @cache cache of @bucket in host : tensor<32xbf16>
fcdp.state @resident resident of @bucket in device : tensor<32xbf16>
fcdp.state @sum node_grad of @bucket in device : tensor<32xf32>
func.func @all_gather_c6_type(%s: tensor<32xbf16>) {
  // expected-error@+1 {{expected a state of role 'resident' or 'prefetched' of @bucket and of type 'tensor<64xbf16>', got @resident}}
  %0 = fcdp.all_gather %s of @bucket over @world[local] range 0 into @resident : tensor<32xbf16> to tensor<64xbf16>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire bf16 trainable members [@w at 0]
fcdp.bucket @other unit "fc" elements 64 storage f32 wire bf16 trainable members []
fcdp.state @cache cache of @bucket in host : tensor<32xbf16>
fcdp.state @resident resident of @bucket in device : tensor<32xbf16>
fcdp.state @sum node_grad of @bucket in device : tensor<32xf32>
func.func @read_state_c1_role() {
  // expected-error@+1 {{expected a state of role 'resident', 'prefetched', 'node_grad' or 'full_grad', got @cache}}
  %0 = fcdp.read_state @cache : tensor<32xbf16>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire bf16 trainable members [@w at 0]
fcdp.bucket @other unit "fc" elements 64 storage f32 wire bf16 trainable members []
fcdp.state @cache cache of @bucket in host : tensor<32xbf16>
fcdp.state @resident resident of @bucket in device : tensor<32xbf16>
fcdp.state @sum node_grad of @bucket in device : tensor<32xf32>
func.func @read_state_c1_type() {
  // expected-error@+1 {{expected result type 'tensor<32xbf16>', got 'tensor<32xf32>'}}
  %0 = fcdp.read_state @resident : tensor<32xf32>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire bf16 trainable members [@w at 0]
fcdp.bucket @other unit "fc" elements 64 storage f32 wire bf16 trainable members []
fcdp.state @cache cache of @bucket in host : tensor<32xbf16>
fcdp.state @resident resident of @bucket in device : tensor<32xbf16>
fcdp.state @sum node_grad of @bucket in device : tensor<32xf32>
func.func @accumulate_c1_state(%g: tensor<32xbf16>) {
  // expected-error@+1 {{expected a trainable parameter or bucket, got @resident}}
  fcdp.accumulate %g into @resident add : tensor<32xbf16>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire bf16 trainable members [@w at 0]
fcdp.bucket @other unit "fc" elements 64 storage f32 wire bf16 trainable members []
fcdp.state @cache cache of @bucket in host : tensor<32xbf16>
fcdp.state @resident resident of @bucket in device : tensor<32xbf16>
fcdp.state @sum node_grad of @bucket in device : tensor<32xf32>
func.func @accumulate_c2_state(%g: tensor<16xf32>) {
  // expected-error@+1 {{expected type 'tensor<32xf32>', got 'tensor<16xf32>'}}
  fcdp.accumulate %g into @sum add : tensor<16xf32>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire bf16 trainable members []
fcdp.state @sum host_grad of @bucket in host : tensor<32xf32>
func.func @cache_store_c1_sum(%slice: tensor<32xbf16>) {
  // expected-error@+1 {{expected type 'tensor<32xf32>', got 'tensor<32xbf16>'}}
  fcdp.cache_store %slice to @sum : tensor<32xbf16>
  return
}

// -----

func.func @add_c1_element(%a: tensor<32xbf16>, %b: tensor<32xbf16>) {
  // expected-error@+1 {{operand #0 must be flat static tensor of f32, but got 'tensor<32xbf16>'}}
  %0 = fcdp.add %a, %b : tensor<32xbf16>
  return
}

// -----

func.func @add_c1_rank(%a: tensor<4x8xf32>, %b: tensor<4x8xf32>) {
  // expected-error@+1 {{operand #0 must be flat static tensor of f32, but got 'tensor<4x8xf32>'}}
  %0 = fcdp.add %a, %b : tensor<4x8xf32>
  return
}

// -----

func.func @add_c1_size(%a: tensor<32xf32>, %b: tensor<16xf32>) {
  // expected-error@+1 {{failed to verify that all of {sum, value, result} have same type}}
  %0 = "fcdp.add"(%a, %b) : (tensor<32xf32>, tensor<16xf32>) -> tensor<32xf32>
  return
}

// -----

func.func @add_c3(%a: tensor<32xf32>) {
  // expected-error@+1 {{expected a buffer of 128 bytes in device memory, got}}
  %0 = fcdp.add %a, %a {buffer = #fcdp.buffer<arena = host, offset = 0, bytes = 128>} : tensor<32xf32>
  return
}

// -----

func.func @read_loss_weight_type() {
  // expected-error@+1 {{result #0 must be 0D tensor of 32-bit float values, but got 'tensor<1xf32>'}}
  %f = fcdp.read_loss_weight : tensor<1xf32>
  return
}

// -----

func.func @read_loss_scale_type() {
  // expected-error@+1 {{result #0 must be 0D tensor of 32-bit float values, but got 'tensor<f16>'}}
  %s = fcdp.read_loss_scale : tensor<f16>
  return
}

// -----

func.func @clip_gradients_c1_max_norm() {
  // expected-error@+1 {{expected 'max_norm' to be finite and positive, got 0}}
  fcdp.clip_gradients to 0.0 scale 0.25
  return
}

// -----

func.func @clip_gradients_c1_scale() {
  // expected-error@+1 {{expected 'scale' to be finite and positive, got -1}}
  fcdp.clip_gradients to 1.0 scale -1.0
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire bf16 trainable sharding node members [@w at 0]
fcdp.state @resident resident of @bucket in device : tensor<32xbf16>
func.func @all_gather_c7_type(%g: tensor<16xbf16>) {
  // expected-error@+1 {{without 'range' expected an f32 gradient, or a difference of outer steps, of a bucket and no 'into', got 'tensor<16xbf16>' of @bucket}}
  %0 = fcdp.all_gather %g of @bucket over @world[node] : tensor<16xbf16> to tensor<32xbf16>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire f32 trainable sharding node members [@w at 0]
fcdp.state @resident resident of @bucket in device : tensor<32xf32>
func.func @all_gather_c7_into(%g: tensor<16xf32>) {
  // expected-error@+1 {{without 'range' expected an f32 gradient, or a difference of outer steps, of a bucket and no 'into', got}}
  %0 = fcdp.all_gather %g of @bucket over @world[node] into @resident : tensor<16xf32> to tensor<32xf32>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire bf16 trainable sharding node members [@w at 0]
fcdp.state @resident resident of @bucket in device : tensor<32xbf16>
func.func @all_gather_c7_parameter(%g: !fcdp.shard<tensor<3x4xf32>>) {
  // expected-error@+1 {{without 'range' expected an f32 gradient, or a difference of outer steps, of a bucket and no 'into', got '!fcdp.shard<tensor<3x4xf32>>' of @w}}
  %0 = fcdp.all_gather %g of @w over @world[node, local] : !fcdp.shard<tensor<3x4xf32>> to tensor<3x4xf32>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire bf16 trainable sharding node members [@w at 0]
fcdp.state @resident resident of @bucket in device : tensor<32xbf16>
func.func @read_shard_c1_slice() {
  // expected-error@+1 {{expected result type 'tensor<32xf32>', got 'tensor<16xf32>'}}
  %0 = fcdp.read_shard @bucket : tensor<16xf32>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire bf16 trainable sharding node members [@w at 0]
fcdp.state @resident resident of @bucket in device : tensor<32xbf16>
func.func @accumulate_c2_slice(%g: tensor<16xf32>) {
  // expected-error@+1 {{expected type 'tensor<32xf32>', got 'tensor<16xf32>'}}
  fcdp.accumulate %g into @bucket add : tensor<16xf32>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 1)
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire bf16 trainable members []
fcdp.state @cache cache of @bucket in host : tensor<64xbf16>
fcdp.state @resident resident of @bucket in device : tensor<64xbf16>
func.func @cache_load_c4_role() {
  // expected-error@+1 {{expected a state of role 'prefetched' of @bucket and of type 'tensor<64xbf16>', got @resident}}
  %0 = fcdp.cache_load @cache into @resident : tensor<64xbf16>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 1)
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire bf16 trainable members []
fcdp.bucket @other unit "fc" elements 64 storage f32 wire bf16 trainable members []
fcdp.state @cache cache of @bucket in host : tensor<64xbf16>
fcdp.state @prefetched prefetched of @other in device : tensor<64xbf16>
func.func @cache_load_c4_bucket() {
  // expected-error@+1 {{expected a state of role 'prefetched' of @bucket and of type 'tensor<64xbf16>', got @prefetched}}
  %0 = fcdp.cache_load @cache into @prefetched : tensor<64xbf16>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire bf16 trainable members []
fcdp.state @cache cache of @bucket in host : tensor<32xbf16>
fcdp.state @prefetched prefetched of @bucket in device : tensor<64xbf16>
func.func @cache_load_c4_type() {
  // expected-error@+1 {{expected a state of role 'prefetched' of @bucket and of type 'tensor<32xbf16>', got @prefetched}}
  %0 = fcdp.cache_load @cache into @prefetched : tensor<32xbf16>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire f32 trainable members [@w at 0]
func.func @accumulate_c3_producer(%g: tensor<16xf32>) {
  // expected-error@+1 {{expected the flat result of a reduction or a gather for a late sum}}
  fcdp.accumulate %g into @bucket add late : tensor<16xf32>
  return
}


// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire f32 trainable members [@w at 0]
func.func @accumulate_c3_flat(%g: tensor<3x4xf32>) {
  %0 = fcdp.reduce_scatter %g of @w over @world[node, local] : tensor<3x4xf32> to !fcdp.shard<tensor<3x4xf32>>
  // expected-error@+1 {{expected the flat result of a reduction or a gather for a late sum}}
  fcdp.accumulate %0 into @w add late : !fcdp.shard<tensor<3x4xf32>>
  return
}


// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire f32 trainable members [@w at 0]
func.func @accumulate_c4(%g: tensor<16xf32>) {
  // expected-error@+1 {{expected no stream where the sum is not late, got 'inter_reduce'}}
  fcdp.accumulate %g into @bucket add on inter_reduce : tensor<16xf32>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<4x4xf32> unit "fc" trainable names ["w"]
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire f32 trainable layout owned max_side 4 members [@w at 0]
func.func @shard_update_c2_max_side() {
  // expected-error@+1 {{expected a bucket with the 'max_side' 64 of 'soap', got 4}}
  fcdp.shard_update @bucket scale 1.0 with #fcdp.soap<lr = 0.1, beta1 = 0.9, beta2 = 0.99, shampoo_beta = 0.5, eps = 0.1, weight_decay = 0.0, precondition_frequency = 10, max_precond_dim = 64>
  return
}
