// RUN: fcdp-opt %s --split-input-file --verify-diagnostics

// One case for each constraint, named for it.

// mesh_c1_node
// expected-error@+1 {{attribute 'node' failed to satisfy constraint: 64-bit signless integer attribute whose value is positive}}
fcdp.mesh @world(node = 0, local = 2)

// -----

// mesh_c1_local
// expected-error@+1 {{attribute 'local' failed to satisfy constraint: 64-bit signless integer attribute whose value is positive}}
fcdp.mesh @world(node = 1, local = -2)

// -----

// mesh_c2
// expected-error@+1 {{expected at most 2147483647 ranks, got 65536 times 32768}}
fcdp.mesh @world(node = 65536, local = 32768)

// -----

// mesh_c2_overflow
// expected-error@+1 {{expected at most 2147483647 ranks, got 4294967296 times 4294967296}}
fcdp.mesh @world(node = 4294967296, local = 4294967296)

// -----

// mesh_c3
// expected-note@+1 {{the other is here}}
fcdp.mesh @world(node = 2, local = 2)
// expected-error@+1 {{expected one mesh in the module}}
fcdp.mesh @again(node = 2, local = 2)

// -----

func.func @mesh_in_function() {
  // expected-error@+1 {{'fcdp.mesh' op expects parent op 'builtin.module'}}
  fcdp.mesh @a(node = 1, local = 1)
  return
}

// -----

func.func @parameter_in_function() {
  // expected-error@+1 {{'fcdp.parameter' op expects parent op 'builtin.module'}}
  fcdp.parameter @a : tensor<f32> unit "" names ["a"]
  return
}

// -----

func.func @buffer_in_function() {
  // expected-error@+1 {{'fcdp.buffer' op expects parent op 'builtin.module'}}
  fcdp.buffer @a : tensor<f32> name "a"
  return
}

// -----

func.func @input_in_function() {
  // expected-error@+1 {{'fcdp.input' op expects parent op 'builtin.module'}}
  fcdp.input @a : tensor<f32> name "a"
  return
}

// -----

func.func @bucket_in_function() {
  // expected-error@+1 {{'fcdp.bucket' op expects parent op 'builtin.module'}}
  fcdp.bucket @a unit "" elements 0 storage f32 wire f32 members []
  return
}

// -----

func.func @state_in_function() {
  // expected-error@+1 {{'fcdp.state' op expects parent op 'builtin.module'}}
  fcdp.state @a shard of @b in device : tensor<0xf32>
  return
}

// -----

// parameter_c1_dynamic
// expected-error@+1 {{expected a static shape, got 'tensor<?xf32>'}}
fcdp.parameter @a : tensor<?xf32> unit "" names ["a"]

// -----

// parameter_c1_integer
// expected-error@+1 {{expected elements of a floating-point type, got 'tensor<4xi64>'}}
fcdp.parameter @a : tensor<4xi64> unit "" names ["a"]

// -----

// parameter_c4_type
// expected-error@+1 {{expected 'tensor<44xui8>' for #fcdp.packed<packing = nf4, whole = tensor<2x33xf32>>, got 'tensor<40xui8>'}}
fcdp.parameter @a : tensor<40xui8> unit "" names ["a"] packed <packing = nf4, whole = tensor<2x33xf32>>

// -----

// parameter_c4_trainable
// expected-error@+1 {{expected a packed parameter to be frozen}}
fcdp.parameter @a : tensor<12xui8> unit "" trainable names ["a"] packed <packing = int8, whole = tensor<1x8xf32>>

// -----

// parameter_c1_complex
// expected-error@+1 {{expected elements of a floating-point type, got 'tensor<4xcomplex<f32>>'}}
fcdp.parameter @a : tensor<4xcomplex<f32>> unit "" names ["a"]

// -----

// parameter_c1_index
// expected-error@+1 {{expected elements of a number type, got 'tensor<4xindex>'}}
fcdp.parameter @a : tensor<4xindex> unit "" names ["a"]

// -----

// parameter_c1_vector
// expected-error@+1 {{expected elements of a number type, got 'tensor<4xvector<2xf32>>'}}
fcdp.parameter @a : tensor<4xvector<2xf32>> unit "" names ["a"]

// -----

