// Each operation that moves values of the forward pass refuses what its constraints forbid.
// RUN: fcdp-opt %s --split-input-file --verify-diagnostics

func.func @store_value_c1(%x: tensor<8x4xf32>) {
  // expected-error@+1 {{expected a result of a call}}
  %s = fcdp.store_value %x : tensor<8x4xf32>
  fcdp.drop_value %x stored %s : tensor<8x4xf32>
  return
}

// -----

func.func @store_value_c1_twice(%x: tensor<8x4xf32>) {
  %y = aten.call "aten.neg.default"(self = %x) : (tensor<8x4xf32>) -> tensor<8x4xf32>
  // expected-error@+1 {{the value is stored twice}}
  %s = fcdp.store_value %y : tensor<8x4xf32>
  // expected-note@+1 {{also stored here}}
  %t = fcdp.store_value %y : tensor<8x4xf32>
  fcdp.drop_value %y stored %s : tensor<8x4xf32>
  return
}

// -----

func.func @store_value_c3_arena(%x: tensor<8x4xf32>) {
  %y = aten.call "aten.neg.default"(self = %x) : (tensor<8x4xf32>) -> tensor<8x4xf32>
  // expected-error@+1 {{expected a place of 128 bytes in the rank's part of host memory, got #fcdp.buffer}}
  %s = fcdp.store_value %y {place = #fcdp.buffer<arena = device, offset = 0, bytes = 128, local_stride = 128>} : tensor<8x4xf32>
  fcdp.drop_value %y stored %s : tensor<8x4xf32>
  return
}

// -----

func.func @store_value_c3_bytes(%x: tensor<8x4xf32>) {
  %y = aten.call "aten.neg.default"(self = %x) : (tensor<8x4xf32>) -> tensor<8x4xf32>
  // expected-error@+1 {{expected a place of 128 bytes in the rank's part of host memory, got #fcdp.buffer}}
  %s = fcdp.store_value %y {place = #fcdp.buffer<arena = host, offset = 0, bytes = 64, local_stride = 128>} : tensor<8x4xf32>
  fcdp.drop_value %y stored %s : tensor<8x4xf32>
  return
}

// -----

func.func @store_value_c3_part(%x: tensor<8x4xf32>) {
  %y = aten.call "aten.neg.default"(self = %x) : (tensor<8x4xf32>) -> tensor<8x4xf32>
  // expected-error@+1 {{expected a place of 128 bytes in the rank's part of host memory, got #fcdp.buffer}}
  %s = fcdp.store_value %y {place = #fcdp.buffer<arena = host, offset = 64, bytes = 128, local_stride = 128>} : tensor<8x4xf32>
  fcdp.drop_value %y stored %s : tensor<8x4xf32>
  return
}

// -----

func.func @store_value_c3_node(%x: tensor<8x4xf32>) {
  %y = aten.call "aten.neg.default"(self = %x) : (tensor<8x4xf32>) -> tensor<8x4xf32>
  // expected-error@+1 {{expected a place of 128 bytes in the rank's part of host memory, got #fcdp.buffer}}
  %s = fcdp.store_value %y {place = #fcdp.buffer<arena = host, offset = 0, bytes = 128, node_stride = 128, local_stride = 128>} : tensor<8x4xf32>
  fcdp.drop_value %y stored %s : tensor<8x4xf32>
  return
}

// -----

func.func @store_value_c4(%x: tensor<8x4xf32>) {
  %y = aten.call "aten.neg.default"(self = %x) : (tensor<8x4xf32>) -> tensor<8x4xf32>
  // expected-error@+1 {{expected one operation that drops the value, got 0}}
  %s = fcdp.store_value %y : tensor<8x4xf32>
  return
}

// -----

func.func @drop_value_c1(%x: tensor<8x4xf32>) {
  %y = aten.call "aten.neg.default"(self = %x) : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %z = aten.call "aten.neg.default"(self = %y) : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %s = fcdp.store_value %y : tensor<8x4xf32>
  // expected-error@+1 {{expected the result of an operation that stores the value}}
  fcdp.drop_value %z stored %s : tensor<8x4xf32>
  return
}

// -----

func.func @drop_value_c2(%x: tensor<8x4xf32>) {
  %y = aten.call "aten.neg.default"(self = %x) : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %s = fcdp.store_value %y : tensor<8x4xf32>
  // expected-error@+1 {{the value is used later}}
  fcdp.drop_value %y stored %s : tensor<8x4xf32>
  // expected-note@+1 {{used here}}
  %z = aten.call "aten.neg.default"(self = %y) : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @load_value_c1_argument(%s: !fcdp.stored<tensor<8x4xf32>>) {
  // expected-error@+1 {{expected the result of an operation that stores a value}}
  %y = fcdp.load_value %s : tensor<8x4xf32>
  return
}

// -----

func.func @load_value_c1_order(%x: tensor<8x4xf32>) {
  %y = aten.call "aten.neg.default"(self = %x) : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %s = fcdp.store_value %y : tensor<8x4xf32>
  // expected-error@+1 {{expected the value to be dropped before}}
  %z = fcdp.load_value %s : tensor<8x4xf32>
  // expected-note@+1 {{dropped here}}
  fcdp.drop_value %y stored %s : tensor<8x4xf32>
  return
}

// -----

func.func @load_value_c3(%x: tensor<8x4xf32>) {
  %y = aten.call "aten.neg.default"(self = %x) : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %s = fcdp.store_value %y : tensor<8x4xf32>
  fcdp.drop_value %y stored %s : tensor<8x4xf32>
  // expected-error@+1 {{expected a buffer of 128 bytes in device memory}}
  %z = fcdp.load_value %s {buffer = #fcdp.buffer<arena = host, offset = 0, bytes = 128>} : tensor<8x4xf32>
  return
}

// -----

// expected-error@+1 {{expected a static tensor whose bytes are known, got 'tensor<?xf32>'}}
func.func private @stored_c1(!fcdp.stored<tensor<?xf32>>)

// -----

func.func @on_host_range(%x: tensor<8x4xf32>) {
  // expected-error@+1 {{attribute 'fcdp.on_host' must be numbers of a call's results, in order}}
  %y = aten.call "aten.neg.default"(self = %x) {fcdp.on_host = array<i64: 1>} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @on_host_order(%x: tensor<8x4xf32>) {
  // expected-error@+1 {{attribute 'fcdp.on_host' must be numbers of a call's results, in order}}
  %y = aten.call "aten.neg.default"(self = %x) {fcdp.on_host = array<i64: 0, 0>} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return
}

// -----

// expected-error@+1 {{attribute 'fcdp.activations' must be a string on a module}}
module attributes {fcdp.activations = 1} {}
