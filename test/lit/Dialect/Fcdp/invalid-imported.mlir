// RUN: fcdp-opt %s --split-input-file --verify-diagnostics

// One case for each constraint, named for it.

fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.parameter @frozen : tensor<8xf32> unit "fc" names ["frozen"]
fcdp.buffer @mean : tensor<8xf32> name "mean" persistent mutable
fcdp.buffer @mask : tensor<8xi1> name "mask"
fcdp.input @ids : tensor<4x8xi64> name "ids" limit 65
func.func @read_parameter_c1_missing() {
  // expected-error@+1 {{expected a parameter, got @no}}
  %0 = fcdp.read_parameter @no : tensor<3x4xf32>
  return
}

// -----

fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.parameter @frozen : tensor<8xf32> unit "fc" names ["frozen"]
fcdp.buffer @mean : tensor<8xf32> name "mean" persistent mutable
fcdp.buffer @mask : tensor<8xi1> name "mask"
fcdp.input @ids : tensor<4x8xi64> name "ids" limit 65
func.func @read_parameter_c1_buffer() {
  // expected-error@+1 {{expected a parameter, got @mean}}
  %0 = fcdp.read_parameter @mean : tensor<8xf32>
  return
}

// -----

// expected-note@+1 {{declared here}}
fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.parameter @frozen : tensor<8xf32> unit "fc" names ["frozen"]
fcdp.buffer @mean : tensor<8xf32> name "mean" persistent mutable
fcdp.buffer @mask : tensor<8xi1> name "mask"
fcdp.input @ids : tensor<4x8xi64> name "ids" limit 65
func.func @read_parameter_c1_type() {
  // expected-error@+1 {{expected result type 'tensor<3x4xf32>', got 'tensor<4x3xf32>'}}
  %0 = fcdp.read_parameter @w : tensor<4x3xf32>
  return
}

// -----

fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.parameter @frozen : tensor<8xf32> unit "fc" names ["frozen"]
// expected-note@+1 {{declared here}}
fcdp.buffer @mean : tensor<8xf32> name "mean" persistent mutable
fcdp.buffer @mask : tensor<8xi1> name "mask"
fcdp.input @ids : tensor<4x8xi64> name "ids" limit 65
func.func @read_buffer_c1_type() {
  // expected-error@+1 {{expected result type 'tensor<8xf32>', got 'tensor<8xbf16>'}}
  %0 = fcdp.read_buffer @mean : tensor<8xbf16>
  return
}

// -----

fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.parameter @frozen : tensor<8xf32> unit "fc" names ["frozen"]
fcdp.buffer @mean : tensor<8xf32> name "mean" persistent mutable
fcdp.buffer @mask : tensor<8xi1> name "mask"
// expected-note@+1 {{declared here}}
fcdp.input @ids : tensor<4x8xi64> name "ids" limit 65
func.func @read_input_c1_type() {
  // expected-error@+1 {{expected result type 'tensor<4x8xi64>', got 'tensor<4x8xi32>'}}
  %0 = fcdp.read_input @ids : tensor<4x8xi32>
  return
}

// -----

fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.parameter @frozen : tensor<8xf32> unit "fc" names ["frozen"]
fcdp.buffer @mean : tensor<8xf32> name "mean" persistent mutable
fcdp.buffer @mask : tensor<8xi1> name "mask"
fcdp.input @ids : tensor<4x8xi64> name "ids" limit 65
func.func @read_buffer_c1_parameter() {
  // expected-error@+1 {{expected a buffer, got @w}}
  %0 = fcdp.read_buffer @w : tensor<3x4xf32>
  return
}

// -----

fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.parameter @frozen : tensor<8xf32> unit "fc" names ["frozen"]
fcdp.buffer @mean : tensor<8xf32> name "mean" persistent mutable
fcdp.buffer @mask : tensor<8xi1> name "mask"
fcdp.input @ids : tensor<4x8xi64> name "ids" limit 65
func.func @read_input_c1_function() {
  // expected-error@+1 {{expected an input, got @read_input_c1_function}}
  %0 = fcdp.read_input @read_input_c1_function : tensor<4x8xi64>
  return
}

// -----

fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.parameter @frozen : tensor<8xf32> unit "fc" names ["frozen"]
fcdp.buffer @mean : tensor<8xf32> name "mean" persistent mutable
fcdp.buffer @mask : tensor<8xi1> name "mask"
fcdp.input @ids : tensor<4x8xi64> name "ids" limit 65
func.func @read_input_nested_symbol() {
  // expected-error@+1 {{invalid kind of attribute specified}}
  %0 = fcdp.read_input @a::@b : tensor<4x8xi64>
  return
}

// -----

fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.parameter @frozen : tensor<8xf32> unit "fc" names ["frozen"]
fcdp.buffer @mean : tensor<8xf32> name "mean" persistent mutable
fcdp.buffer @mask : tensor<8xi1> name "mask"
fcdp.input @ids : tensor<4x8xi64> name "ids" limit 65
func.func @gradient_c1_missing(%g: tensor<3x4xf32>) {
  // expected-error@+1 {{expected a trainable parameter, got @no}}
  fcdp.gradient %g of @no : tensor<3x4xf32>
  return
}

// -----

fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.parameter @frozen : tensor<8xf32> unit "fc" names ["frozen"]
fcdp.buffer @mean : tensor<8xf32> name "mean" persistent mutable
fcdp.buffer @mask : tensor<8xi1> name "mask"
fcdp.input @ids : tensor<4x8xi64> name "ids" limit 65
func.func @gradient_c1_frozen(%g: tensor<8xf32>) {
  // expected-error@+1 {{expected a trainable parameter, got @frozen}}
  fcdp.gradient %g of @frozen : tensor<8xf32>
  return
}

// -----

// expected-note@+1 {{declared here}}
fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
func.func @gradient_c1_shape(%g: tensor<12xf32>) {
  // expected-error@+1 {{expected the shape of 'tensor<3x4xf32>', got 'tensor<12xf32>'}}
  fcdp.gradient %g of @w : tensor<12xf32>
  return
}

// -----

fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.parameter @frozen : tensor<8xf32> unit "fc" names ["frozen"]
fcdp.buffer @mean : tensor<8xf32> name "mean" persistent mutable
fcdp.buffer @mask : tensor<8xi1> name "mask"
fcdp.input @ids : tensor<4x8xi64> name "ids" limit 65
func.func @gradient_integer(%g: tensor<3x4xi64>) {
  // expected-error@+1 {{must be ranked tensor of floating-point values, but got 'tensor<3x4xi64>'}}
  fcdp.gradient %g of @w : tensor<3x4xi64>
  return
}

// -----

func.func @loss_c1_elements(%l: tensor<2xf32>) {
  // expected-error@+1 {{expected one element of a floating-point type, got 'tensor<2xf32>'}}
  fcdp.loss %l : tensor<2xf32>
  return
}

// -----

func.func @loss_c1_none(%l: tensor<0xf32>) {
  // expected-error@+1 {{expected one element of a floating-point type, got 'tensor<0xf32>'}}
  fcdp.loss %l : tensor<0xf32>
  return
}

// -----

func.func @loss_c1_integer(%l: tensor<i64>) {
  // expected-error@+1 {{expected one element of a floating-point type, got 'tensor<i64>'}}
  fcdp.loss %l : tensor<i64>
  return
}

// -----

func.func @loss_c1_dynamic(%l: tensor<?xf32>) {
  // expected-error@+1 {{expected one element of a floating-point type, got 'tensor<?xf32>'}}
  fcdp.loss %l : tensor<?xf32>
  return
}

// -----

func.func @loss_c1_wrapped(%l: tensor<7x7905747460161236407xf32>) {
  // expected-error@+1 {{expected one element of a floating-point type, got 'tensor<7x7905747460161236407xf32>'}}
  fcdp.loss %l : tensor<7x7905747460161236407xf32>
  return
}

// -----

fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.parameter @frozen : tensor<8xf32> unit "fc" names ["frozen"]
fcdp.buffer @mean : tensor<8xf32> name "mean" persistent mutable
fcdp.buffer @mask : tensor<8xi1> name "mask"
fcdp.input @ids : tensor<4x8xi64> name "ids" limit 65
func.func @write_buffer_c1_missing(%v: tensor<8xf32>) {
  // expected-error@+1 {{expected a mutable buffer, got @no}}
  fcdp.write_buffer %v to @no : tensor<8xf32>
  return
}

// -----

fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.parameter @frozen : tensor<8xf32> unit "fc" names ["frozen"]
fcdp.buffer @mean : tensor<8xf32> name "mean" persistent mutable
fcdp.buffer @mask : tensor<8xi1> name "mask"
fcdp.input @ids : tensor<4x8xi64> name "ids" limit 65
func.func @write_buffer_c1_constant(%v: tensor<8xi1>) {
  // expected-error@+1 {{expected a mutable buffer, got @mask}}
  fcdp.write_buffer %v to @mask : tensor<8xi1>
  return
}

// -----

fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["w"]
fcdp.parameter @frozen : tensor<8xf32> unit "fc" names ["frozen"]
fcdp.buffer @mean : tensor<8xf32> name "mean" persistent mutable
fcdp.buffer @mask : tensor<8xi1> name "mask"
fcdp.input @ids : tensor<4x8xi64> name "ids" limit 65
func.func @write_buffer_c1_type(%v: tensor<4xf32>) {
  // expected-error@+1 {{expected type 'tensor<8xf32>', got 'tensor<4xf32>'}}
  fcdp.write_buffer %v to @mean : tensor<4xf32>
  return
}