// parameter_c1_huge
// expected-error@+1 {{expected fewer than 2^63 bytes, got}}
fcdp.parameter @a : tensor<4294967296x4294967296xf32> unit "" names ["a"]

// -----

// parameter_c1_unranked
// expected-error@+1 {{op attribute 'type' failed to satisfy constraint}}
fcdp.parameter @a : tensor<*xf32> unit "" names ["a"]

// -----

// parameter_c1_scalar
// expected-error@+1 {{op attribute 'type' failed to satisfy constraint}}
fcdp.parameter @a : f32 unit "" names ["a"]

// -----

// parameter_c2
// expected-error@+1 {{expected at least one name}}
fcdp.parameter @a : tensor<f32> unit "" names []

// -----

// parameter_c3
// expected-error@+1 {{expected no group, as it is not trainable}}
fcdp.parameter @a : tensor<f32> unit "" names ["a"] group <lr = 1.0, weight_decay = 0.0>

// -----

// parameter_names_of_another_kind
// expected-error@+1 {{attribute 'names' failed to satisfy constraint: string array attribute}}
fcdp.parameter @a : tensor<f32> unit "" names [1]

// -----

// parameter_twice
// expected-note@+1 {{see existing symbol definition here}}
fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
// expected-error@+1 {{redefinition of symbol named 'w'}}
fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]

// -----

// buffer_c1_dynamic
// expected-error@+1 {{expected a static shape, got 'tensor<?xf32>'}}
fcdp.buffer @a : tensor<?xf32> name "a"

// -----

// buffer_c1_index
// expected-error@+1 {{expected elements of a number type, got 'tensor<4xindex>'}}
fcdp.buffer @a : tensor<4xindex> name "a"

// -----

// buffer_c1_huge
// expected-error@+1 {{expected fewer than 2^63 bytes, got}}
fcdp.buffer @a : tensor<9223372036854775807xi64> name "a"

// -----

// buffer_c2_zero
// expected-error@+1 {{expected a positive variant, of a constant of a step}}
fcdp.buffer @a : tensor<4xf32> name "a" variant 0

// -----

// buffer_c2_persistent
// expected-error@+1 {{expected a positive variant, of a constant of a step}}
fcdp.buffer @a : tensor<4xf32> name "a" persistent variant 1

// -----

// buffer_c2_evaluation
// expected-error@+1 {{expected a positive variant, of a constant of a step}}
fcdp.buffer @a : tensor<4xf32> name "a" evaluation variant 1

// -----

// input_c1_dynamic
// expected-error@+1 {{expected a static shape, got 'tensor<?xi64>'}}
fcdp.input @a : tensor<?xi64> name "a"

// -----

// input_c1_zero_times_huge
// expected-error@+1 {{expected fewer than 2^63 bytes, got}}
fcdp.input @a : tensor<0x4294967296x4294967296xi64> name "a"

// -----

// input_c2_zero
// expected-error@+1 {{expected a positive limit on an integer input, got 0 on 'tensor<4xi64>'}}
fcdp.input @a : tensor<4xi64> name "a" limit 0

// -----

// input_c2_float
// expected-error@+1 {{expected a positive limit on an integer input, got 65 on 'tensor<4xf32>'}}
fcdp.input @a : tensor<4xf32> name "a" limit 65

// -----

// input_c2_ignore
// expected-error@+1 {{'ignore' needs 'limit'}}
fcdp.input @a : tensor<4xi64> name "a" ignore -100

// -----

// input_c3_zero
// expected-error@+1 {{expected a positive variant, of an input of a step}}
fcdp.input @a : tensor<4xi64> name "a" variant 0

// -----

// input_c3_evaluation
// expected-error@+1 {{expected a positive variant, of an input of a step}}
fcdp.input @a : tensor<4xi64> name "a" evaluation variant 1

// -----

// bucket_c1_missing
fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.parameter @frozen : tensor<8xf32> unit "fc" names ["frozen"]
fcdp.parameter @more : tensor<32xf32> unit "fc" trainable names ["more"]
// expected-error@+1 {{member @no is not a parameter}}
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire f32 trainable members [@no at 0]

// -----

