// RUN: fcdp-opt %s --split-input-file --verify-diagnostics

fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<64xf32> unit "a" trainable names ["w"]
fcdp.bucket @a unit "a" elements 64 storage f32 wire f32 trainable members [@w at 0]
fcdp.bucket @b unit "b" elements 64 storage f32 wire f32 trainable members []
// expected-error@+1 {{expected to be in host memory}}
fcdp.state @a.residual residual of @a in device : tensor<32xf32>

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<64xf32> unit "a" trainable names ["w"]
fcdp.bucket @a unit "a" elements 64 storage f32 wire f32 trainable members [@w at 0]
fcdp.bucket @b unit "b" elements 64 storage f32 wire f32 trainable members []
// expected-error@+1 {{expected type 'tensor<32xf32>', got 'tensor<16xf32>'}}
fcdp.state @a.residual residual of @a in host : tensor<16xf32>

// -----

// expected-error@+1 {{expected 'reduce_wire' to be 'raw', or 'coded', 'int8' or 'int4' in a trainable bucket whose collectives are not 'flat', got 'delta'}}
fcdp.bucket @a unit "a" elements 64 storage f32 wire f32 trainable reduce_wire delta members []

// -----

// expected-error@+1 {{in a trainable bucket whose collectives are not 'flat', got 'int8'}}
fcdp.bucket @a unit "a" elements 64 storage f32 wire f32 reduce_wire int8 members []

// -----

// expected-error@+1 {{in a trainable bucket whose collectives are not 'flat', got 'int4'}}
fcdp.bucket @a unit "a" elements 64 storage f32 wire f32 trainable collectives flat reduce_wire int4 members []

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<64xf32> unit "a" trainable names ["w"]
fcdp.bucket @a unit "a" elements 64 storage f32 wire f32 trainable members [@w at 0]
fcdp.bucket @b unit "b" elements 64 storage f32 wire f32 trainable members []
fcdp.state @a.residual residual of @a in host : tensor<32xf32>
fcdp.state @b.residual residual of @b in host : tensor<32xf32>
fcdp.state @a.grad grad of @a in device : tensor<16xf32>
func.func @delta(%s: tensor<32xf32>) {
  // expected-error@+1 {{expected 'code' to be 'coded', 'int8' or 'int4', in a reduction over 'node' alone, got 'delta'}}
  %0 = fcdp.reduce_scatter %s of @a over @world[node] code delta : tensor<32xf32> to tensor<16xf32>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<64xf32> unit "a" trainable names ["w"]
fcdp.bucket @a unit "a" elements 64 storage f32 wire f32 trainable members [@w at 0]
fcdp.bucket @b unit "b" elements 64 storage f32 wire f32 trainable members []
fcdp.state @a.residual residual of @a in host : tensor<32xf32>
fcdp.state @b.residual residual of @b in host : tensor<32xf32>
fcdp.state @a.grad grad of @a in device : tensor<16xf32>
func.func @within(%s: tensor<32xf32>) {
  // expected-error@+1 {{in a reduction over 'node' alone, got 'int8'}}
  %0 = fcdp.reduce_scatter %s of @a over @world[local] code int8 residual @a.residual : tensor<32xf32> to tensor<16xf32>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<64xf32> unit "a" trainable names ["w"]
fcdp.bucket @a unit "a" elements 64 storage f32 wire f32 trainable members [@w at 0]
fcdp.bucket @b unit "b" elements 64 storage f32 wire f32 trainable members []
fcdp.state @a.residual residual of @a in host : tensor<32xf32>
fcdp.state @b.residual residual of @b in host : tensor<32xf32>
fcdp.state @a.grad grad of @a in device : tensor<16xf32>
func.func @missing(%s: tensor<32xf32>) {
  // expected-error@+1 {{expected 'residual' with the codes 'int8' and 'int4', and no others}}
  %0 = fcdp.reduce_scatter %s of @a over @world[node] code int4 : tensor<32xf32> to tensor<16xf32>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<64xf32> unit "a" trainable names ["w"]
fcdp.bucket @a unit "a" elements 64 storage f32 wire f32 trainable members [@w at 0]
fcdp.bucket @b unit "b" elements 64 storage f32 wire f32 trainable members []
fcdp.state @a.residual residual of @a in host : tensor<32xf32>
fcdp.state @b.residual residual of @b in host : tensor<32xf32>
fcdp.state @a.grad grad of @a in device : tensor<16xf32>
func.func @needless(%s: tensor<32xf32>) {
  // expected-error@+1 {{expected 'residual' with the codes 'int8' and 'int4', and no others}}
  %0 = fcdp.reduce_scatter %s of @a over @world[node] code coded residual @a.residual : tensor<32xf32> to tensor<16xf32>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<64xf32> unit "a" trainable names ["w"]
fcdp.bucket @a unit "a" elements 64 storage f32 wire f32 trainable members [@w at 0]
fcdp.bucket @b unit "b" elements 64 storage f32 wire f32 trainable members []
fcdp.state @a.residual residual of @a in host : tensor<32xf32>
fcdp.state @b.residual residual of @b in host : tensor<32xf32>
fcdp.state @a.grad grad of @a in device : tensor<16xf32>
func.func @other(%s: tensor<32xf32>) {
  // expected-error@+1 {{expected 'residual' to be a state of role 'residual' of @a with 32 elements, got @b.residual}}
  %0 = fcdp.reduce_scatter %s of @a over @world[node] code int8 residual @b.residual : tensor<32xf32> to tensor<16xf32>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<64xf32> unit "a" trainable names ["w"]
fcdp.bucket @a unit "a" elements 64 storage f32 wire f32 trainable members [@w at 0]
fcdp.bucket @b unit "b" elements 64 storage f32 wire f32 trainable members []
fcdp.state @a.residual residual of @a in host : tensor<32xf32>
fcdp.state @b.residual residual of @b in host : tensor<32xf32>
fcdp.state @a.grad grad of @a in device : tensor<16xf32>
func.func @role(%s: tensor<32xf32>) {
  // expected-error@+1 {{expected 'residual' to be a state of role 'residual' of @a with 32 elements, got @a.grad}}
  %0 = fcdp.reduce_scatter %s of @a over @world[node] code int8 residual @a.grad : tensor<32xf32> to tensor<16xf32>
  return
}

// -----

fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<64xf32> unit "a" trainable names ["w"]
fcdp.bucket @a unit "a" elements 64 storage f32 wire f32 trainable members [@w at 0]
fcdp.bucket @b unit "b" elements 64 storage f32 wire f32 trainable members []
fcdp.state @a.residual residual of @a in host : tensor<32xf32>
fcdp.state @b.residual residual of @b in host : tensor<32xf32>
fcdp.state @a.grad grad of @a in device : tensor<16xf32>
func.func @size(%s: tensor<64xf32>) {
  // expected-error@+1 {{expected 'residual' to be a state of role 'residual' of @a with 64 elements, got @a.residual}}
  %0 = fcdp.reduce_scatter %s of @a over @world[node] code int8 residual @a.residual : tensor<64xf32> to tensor<32xf32>
  return
}