// bucket_c1_mesh
fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.parameter @frozen : tensor<8xf32> unit "fc" names ["frozen"]
fcdp.parameter @more : tensor<32xf32> unit "fc" trainable names ["more"]
// expected-error@+1 {{member @world is not a parameter}}
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire f32 trainable members [@world at 0]

// -----

// bucket_c1_trainable
fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.parameter @frozen : tensor<8xf32> unit "fc" names ["frozen"]
fcdp.parameter @more : tensor<32xf32> unit "fc" trainable names ["more"]
// expected-error@+1 {{member @frozen differs in trainability}}
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire f32 trainable members [@frozen at 0]

// -----

// bucket_c1_storage
fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.parameter @frozen : tensor<8xf32> unit "fc" names ["frozen"]
fcdp.parameter @more : tensor<32xf32> unit "fc" trainable names ["more"]
// expected-error@+1 {{member @w has type 'f32', expected the storage type 'bf16'}}
fcdp.bucket @bucket unit "fc" elements 64 storage bf16 wire bf16 trainable members [@w at 0]

// -----

// bucket_c2_overlap
fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.parameter @frozen : tensor<8xf32> unit "fc" names ["frozen"]
fcdp.parameter @more : tensor<32xf32> unit "fc" trainable names ["more"]
// expected-error@+1 {{member @w starts at 16, before the end of the one before, 32}}
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire f32 trainable members [@more at 0, @w at 16]

// -----

// bucket_c2_order
fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.parameter @frozen : tensor<8xf32> unit "fc" names ["frozen"]
fcdp.parameter @more : tensor<32xf32> unit "fc" trainable names ["more"]
// expected-error@+1 {{member @w starts at 0, before the end of the one before, 64}}
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire f32 trainable members [@more at 32, @w at 0]

// -----

// bucket_c2_negative
fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.parameter @frozen : tensor<8xf32> unit "fc" names ["frozen"]
fcdp.parameter @more : tensor<32xf32> unit "fc" trainable names ["more"]
// expected-error@+1 {{expected an offset from 0 on, got -16}}
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire f32 trainable members [@w at -16]

// -----

// bucket_c2_twice
fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.parameter @frozen : tensor<8xf32> unit "fc" names ["frozen"]
fcdp.parameter @more : tensor<32xf32> unit "fc" trainable names ["more"]
// expected-error@+1 {{member @w is given twice}}
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire f32 trainable members [@w at 0, @w at 32]

// -----

// bucket_c2_end
fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.parameter @frozen : tensor<8xf32> unit "fc" names ["frozen"]
fcdp.parameter @more : tensor<32xf32> unit "fc" trainable names ["more"]
// expected-error@+1 {{member @more of 32 elements at 48 ends after 64}}
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire f32 trainable members [@w at 0, @more at 48]

// -----

// bucket_c2_far
fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.parameter @frozen : tensor<8xf32> unit "fc" names ["frozen"]
fcdp.parameter @more : tensor<32xf32> unit "fc" trainable names ["more"]
// expected-error@+1 {{member @w of 12 elements at 9223372036854775792 ends after 64}}
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire f32 trainable members [@w at 9223372036854775792]

// -----

// bucket_c2_larger
fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.parameter @frozen : tensor<8xf32> unit "fc" names ["frozen"]
fcdp.parameter @more : tensor<32xf32> unit "fc" trainable names ["more"]
// expected-error@+1 {{member @more of 32 elements at 0 ends after 16}}
fcdp.bucket @bucket unit "fc" elements 16 storage f32 wire f32 trainable members [@more at 0]

// -----

// bucket_c3
fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.parameter @frozen : tensor<8xf32> unit "fc" names ["frozen"]
fcdp.parameter @more : tensor<32xf32> unit "fc" trainable names ["more"]
// expected-error@+1 {{member @w starts at element 8, not at a multiple of 64 bytes}}
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire f32 trainable members [@w at 8]

// -----

// bucket_c3_wire
fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.parameter @frozen : tensor<8xf32> unit "fc" names ["frozen"]
fcdp.parameter @more : tensor<32xf32> unit "fc" trainable names ["more"]
// expected-error@+1 {{member @more starts at element 16, not at a multiple of 64 bytes}}
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire bf16 trainable members [@w at 0, @more at 16]

// -----

// bucket_c4
fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.parameter @frozen : tensor<8xf32> unit "fc" names ["frozen"]
fcdp.parameter @more : tensor<32xf32> unit "fc" trainable names ["more"]
// expected-error@+1 {{expected elements to be a multiple of 4 ranks, got 62}}
fcdp.bucket @bucket unit "fc" elements 62 storage f32 wire f32 trainable members [@w at 0]

// -----

// bucket_c5_wider
fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.parameter @frozen : tensor<8xf32> unit "fc" names ["frozen"]
fcdp.parameter @more : tensor<32xf32> unit "fc" trainable names ["more"]
// expected-error@+1 {{expected a wire type no wider than 'bf16', got 'f32'}}
fcdp.bucket @bucket unit "fc" elements 0 storage bf16 wire f32 trainable members []

// -----

// bucket_c5_packed
fcdp.mesh @world(node = 2, local = 2)
// expected-error@+1 {{expected floating-point types, got 'ui8' and 'ui8'}}
fcdp.bucket @bucket unit "fc" elements 0 storage ui8 wire ui8 trainable members []

// -----

// bucket_c5_storage
fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.parameter @frozen : tensor<8xf32> unit "fc" names ["frozen"]
fcdp.parameter @more : tensor<32xf32> unit "fc" trainable names ["more"]
// expected-error@+1 {{expected floating-point types, got 'i32' and 'f32'}}
fcdp.bucket @bucket unit "fc" elements 0 storage i32 wire f32 trainable members []

// -----

// bucket_c5_wire
fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.parameter @frozen : tensor<8xf32> unit "fc" names ["frozen"]
fcdp.parameter @more : tensor<32xf32> unit "fc" trainable names ["more"]
// expected-error@+1 {{expected floating-point types, got 'f32' and '() -> ()'}}
fcdp.bucket @bucket unit "fc" elements 0 storage f32 wire () -> () trainable members []

// -----

// bucket_c6
fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.parameter @frozen : tensor<8xf32> unit "fc" names ["frozen"]
fcdp.parameter @more : tensor<32xf32> unit "fc" trainable names ["more"]
// expected-error@+1 {{expected fewer than 2^63 bytes, got 4611686018427387904 elements of 4 bytes}}
fcdp.bucket @bucket unit "fc" elements 4611686018427387904 storage f32 wire f32 trainable members []

// -----

// bucket_c6_accumulator
fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.parameter @frozen : tensor<8xf32> unit "fc" names ["frozen"]
fcdp.parameter @more : tensor<32xf32> unit "fc" trainable names ["more"]
// expected-error@+1 {{expected fewer than 2^63 bytes, got 2305843009213693952 elements of 4 bytes}}
fcdp.bucket @bucket unit "fc" elements 2305843009213693952 storage bf16 wire bf16 trainable members []

// -----

// bucket_elements
fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.parameter @frozen : tensor<8xf32> unit "fc" names ["frozen"]
fcdp.parameter @more : tensor<32xf32> unit "fc" trainable names ["more"]
// expected-error@+1 {{attribute 'elements' failed to satisfy constraint: 64-bit signless integer attribute whose value is non-negative}}
fcdp.bucket @bucket unit "fc" elements -4 storage f32 wire f32 trainable members []

// -----

// bucket_without_mesh
fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
// expected-error@+1 {{expected a mesh in the module}}
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire f32 trainable members [@w at 0]

// -----

// bucket_members_of_another_kind
fcdp.mesh @world(node = 2, local = 2)
// expected-error@+1 {{attribute 'members' failed to satisfy constraint: members}}
"fcdp.bucket"() <{sym_name = "b", unit = "", elements = 0 : i64, storage = f32, wire = f32, members = [1]}> : () -> ()

// -----

// state_c1_missing
fcdp.mesh @world(node = 2, local = 2)
// expected-error@+1 {{expected a bucket, got @bucket}}
fcdp.state @s shard of @bucket in device : tensor<16xf32>

// -----

// state_c1_mesh
fcdp.mesh @world(node = 2, local = 2)
// expected-error@+1 {{expected a bucket, got @world}}
fcdp.state @s shard of @world in device : tensor<16xf32>

// -----

// state_c1_twice
module attributes {fcdp.phase = #fcdp.phase<sharded>} {
fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.parameter @more : tensor<32xf32> unit "fc" trainable names ["more"]
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire bf16 trainable members [@w at 0, @more at 32]
// expected-note@+1 {{the other is here}}
fcdp.state @a shard of @bucket in device : tensor<16xf32>
// expected-error@+1 {{expected one state 'shard' of @bucket}}
fcdp.state @b shard of @bucket in device : tensor<16xf32>
}

// -----

// state_c1_unfinished: the module's phase is verified before its states are.
module attributes {fcdp.phase = #fcdp.phase<sharded>} {
// expected-error@+1 {{requires attribute 'arena'}}
"fcdp.state"() <{sym_name = "a"}> : () -> ()
}

// -----

// state_c2_cache
fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.parameter @more : tensor<32xf32> unit "fc" trainable names ["more"]
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire bf16 trainable members [@w at 0, @more at 32]
// expected-error@+1 {{expected to be in host memory}}
fcdp.state @s cache of @bucket in device : tensor<32xbf16>

// -----

// state_c2_shard
fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.parameter @more : tensor<32xf32> unit "fc" trainable names ["more"]
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire bf16 trainable members [@w at 0, @more at 32]
// expected-error@+1 {{expected to be in device memory}}
fcdp.state @s shard of @bucket in host : tensor<16xf32>

// -----

// state_c2_rank
fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.parameter @more : tensor<32xf32> unit "fc" trainable names ["more"]
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire bf16 trainable members [@w at 0, @more at 32]
// expected-error@+1 {{failed to satisfy constraint}}
fcdp.state @s shard of @bucket in device : tensor<4x4xf32>

// -----

// state_c3_shard
fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.parameter @more : tensor<32xf32> unit "fc" trainable names ["more"]
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire bf16 trainable members [@w at 0, @more at 32]
// expected-error@+1 {{expected type 'tensor<16xf32>', got 'tensor<32xf32>'}}
fcdp.state @s shard of @bucket in device : tensor<32xf32>

// -----

// state_c3_storage
fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.parameter @more : tensor<32xf32> unit "fc" trainable names ["more"]
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire bf16 trainable members [@w at 0, @more at 32]
// expected-error@+1 {{expected type 'tensor<16xf32>', got 'tensor<16xbf16>'}}
fcdp.state @s exp_avg of @bucket in device : tensor<16xbf16>

// -----

// state_c3_grad
fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.parameter @more : tensor<32xf32> unit "fc" trainable names ["more"]
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire bf16 trainable members [@w at 0, @more at 32]
// expected-error@+1 {{expected type 'tensor<16xf32>', got 'tensor<16xbf16>'}}
fcdp.state @s grad of @bucket in device : tensor<16xbf16>

// -----

// state_c3_cache
fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.parameter @more : tensor<32xf32> unit "fc" trainable names ["more"]
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire bf16 trainable members [@w at 0, @more at 32]
// expected-error@+1 {{expected type 'tensor<32xbf16>', got 'tensor<16xbf16>'}}
fcdp.state @s cache of @bucket in host : tensor<16xbf16>

// -----

// state_c3_cache_wire
fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.parameter @more : tensor<32xf32> unit "fc" trainable names ["more"]
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire bf16 trainable members [@w at 0, @more at 32]
// expected-error@+1 {{expected type 'tensor<32xbf16>', got 'tensor<32xf32>'}}
fcdp.state @s cache of @bucket in host : tensor<32xf32>

// -----

// state_c4_bytes
fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.parameter @more : tensor<32xf32> unit "fc" trainable names ["more"]
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire bf16 trainable members [@w at 0, @more at 32]
// expected-error@+1 {{expected a buffer of 64 bytes in its arena, got}}
fcdp.state @s shard of @bucket in device : tensor<16xf32> at <arena = device, offset = 0, bytes = 32>

// -----

// state_c4_arena
fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.parameter @more : tensor<32xf32> unit "fc" trainable names ["more"]
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire bf16 trainable members [@w at 0, @more at 32]
// expected-error@+1 {{expected a buffer of 64 bytes in its arena, got}}
fcdp.state @s shard of @bucket in device : tensor<16xf32> at <arena = host, offset = 0, bytes = 64>

// -----

// state_without_mesh
// expected-error@+1 {{expected a mesh in the module}}
fcdp.state @s shard of @bucket in device : tensor<16xf32>
fcdp.bucket @bucket unit "" elements 0 storage f32 wire f32 members []

// -----

// expected-error@+2 {{a frozen bucket has no gradients to accumulate}}
fcdp.mesh @world(node = 2, local = 2)
fcdp.bucket @bucket_c7 unit "fc" elements 64 storage f32 wire f32 accumulation full members []

// -----

// bucket_c8_ragged
fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<4x12xf32> unit "fc" names ["w"]
fcdp.bucket @by_rows unit "fc" elements 96 storage f32 wire f32 layout ragged<2> members [@w at 0]
// expected-error@+1 {{the shard at 16 begins inside a block of 12 elements of member @w at 0}}
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire f32 layout ragged<1> members [@w at 0]

// -----

// bucket_c8_second: the first shard that begins inside begins with a block.
fcdp.mesh @world(node = 4, local = 1)
fcdp.parameter @w : tensor<8x12xf32> unit "fc" names ["w"]
// expected-error@+1 {{the shard at 80 begins inside a block of 24 elements of member @w at 16}}
fcdp.bucket @bucket unit "fc" elements 160 storage f32 wire f32 layout ragged<2> members [@w at 16]

// -----

// bucket_c8_owned: vectors are cut anywhere, matrices are not, nor those of a stack.
fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @bias : tensor<20xf32> unit "fc" names ["bias"]
fcdp.parameter @w : tensor<2x4x4xf32> unit "fc" names ["w"]
fcdp.parameter @conv : tensor<2x4x4x1xf32> unit "fc" names ["conv"]
fcdp.bucket @good unit "fc" elements 64 storage f32 wire f32 layout owned members [@bias at 0, @w at 32]
// expected-error@+1 {{the shard at 48 begins inside a block of 32 elements of member @conv at 32}}
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire f32 layout owned members [@bias at 0, @conv at 32]

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire bf16 trainable members []
// expected-error@+1 {{expected type 'tensor<32xbf16>', got 'tensor<16xbf16>'}}
fcdp.state @state_c3_resident resident of @bucket in device : tensor<16xbf16>

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire bf16 trainable members []
// expected-error@+1 {{expected type 'tensor<32xf32>', got 'tensor<32xbf16>'}}
fcdp.state @state_c3_node_grad node_grad of @bucket in device : tensor<32xbf16>

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire bf16 trainable members []
// expected-error@+1 {{expected type 'tensor<64xf32>', got 'tensor<32xf32>'}}
fcdp.state @state_c3_full_grad full_grad of @bucket in device : tensor<32xf32>

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire bf16 trainable members []
// expected-error@+1 {{expected type 'tensor<64xbf16>', got 'tensor<32xbf16>'}}
fcdp.state @state_c3_prefetched prefetched of @bucket in device : tensor<32xbf16>

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire bf16 trainable members []
// expected-error@+1 {{expected to be in device memory}}
fcdp.state @state_c2_resident resident of @bucket in host : tensor<64xbf16>

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire bf16 trainable members []
// expected-error@+1 {{expected to be in host memory}}
fcdp.state @state_c2_host_grad host_grad of @bucket in device : tensor<32xf32>

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire bf16 trainable members []
// expected-error@+1 {{expected type 'tensor<32xf32>', got 'tensor<32xbf16>'}}
fcdp.state @state_c3_host_grad host_grad of @bucket in host : tensor<32xbf16>

// -----

fcdp.mesh @world(node = 2, local = 2)
// expected-error@+1 {{expected 'residency' to be 'full' or 'drop' with sharding 'node', got 'host'}}
fcdp.bucket @bucket_c8_host unit "fc" elements 64 storage f32 wire f32 sharding node residency host members []

// -----

fcdp.mesh @world(node = 2, local = 2)
// expected-error@+1 {{expected 'carry' to be 'full' or 'drop' with sharding 'node', got 'node'}}
fcdp.bucket @bucket_c8_carry unit "fc" elements 64 storage f32 wire f32 sharding node carry node members []

// -----

fcdp.mesh @world(node = 2, local = 2)
// expected-error@+1 {{expected 'residency' to be 'full' with sharding 'none', got 'drop'}}
fcdp.bucket @bucket_c8_none unit "fc" elements 64 storage f32 wire f32 sharding none residency drop members []

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire f32 sharding node members []
// expected-error@+1 {{expected type 'tensor<32xf32>', got 'tensor<16xf32>'}}
fcdp.state @state_c3_slice shard of @bucket in device : tensor<16xf32>

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.bucket @bucket unit "fc" elements 64 storage f32 wire f32 trainable sharding none members []
// expected-error@+1 {{expected type 'tensor<64xf32>', got 'tensor<32xf32>'}}
fcdp.state @state_c3_whole grad of @bucket in device : tensor<32xf32>

// -----

fcdp.mesh @world(node = 2, local = 2)
// expected-error@+2 {{expected ::fcdp::Collectives to be one of: two_level, flat}}
// expected-error@+1 {{failed to parse}}
fcdp.bucket @bucket_collectives unit "fc" elements 64 storage f32 wire f32 collectives ring members []

// -----

// bucket_c10_type
fcdp.mesh @world(node = 2, local = 2)
// expected-error@+1 {{expected a 'master' type of f32 in a trainable bucket with a narrower storage type, got 'f64' beside 'bf16'}}
fcdp.bucket @bucket unit "fc" elements 0 storage bf16 wire bf16 master f64 trainable members []

// -----

// bucket_c10_storage
fcdp.mesh @world(node = 2, local = 2)
// expected-error@+1 {{expected a 'master' type of f32 in a trainable bucket with a narrower storage type, got 'f32' beside 'f32'}}
fcdp.bucket @bucket unit "fc" elements 0 storage f32 wire bf16 master f32 trainable members []

// -----

// bucket_c10_frozen
fcdp.mesh @world(node = 2, local = 2)
// expected-error@+1 {{expected a 'master' type of f32 in a trainable bucket with a narrower storage type, got 'f32' beside 'f16'}}
fcdp.bucket @bucket unit "fc" elements 0 storage f16 wire f16 master f32 members []

// -----

// state_c3_master
fcdp.mesh @world(node = 2, local = 2)
fcdp.bucket @bucket unit "fc" elements 64 storage bf16 wire bf16 master f32 trainable members []
// expected-error@+1 {{expected type 'tensor<16xf32>', got 'tensor<16xbf16>'}}
fcdp.state @s master of @bucket in device : tensor<16xbf16>

// -----

// state_c3_moment
fcdp.mesh @world(node = 2, local = 2)
fcdp.bucket @bucket unit "fc" elements 64 storage bf16 wire bf16 master f32 trainable members []
// expected-error@+1 {{expected type 'tensor<16xf32>', got 'tensor<16xbf16>'}}
fcdp.state @s exp_avg of @bucket in device : tensor<16xbf16>

// -----

// state_c5
fcdp.mesh @world(node = 2, local = 2)
fcdp.bucket @bucket unit "fc" elements 64 storage bf16 wire bf16 trainable members []
// expected-error@+1 {{expected a bucket with a 'master' type, got @bucket}}
fcdp.state @s master of @bucket in device : tensor<16xf32>

// -----

// bucket_c12_member
fcdp.mesh @world(node = 2, local = 1)
fcdp.parameter @w : tensor<256xf32> unit "fc" names ["w"]
// expected-error@+1 {{member @w starts at element 64, not at a multiple of 256}}
fcdp.bucket @bucket unit "fc" elements 1024 storage f32 wire f32 layout blocks<256> members [@w at 64]

// -----

// bucket_c12_shard
fcdp.mesh @world(node = 2, local = 1)
fcdp.parameter @w : tensor<256xf32> unit "fc" names ["w"]
// expected-error@+1 {{expected shards of a multiple of 256 elements, got 384}}
fcdp.bucket @bucket unit "fc" elements 768 storage f32 wire f32 layout blocks<256> members [@w at 0]

// -----

// bucket_c13_type
fcdp.mesh @world(node = 2, local = 2)
// expected-error@+1 {{expected 'gather_wire' to be 'raw', or 'delta' in a trainable bucket of wire type bf16 or f16 with residency or carry 'host', got 'delta'}}
fcdp.bucket @bucket unit "fc" elements 0 storage f32 wire f32 trainable residency host gather_wire delta members []

// -----

// bucket_c13_frozen
fcdp.mesh @world(node = 2, local = 2)
// expected-error@+1 {{expected 'gather_wire' to be 'raw', or 'delta' in a trainable bucket of wire type bf16 or f16 with residency or carry 'host', got 'delta'}}
fcdp.bucket @bucket unit "fc" elements 0 storage bf16 wire bf16 residency host gather_wire delta members []

// -----

// bucket_c13_residency
fcdp.mesh @world(node = 2, local = 2)
// expected-error@+1 {{expected 'gather_wire' to be 'raw', or 'delta' in a trainable bucket of wire type bf16 or f16 with residency or carry 'host', got 'delta'}}
fcdp.bucket @bucket unit "fc" elements 0 storage bf16 wire bf16 trainable residency drop gather_wire delta members []

// -----

// bucket_c13_wire
fcdp.mesh @world(node = 2, local = 2)
// expected-error@+1 {{expected 'gather_wire' to be 'raw', or 'delta' in a trainable bucket of wire type bf16 or f16 with residency or carry 'host', got 'coded'}}
fcdp.bucket @bucket unit "fc" elements 0 storage bf16 wire bf16 trainable residency host gather_wire coded members []

// -----

// bucket_c14_frozen
fcdp.mesh @world(node = 2, local = 2)
// expected-error@+1 {{expected 'reduce_wire' to be 'raw', or 'coded', 'int8' or 'int4' in a trainable bucket whose collectives are not 'flat', got 'coded'}}
fcdp.bucket @bucket unit "fc" elements 0 storage bf16 wire bf16 residency host reduce_wire coded members []

// -----

// bucket_c14_flat
fcdp.mesh @world(node = 2, local = 2)
// expected-error@+1 {{expected 'reduce_wire' to be 'raw', or 'coded', 'int8' or 'int4' in a trainable bucket whose collectives are not 'flat', got 'coded'}}
fcdp.bucket @bucket unit "fc" elements 0 storage bf16 wire bf16 trainable residency drop collectives flat reduce_wire coded members []

// -----

// bucket_c14_wire
fcdp.mesh @world(node = 2, local = 2)
// expected-error@+1 {{expected 'reduce_wire' to be 'raw', or 'coded', 'int8' or 'int4' in a trainable bucket whose collectives are not 'flat', got 'delta'}}
fcdp.bucket @bucket unit "fc" elements 0 storage bf16 wire bf16 trainable residency host reduce_wire delta members []

// -----

// bucket_c11_type
fcdp.mesh @world(node = 2, local = 2)
// expected-error@+1 {{expected a 'reduce' type of f32, bf16 or f16 in a trainable bucket, got 'f64'}}
fcdp.bucket @bucket unit "fc" elements 0 storage bf16 wire bf16 reduce f64 trainable members []

// -----

// bucket_c11_frozen
fcdp.mesh @world(node = 2, local = 2)
// expected-error@+1 {{expected a 'reduce' type of f32, bf16 or f16 in a trainable bucket, got 'f32'}}
fcdp.bucket @bucket unit "fc" elements 0 storage bf16 wire bf16 reduce f32 members []

// -----

// bucket_c16_negative
fcdp.mesh @world(node = 2, local = 2)
// expected-error@+1 {{expected 'max_side' from 0 to 1000000 in a trainable bucket, got -1}}
fcdp.bucket @bucket unit "fc" elements 0 storage f32 wire f32 trainable max_side -1 members []

// -----

// bucket_c16_long
fcdp.mesh @world(node = 2, local = 2)
// expected-error@+1 {{expected 'max_side' from 0 to 1000000 in a trainable bucket, got 1000001}}
fcdp.bucket @bucket unit "fc" elements 0 storage f32 wire f32 trainable max_side 1000001 members []

// -----

// bucket_c16_frozen
fcdp.mesh @world(node = 2, local = 2)
// expected-error@+1 {{expected 'max_side' from 0 to 1000000 in a trainable bucket, got 4}}
fcdp.bucket @bucket unit "fc" elements 0 storage f32 wire f32 max_side 4 members []
