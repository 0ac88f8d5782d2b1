// RUN: fcdp-opt %s --split-input-file --verify-diagnostics

// One case for each constraint of aten.call, named for it.

func.func @call_c1_two_parts(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  // expected-error@+1 {{op expected a callee 'NAMESPACE.OP.OVERLOAD', got 'aten.mm'}}
  aten.call "aten.mm"(self = %x) : (tensor<4xf32>) -> ()
  return
}

// -----

func.func @call_c1_empty_part(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  // expected-error@+1 {{op expected a callee 'NAMESPACE.OP.OVERLOAD', got 'aten..default'}}
  aten.call "aten..default"(self = %x) : (tensor<4xf32>) -> ()
  return
}

// -----

func.func @call_c1_empty(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  // expected-error@+1 {{op expected a callee 'NAMESPACE.OP.OVERLOAD', got ''}}
  aten.call ""(self = %x) : (tensor<4xf32>) -> ()
  return
}

// -----

func.func @call_c1_four_parts(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  // expected-error@+1 {{op expected a callee 'NAMESPACE.OP.OVERLOAD', got 'a.b.c.d'}}
  aten.call "a.b.c.d"(self = %x) : (tensor<4xf32>) -> ()
  return
}

// -----

func.func @call_c2_twice(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  // expected-error@+1 {{op argument 'dim' is given twice}}
  aten.call "a.b.c"(dim = 1, dim = 2) : () -> ()
  return
}

// -----

func.func @call_c2_no_name(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  // expected-error@+1 {{op expected as many argument names as arguments, got 0 and 1}}
  "aten.call"(%x) <{callee = "a.b.c", argNames = [], args = [#aten.operand<0>]}> : (tensor<4xf32>) -> ()
  return
}

// -----

func.func @call_c2_no_argument(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  // expected-error@+1 {{op expected as many argument names as arguments, got 2 and 1}}
  "aten.call"(%x) <{callee = "a.b.c", argNames = ["a", "b"], args = [#aten.operand<0>]}> : (tensor<4xf32>) -> ()
  return
}

// -----

func.func @call_c3_order(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  // expected-error@+1 {{op expected arguments to use operand 0 next, got operand 1}}
  "aten.call"(%x, %y) <{callee = "a.b.c", argNames = ["a", "b"], args = [#aten.operand<1>, #aten.operand<0>]}> : (tensor<4xf32>, tensor<4xf32>) -> ()
  return
}

// -----

func.func @call_c3_again(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  // expected-error@+1 {{op expected arguments to use operand 1 next, got operand 0}}
  "aten.call"(%x) <{callee = "a.b.c", argNames = ["a", "b"], args = [#aten.operand<0>, #aten.operand<0>]}> : (tensor<4xf32>) -> ()
  return
}

// -----

func.func @call_c3_unused(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  // expected-error@+1 {{op expected arguments to use all 2 operands, got 1}}
  "aten.call"(%x, %y) <{callee = "a.b.c", argNames = ["self"], args = [#aten.operand<0>]}> : (tensor<4xf32>, tensor<4xf32>) -> ()
  return
}

// -----

func.func @call_c3_too_many(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  // expected-error@+1 {{op expected arguments to use all 1 operands, got 2}}
  "aten.call"(%x) <{callee = "a.b.c", argNames = ["self"], args = [#aten.operands<[0, 1]>]}> : (tensor<4xf32>) -> ()
  return
}

// -----

func.func @call_c3_below(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  // expected-error@+1 {{op expected arguments to use operand 0 next, got operand -2}}
  "aten.call"(%x) <{callee = "a.b.c", argNames = ["self"], args = [#aten.operands<[-2, 0]>]}> : (tensor<4xf32>) -> ()
  return
}

// -----

func.func @call_c3_far(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  // expected-error@+1 {{op expected arguments to use operand 0 next, got operand 4294967295}}
  "aten.call"(%x) <{callee = "a.b.c", argNames = ["self"], args = [#aten.operand<4294967295>]}> : (tensor<4xf32>) -> ()
  return
}

// -----

func.func @call_c3_empty_list(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  // expected-error@+1 {{op expected an operand in a list of operands}}
  "aten.call"(%x) <{callee = "a.b.c", argNames = ["a", "b"], args = [#aten.operand<0>, #aten.operands<[]>]}> : (tensor<4xf32>) -> ()
  return
}

// -----

func.func @call_c4_i32(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  // expected-error@+1 {{op unsupported argument '1 : i32'}}
  aten.call "a.b.c"(value = 1 : i32) : () -> ()
  return
}

// -----

func.func @call_c4_index(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  // expected-error@+1 {{op unsupported argument '1 : index'}}
  aten.call "a.b.c"(value = 1 : index) : () -> ()
  return
}

// -----

func.func @call_c4_f32(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  // expected-error@+1 {{op unsupported argument '1.000000e+00 : f32'}}
  aten.call "a.b.c"(value = 1.000000e+00 : f32) : () -> ()
  return
}

// -----

func.func @call_c4_symbol(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  // expected-error@+1 {{op unsupported argument '@x'}}
  aten.call "a.b.c"(value = @x) : () -> ()
  return
}

// -----

func.func @call_c4_dense(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  // expected-error@+1 {{op unsupported argument 'dense<1> : tensor<i64>'}}
  aten.call "a.b.c"(value = dense<1> : tensor<i64>) : () -> ()
  return
}

// -----

func.func @call_c4_dictionary(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  // expected-error@+1 {{op unsupported argument '{a = 1 : i64}'}}
  aten.call "a.b.c"(value = {a = 1 : i64}) : () -> ()
  return
}

// -----

func.func @call_c4_type(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  // expected-error@+1 {{op unsupported argument 'tensor<4xf32>'}}
  aten.call "a.b.c"(value = tensor<4xf32>) : () -> ()
  return
}

// -----

func.func @call_c4_i32_in_list(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  // expected-error@+1 {{op unsupported argument '[1 : i32]'}}
  aten.call "a.b.c"(value = [1 : i32]) : () -> ()
  return
}

// -----

func.func @call_c4_dtype_in_list(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  // expected-error@+1 {{op unsupported argument '[f32]'}}
  aten.call "a.b.c"(value = [f32]) : () -> ()
  return
}

// -----

func.func @call_c4_nested_list(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  // expected-error@+1 {{op unsupported argument '[[1]]'}}
  "aten.call"(%x) <{callee = "a.b.c", argNames = ["a", "b"], args = [#aten.operand<0>, [[1]]]}> : (tensor<4xf32>) -> ()
  return
}

// -----

func.func @call_c4_none_in_list(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  // expected-error@+1 {{op unsupported argument '[unit]'}}
  "aten.call"(%x) <{callee = "a.b.c", argNames = ["a", "b"], args = [#aten.operand<0>, [unit]]}> : (tensor<4xf32>) -> ()
  return
}

// -----

func.func @call_c5_descending(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  // expected-error@+1 {{op expected undefined returns in ascending order, each below 2, got 0}}
  aten.call "a.b.c"() {undefined = array<i64: 1, 0>} : () -> ()
  return
}

// -----

func.func @call_c5_twice(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  // expected-error@+1 {{op expected undefined returns in ascending order, each below 2, got 1}}
  aten.call "a.b.c"() {undefined = array<i64: 1, 1>} : () -> ()
  return
}

// -----

func.func @call_c5_negative(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  // expected-error@+1 {{op expected undefined returns in ascending order, each below 1, got -1}}
  aten.call "a.b.c"() {undefined = array<i64: -1>} : () -> ()
  return
}

// -----

func.func @call_c5_beyond(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  // expected-error@+1 {{op expected undefined returns in ascending order, each below 1, got 1}}
  aten.call "a.b.c"() {undefined = array<i64: 1>} : () -> ()
  return
}

// -----

func.func @call_mixed_list(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  // expected-error@+1 {{a list holds tensors or literals, not both}}
  aten.call "a.b.c"(value = [%x, 1]) : (tensor<4xf32>) -> ()
  return
}

// -----

func.func @call_fewer_types(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  // expected-error@+1 {{number of operands and types do not match: got 1 operands and 0 types}}
  aten.call "a.b.c"(value = %x) : () -> ()
  return
}

// -----

func.func @call_wrong_callee(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  // expected-error@+1 {{Invalid attribute `callee` in property conversion: 1 : i64}}
  "aten.call"() <{callee = 1 : i64, argNames = [], args = []}> : () -> ()
  return
}

// -----

func.func @call_wrong_names(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  // expected-error@+1 {{attribute 'argNames' failed to satisfy constraint: string array attribute}}
  "aten.call"() <{callee = "a.b.c", argNames = [1], args = [1]}> : () -> ()
  return
}

// -----

func.func @call_no_names(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  // expected-error@+1 {{requires attribute 'argNames'}}
  "aten.call"() <{callee = "a.b.c"}> : () -> ()
  return
}

// -----

func.func @call_unranked(%z: tensor<*xf32>) {
  // expected-error@+1 {{operand #0 must be variadic of ranked tensor of any type values, but got 'tensor<*xf32>'}}
  aten.call "a.b.c"(self = %z) : (tensor<*xf32>) -> ()
  return
}

// -----

func.func @call_memref(%z: memref<4xf32>) {
  // expected-error@+1 {{operand #0 must be variadic of ranked tensor of any type values, but got 'memref<4xf32>'}}
  aten.call "a.b.c"(self = %z) : (memref<4xf32>) -> ()
  return
}

// -----

// expected-error@+2 {{expected ::fcdp::aten::Layout to be one of: strided}}
// expected-error@+1 {{failed to parse}}
func.func private @layout() attributes {value = #aten.layout<sparse>}

// -----

// expected-error@+2 {{expected valid keyword or string}}
// expected-error@+1 {{failed to parse}}
func.func private @memory_format() attributes {value = #aten.memory_format<7>}

// -----

// expected-error@+2 {{integer value too large}}
// expected-error@+1 {{failed to parse}}
func.func private @operand() attributes {value = #aten.operand<4294967296>}

// -----

// expected-error@+2 {{expected string}}
// expected-error@+1 {{failed to parse}}
func.func private @device() attributes {value = #aten.device<cpu>}

// -----

func.func @call_c6_too_large(%x: tensor<4xf32>) {
  // expected-error@+1 {{'aten.call' op expected tensors of at most 281474976710656 bytes, got 'tensor<4611686018427387904xf32>'}}
  %0 = aten.call "a.b.c"(self = %x) : (tensor<4xf32>) -> tensor<4611686018427387904xf32>
  return
}

// -----

func.func @call_c6_too_large_operand(%x: tensor<1048576x1048576x1048576xcomplex<f64>>) {
  // expected-error@+1 {{'aten.call' op expected tensors of at most 281474976710656 bytes}}
  aten.call "a.b.c"(self = %x) : (tensor<1048576x1048576x1048576xcomplex<f64>>) -> ()
  return
}

// -----

func.func @call_c7_elementwise(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{'aten.call' op expected the shape [4, 8] for the first result, which follows from the arguments, got 'tensor<4x9xf32>'}}
  %0 = aten.call "aten.tanh.default"(self = %x) : (tensor<4x8xf32>) -> tensor<4x9xf32>
  return
}

// -----

func.func @call_c7_broadcast(%x: tensor<4x1xf32>, %y: tensor<8xf32>) {
  // expected-error@+1 {{'aten.call' op expected the shape [4, 8] for the first result, which follows from the arguments, got 'tensor<4x1xf32>'}}
  %0 = aten.call "aten.add.Tensor"(self = %x, other = %y) : (tensor<4x1xf32>, tensor<8xf32>) -> tensor<4x1xf32>
  return
}

// -----

func.func @call_c7_no_broadcast(%x: tensor<4xf32>, %y: tensor<8xf32>) {
  // expected-error@+1 {{'aten.call' op expected operands whose shapes fit together}}
  %0 = aten.call "aten.mul.Tensor"(self = %x, other = %y) : (tensor<4xf32>, tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @call_c7_product(%x: tensor<4x2xf32>, %y: tensor<2x8xf32>) {
  // expected-error@+1 {{'aten.call' op expected the shape [4, 8] for the first result, which follows from the arguments, got 'tensor<8x4xf32>'}}
  %0 = aten.call "aten.mm.default"(self = %x, mat2 = %y) : (tensor<4x2xf32>, tensor<2x8xf32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @call_c7_product_of_others(%x: tensor<4x3xf32>, %y: tensor<2x8xf32>) {
  // expected-error@+1 {{'aten.call' op expected operands whose shapes fit together}}
  %0 = aten.call "aten.mm.default"(self = %x, mat2 = %y) : (tensor<4x3xf32>, tensor<2x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @call_c7_view(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{'aten.call' op expected 32 elements in the first result, as the first operand has, got 'tensor<33xf32>'}}
  %0 = aten.call "aten.view.default"(self = %x, size = [33]) : (tensor<4x8xf32>) -> tensor<33xf32>
  return
}

// -----

func.func @call_c7_reduction(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{'aten.call' op expected at most 32 elements in the first result, as the first operand has, got 'tensor<64xf32>'}}
  %0 = aten.call "aten.sum.dim_IntList"(self = %x, dim = [0]) : (tensor<4x8xf32>) -> tensor<64xf32>
  return
}

// -----

func.func @call_c7_size() {
  // expected-error@+1 {{'aten.call' op expected the shape [4, 8] for the first result, which follows from the arguments, got 'tensor<4x4xf32>'}}
  %0 = aten.call "aten.zeros.default"(size = [4, 8]) : () -> tensor<4x4xf32>
  return
}

// -----

// Attributes without a rule in the table are not checked, nor is a dynamic dimension.
func.func @call_c7_unchecked(%x: tensor<?x8xf32>, %y: tensor<0x4xf32>) {
  %0 = aten.call "aten.tanh.default"(self = %x) : (tensor<?x8xf32>) -> tensor<4x8xf32>
  %1 = aten.call "aten.sum.dim_IntList"(self = %y, dim = [0]) : (tensor<0x4xf32>) -> tensor<4xf32>
  %2 = aten.call "aten.repeat.default"(self = %y, repeats = [2, 2]) : (tensor<0x4xf32>) -> tensor<0x8xf32>
  return
}

// -----

func.func @call_c8_hidden(%x: tensor<32x4xi32>, %w: tensor<8x4xf32>, %y: tensor<32xi64>, %g: tensor<f32>) {
  // expected-error@+1 {{expected 'hidden' to be a matrix of floats, got 'tensor<32x4xi32>'}}
  %0:5 = aten.call "fcdp.chunked_loss.default"(hidden = %x, weight = %w, bias = none, labels = %y, gradient = %g, rows = 16, steps = "", factors = [], reduction = 1, ignore_index = -100, output_mask = [true, true, false], workspace = 1728) {undefined = array<i64: 2, 5>} : (tensor<32x4xi32>, tensor<8x4xf32>, tensor<32xi64>, tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<32x4xf32>, tensor<8x4xf32>, tensor<1728xui8>)
  return
}

// -----

func.func @call_c8_weight(%x: tensor<32x4xf32>, %w: tensor<8x5xf32>, %y: tensor<32xi64>, %g: tensor<f32>) {
  // expected-error@+1 {{expected a matrix 'weight' of 4 columns of 'f32', got 'tensor<8x5xf32>'}}
  %0:5 = aten.call "fcdp.chunked_loss.default"(hidden = %x, weight = %w, bias = none, labels = %y, gradient = %g, rows = 16, steps = "", factors = [], reduction = 1, ignore_index = -100, output_mask = [true, true, false], workspace = 1728) {undefined = array<i64: 2, 5>} : (tensor<32x4xf32>, tensor<8x5xf32>, tensor<32xi64>, tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<32x4xf32>, tensor<8x4xf32>, tensor<1728xui8>)
  return
}

// -----

func.func @call_c8_labels(%x: tensor<32x4xf32>, %w: tensor<8x4xf32>, %y: tensor<32xi32>, %g: tensor<f32>) {
  // expected-error@+1 {{expected 'labels' to be 'tensor<32xi64>', got 'tensor<32xi32>'}}
  %0:5 = aten.call "fcdp.chunked_loss.default"(hidden = %x, weight = %w, bias = none, labels = %y, gradient = %g, rows = 16, steps = "", factors = [], reduction = 1, ignore_index = -100, output_mask = [true, true, false], workspace = 1728) {undefined = array<i64: 2, 5>} : (tensor<32x4xf32>, tensor<8x4xf32>, tensor<32xi32>, tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<32x4xf32>, tensor<8x4xf32>, tensor<1728xui8>)
  return
}

// -----

func.func @call_c8_bias(%x: tensor<32x4xf32>, %w: tensor<8x4xf32>, %y: tensor<32xi64>, %g: tensor<f32>) {
  // expected-error@+1 {{expected 'bias' to be 'tensor<8xf32>', got 'tensor<32x4xf32>'}}
  %0:5 = aten.call "fcdp.chunked_loss.default"(hidden = %x, weight = %w, bias = %x, labels = %y, gradient = %g, rows = 16, steps = "", factors = [], reduction = 1, ignore_index = -100, output_mask = [true, true, false], workspace = 1728) {undefined = array<i64: 2, 5>} : (tensor<32x4xf32>, tensor<8x4xf32>, tensor<32x4xf32>, tensor<32xi64>, tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<32x4xf32>, tensor<8x4xf32>, tensor<1728xui8>)
  return
}

// -----

func.func @call_c8_rows(%x: tensor<32x4xf32>, %w: tensor<8x4xf32>, %y: tensor<32xi64>, %g: tensor<f32>) {
  // expected-error@+1 {{expected 'rows' to be a multiple of 16 below 32, or 32, got 8 : i64}}
  %0:5 = aten.call "fcdp.chunked_loss.default"(hidden = %x, weight = %w, bias = none, labels = %y, gradient = %g, rows = 8, steps = "", factors = [], reduction = 1, ignore_index = -100, output_mask = [true, true, false], workspace = 1728) {undefined = array<i64: 2, 5>} : (tensor<32x4xf32>, tensor<8x4xf32>, tensor<32xi64>, tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<32x4xf32>, tensor<8x4xf32>, tensor<1728xui8>)
  return
}

// -----

func.func @call_c8_reduction(%x: tensor<32x4xf32>, %w: tensor<8x4xf32>, %y: tensor<32xi64>, %g: tensor<f32>) {
  // expected-error@+1 {{expected 'reduction' 0, 1 or 2, got 3 : i64}}
  %0:5 = aten.call "fcdp.chunked_loss.default"(hidden = %x, weight = %w, bias = none, labels = %y, gradient = %g, rows = 16, steps = "", factors = [], reduction = 3, ignore_index = -100, output_mask = [true, true, false], workspace = 1728) {undefined = array<i64: 2, 5>} : (tensor<32x4xf32>, tensor<8x4xf32>, tensor<32xi64>, tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<32x4xf32>, tensor<8x4xf32>, tensor<1728xui8>)
  return
}

// -----

func.func @call_c8_ignore_index(%x: tensor<32x4xf32>, %w: tensor<8x4xf32>, %y: tensor<32xi64>, %g: tensor<f32>) {
  // expected-error@+1 {{expected an integer 'ignore_index', got "no"}}
  %0:5 = aten.call "fcdp.chunked_loss.default"(hidden = %x, weight = %w, bias = none, labels = %y, gradient = %g, rows = 16, steps = "", factors = [], reduction = 1, ignore_index = "no", output_mask = [true, true, false], workspace = 1728) {undefined = array<i64: 2, 5>} : (tensor<32x4xf32>, tensor<8x4xf32>, tensor<32xi64>, tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<32x4xf32>, tensor<8x4xf32>, tensor<1728xui8>)
  return
}

// -----

func.func @call_c8_output_mask(%x: tensor<32x4xf32>, %w: tensor<8x4xf32>, %y: tensor<32xi64>, %g: tensor<f32>) {
  // expected-error@+1 {{expected 3 elements of 'output_mask', got [true]}}
  %0:5 = aten.call "fcdp.chunked_loss.default"(hidden = %x, weight = %w, bias = none, labels = %y, gradient = %g, rows = 16, steps = "", factors = [], reduction = 1, ignore_index = -100, output_mask = [true], workspace = 1728) {undefined = array<i64: 2, 5>} : (tensor<32x4xf32>, tensor<8x4xf32>, tensor<32xi64>, tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<32x4xf32>, tensor<8x4xf32>, tensor<1728xui8>)
  return
}

// -----

func.func @call_c8_steps(%x: tensor<32x4xf32>, %w: tensor<8x4xf32>, %y: tensor<32xi64>, %g: tensor<f32>) {
  // expected-error@+1 {{expected steps 'div', 'mul', 'tanh' and 'cast', got 'exp'}}
  %0:5 = aten.call "fcdp.chunked_loss.default"(hidden = %x, weight = %w, bias = none, labels = %y, gradient = %g, rows = 16, steps = "exp", factors = [], reduction = 1, ignore_index = -100, output_mask = [true, true, false], workspace = 1728) {undefined = array<i64: 2, 5>} : (tensor<32x4xf32>, tensor<8x4xf32>, tensor<32xi64>, tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<32x4xf32>, tensor<8x4xf32>, tensor<1728xui8>)
  return
}

// -----

func.func @call_c8_once(%x: tensor<32x4xf32>, %w: tensor<8x4xf32>, %y: tensor<32xi64>, %g: tensor<f32>) {
  // expected-error@+1 {{expected at most one step 'tanh' and one 'cast'}}
  %0:5 = aten.call "fcdp.chunked_loss.default"(hidden = %x, weight = %w, bias = none, labels = %y, gradient = %g, rows = 16, steps = "tanh tanh", factors = [], reduction = 1, ignore_index = -100, output_mask = [true, true, false], workspace = 1728) {undefined = array<i64: 2, 5>} : (tensor<32x4xf32>, tensor<8x4xf32>, tensor<32xi64>, tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<32x4xf32>, tensor<8x4xf32>, tensor<1728xui8>)
  return
}

// -----

func.func @call_c8_factors(%x: tensor<32x4xf32>, %w: tensor<8x4xf32>, %y: tensor<32xi64>, %g: tensor<f32>) {
  // expected-error@+1 {{expected a factor for each of 1 steps 'div' and 'mul', got 0}}
  %0:5 = aten.call "fcdp.chunked_loss.default"(hidden = %x, weight = %w, bias = none, labels = %y, gradient = %g, rows = 16, steps = "mul", factors = [], reduction = 1, ignore_index = -100, output_mask = [true, true, false], workspace = 1728) {undefined = array<i64: 2, 5>} : (tensor<32x4xf32>, tensor<8x4xf32>, tensor<32xi64>, tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<32x4xf32>, tensor<8x4xf32>, tensor<1728xui8>)
  return
}

// -----

func.func @call_c8_gradient(%x: tensor<32x4xf32>, %w: tensor<8x4xf32>, %y: tensor<32xi64>, %g: tensor<f32>) {
  // expected-error@+1 {{expected 'gradient' to be 'tensor<32xf32>', got 'tensor<f32>'}}
  %0:5 = aten.call "fcdp.chunked_loss.default"(hidden = %x, weight = %w, bias = none, labels = %y, gradient = %g, rows = 16, steps = "", factors = [], reduction = 0, ignore_index = -100, output_mask = [true, true, false], workspace = 1728) {undefined = array<i64: 2, 5>} : (tensor<32x4xf32>, tensor<8x4xf32>, tensor<32xi64>, tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<32x4xf32>, tensor<8x4xf32>, tensor<1728xui8>)
  return
}

// -----

func.func @call_c8_sum_gradient(%x: tensor<32x4xf32>, %w: tensor<8x4xf32>, %y: tensor<32xi64>, %g: tensor<f32>) {
  // expected-error@+1 {{expected 'sum_gradient' to be 'tensor<32xf32>', got 'tensor<f32>'}}
  %0:5 = aten.call "fcdp.chunked_loss.default"(hidden = %x, weight = %w, bias = none, labels = %y, gradient = %g, sum_gradient = %g, rows = 16, steps = "", factors = [], reduction = 1, ignore_index = -100, output_mask = [true, true, false], workspace = 1728) {undefined = array<i64: 2, 5>} : (tensor<32x4xf32>, tensor<8x4xf32>, tensor<32xi64>, tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<32x4xf32>, tensor<8x4xf32>, tensor<1728xui8>)
  return
}

// -----

func.func @call_c8_train_bias(%x: tensor<32x4xf32>, %w: tensor<8x4xf32>, %y: tensor<32xi64>, %g: tensor<f32>) {
  // expected-error@+1 {{expected a bias, whose gradient it computes}}
  %0:5 = aten.call "fcdp.chunked_loss.default"(hidden = %x, weight = %w, bias = none, labels = %y, gradient = %g, rows = 16, steps = "", factors = [], reduction = 1, ignore_index = -100, output_mask = [true, true, true], workspace = 1728) {undefined = array<i64: 2, 5>} : (tensor<32x4xf32>, tensor<8x4xf32>, tensor<32xi64>, tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<32x4xf32>, tensor<8x4xf32>, tensor<1728xui8>)
  return
}

// -----

func.func @call_c8_workspace(%x: tensor<32x4xf32>, %w: tensor<8x4xf32>, %y: tensor<32xi64>, %g: tensor<f32>) {
  // expected-error@+1 {{expected 'workspace' 1728, the bytes of a chunk, got 1727 : i64}}
  %0:5 = aten.call "fcdp.chunked_loss.default"(hidden = %x, weight = %w, bias = none, labels = %y, gradient = %g, rows = 16, steps = "", factors = [], reduction = 1, ignore_index = -100, output_mask = [true, true, false], workspace = 1727) {undefined = array<i64: 2, 5>} : (tensor<32x4xf32>, tensor<8x4xf32>, tensor<32xi64>, tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<32x4xf32>, tensor<8x4xf32>, tensor<1728xui8>)
  return
}

// -----

func.func @call_c8_returns(%x: tensor<32x4xf32>, %w: tensor<8x4xf32>, %y: tensor<32xi64>, %g: tensor<f32>) {
  // expected-error@+1 {{expected 7 returns, got 6}}
  %0:5 = aten.call "fcdp.chunked_loss.default"(hidden = %x, weight = %w, bias = none, labels = %y, gradient = %g, rows = 16, steps = "", factors = [], reduction = 1, ignore_index = -100, output_mask = [true, true, false], workspace = 1728) {undefined = array<i64: 2>} : (tensor<32x4xf32>, tensor<8x4xf32>, tensor<32xi64>, tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<32x4xf32>, tensor<8x4xf32>, tensor<1728xui8>)
  return
}

// -----

func.func @call_c8_undefined(%x: tensor<32x4xf32>, %w: tensor<8x4xf32>, %y: tensor<32xi64>, %g: tensor<f32>) {
  // expected-error@+1 {{expected return 5 to be undefined}}
  %0:6 = aten.call "fcdp.chunked_loss.default"(hidden = %x, weight = %w, bias = none, labels = %y, gradient = %g, rows = 16, steps = "", factors = [], reduction = 1, ignore_index = -100, output_mask = [true, true, false], workspace = 1728) {undefined = array<i64: 2>} : (tensor<32x4xf32>, tensor<8x4xf32>, tensor<32xi64>, tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<32x4xf32>, tensor<8x4xf32>, tensor<1x8xf32>, tensor<1728xui8>)
  return
}

// -----

func.func @call_c8_none(%x: tensor<32x4xf32>, %w: tensor<8x4xf32>, %y: tensor<32xi64>, %g: tensor<f32>) {
  // expected-error@+1 {{expected return 1 to be 'tensor<f32>', got none}}
  %0:5 = aten.call "fcdp.chunked_loss.default"(hidden = %x, weight = %w, bias = none, labels = %y, gradient = %g, rows = 16, steps = "", factors = [], reduction = 1, ignore_index = -100, output_mask = [true, true, false], workspace = 1728) {undefined = array<i64: 1, 5>} : (tensor<32x4xf32>, tensor<8x4xf32>, tensor<32xi64>, tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<32x4xf32>, tensor<8x4xf32>, tensor<1728xui8>)
  return
}

// -----

func.func @call_c8_type(%x: tensor<32x4xf32>, %w: tensor<8x4xf32>, %y: tensor<32xi64>, %g: tensor<f32>) {
  // expected-error@+1 {{expected return 3 to be 'tensor<32x4xf32>', got 'tensor<32x4xbf16>'}}
  %0:5 = aten.call "fcdp.chunked_loss.default"(hidden = %x, weight = %w, bias = none, labels = %y, gradient = %g, rows = 16, steps = "", factors = [], reduction = 1, ignore_index = -100, output_mask = [true, true, false], workspace = 1728) {undefined = array<i64: 2, 5>} : (tensor<32x4xf32>, tensor<8x4xf32>, tensor<32xi64>, tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<32x4xbf16>, tensor<8x4xf32>, tensor<1728xui8>)
  return
}

// -----

func.func @call_c8_block(%x: tensor<32x4xf32>, %w: tensor<512x4xf32>, %y: tensor<32xi64>, %g: tensor<f32>) {
  // expected-error@+1 {{expected no 'block' for a gradient of the weight whose sum has no memory of its own}}
  %0:5 = aten.call "fcdp.chunked_loss.default"(hidden = %x, weight = %w, bias = none, labels = %y, gradient = %g, rows = 16, steps = "", factors = [], reduction = 1, ignore_index = -100, output_mask = [true, true, false], workspace = 1728, block = 256) {undefined = array<i64: 2, 5>} : (tensor<32x4xf32>, tensor<512x4xf32>, tensor<32xi64>, tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<32x4xf32>, tensor<512x4xf32>, tensor<1728xui8>)
  return
}

// -----

func.func @call_c8_block_size(%x: tensor<32x4xbf16>, %w: tensor<512x4xbf16>, %y: tensor<32xi64>, %g: tensor<f32>) {
  // expected-error@+1 {{expected 'block' to be a multiple of 64 up to 256, got 100}}
  %0:5 = aten.call "fcdp.chunked_loss.default"(hidden = %x, weight = %w, bias = none, labels = %y, gradient = %g, rows = 16, steps = "cast", factors = [], reduction = 1, ignore_index = -100, output_mask = [true, true, false], workspace = 1728, block = 100) {undefined = array<i64: 2, 5>} : (tensor<32x4xbf16>, tensor<512x4xbf16>, tensor<32xi64>, tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<32x4xbf16>, tensor<512x4xbf16>, tensor<1728xui8>)
  return
}

// -----

func.func @call_c9_size(%p: tensor<36xui8>) {
  // expected-error@+1 {{expected 'size' to be the two sizes of a matrix}}
  %0 = aten.call "fcdp.unpack_nf4.default"(packed = %p, size = [64], dtype = f32) : (tensor<36xui8>) -> tensor<64xf32>
  return
}

// -----

func.func @call_c9_large_size(%p: tensor<36xui8>) {
  // expected-error@+1 {{expected 'size' to be the two sizes of a matrix}}
  %0 = aten.call "fcdp.unpack_nf4.default"(packed = %p, size = [4294967296, 4294967296], dtype = f32) : (tensor<36xui8>) -> tensor<1x64xf32>
  return
}

// -----

func.func @call_c9_dtype(%p: tensor<36xui8>) {
  // expected-error@+1 {{expected 'dtype' to be f32, bf16 or f16}}
  %0 = aten.call "fcdp.unpack_nf4.default"(packed = %p, size = [1, 64], dtype = f64) : (tensor<36xui8>) -> tensor<1x64xf64>
  return
}

// -----

func.func @call_c9_packed(%p: tensor<36xi8>) {
  // expected-error@+1 {{expected one operand 'packed' of 'tensor<36xui8>'}}
  %0 = aten.call "fcdp.unpack_nf4.default"(packed = %p, size = [1, 64], dtype = f32) : (tensor<36xi8>) -> tensor<1x64xf32>
  return
}

// -----

func.func @call_c9_rows(%p: tensor<36xui8>) {
  // expected-error@+1 {{expected one operand 'packed' of 'tensor<72xui8>'}}
  %0 = aten.call "fcdp.unpack_int8.default"(packed = %p, size = [2, 32], dtype = bf16) : (tensor<36xui8>) -> tensor<2x32xbf16>
  return
}

// -----

func.func @call_c9_result(%p: tensor<36xui8>) {
  // expected-error@+1 {{expected one result of 'tensor<1x64xbf16>'}}
  %0 = aten.call "fcdp.unpack_nf4.default"(packed = %p, size = [1, 64], dtype = bf16) : (tensor<36xui8>) -> tensor<1x64xf32>
  return
}

// -----

func.func @call_c8_teacher_rows(%x: tensor<32x4xf32>, %w: tensor<8x4xf32>, %a: tensor<30x6xf32>, %u: tensor<8x6xf32>, %g: tensor<f32>) {
  // expected-error@+1 {{expected 'teacher' to be 32 rows of floats, got 'tensor<30x6xf32>'}}
  %0:4 = aten.call "fcdp.chunked_distillation.default"(hidden = %x, weight = %w, bias = none, labels = none, gradient = none, sum_gradient = none, teacher = %a, teacher_weight = %u, teacher_bias = none, teacher_gradient = %g, rows = 16, steps = "", factors = [], reduction = 1, ignore_index = -100, sums = false, output_mask = [true, true, false], workspace = 2816, common = 0, student_steps = "", student_factors = [], teacher_steps = "", teacher_factors = [], terms = "kl", skip_infinite = false, by_row = false) {undefined = array<i64: 0, 1, 2, 5>} : (tensor<32x4xf32>, tensor<8x4xf32>, tensor<30x6xf32>, tensor<8x6xf32>, tensor<f32>) -> (tensor<32x4xf32>, tensor<8x4xf32>, tensor<2816xui8>, tensor<f32>)
  return
}

// -----

func.func @call_c8_teacher_weight(%x: tensor<32x4xf32>, %w: tensor<8x4xf32>, %a: tensor<32x6xf32>, %u: tensor<9x6xf32>, %g: tensor<f32>) {
  // expected-error@+1 {{expected 'teacher_weight' to be 'tensor<8x6xf32>', got 'tensor<9x6xf32>'}}
  %0:4 = aten.call "fcdp.chunked_distillation.default"(hidden = %x, weight = %w, bias = none, labels = none, gradient = none, sum_gradient = none, teacher = %a, teacher_weight = %u, teacher_bias = none, teacher_gradient = %g, rows = 16, steps = "", factors = [], reduction = 1, ignore_index = -100, sums = false, output_mask = [true, true, false], workspace = 2816, common = 0, student_steps = "", student_factors = [], teacher_steps = "", teacher_factors = [], terms = "kl", skip_infinite = false, by_row = false) {undefined = array<i64: 0, 1, 2, 5>} : (tensor<32x4xf32>, tensor<8x4xf32>, tensor<32x6xf32>, tensor<9x6xf32>, tensor<f32>) -> (tensor<32x4xf32>, tensor<8x4xf32>, tensor<2816xui8>, tensor<f32>)
  return
}

// -----

func.func @call_c8_teacher_terms(%x: tensor<32x4xf32>, %w: tensor<8x4xf32>, %a: tensor<32x6xf32>, %u: tensor<8x6xf32>, %g: tensor<f32>) {
  // expected-error@+1 {{expected 'terms' to be one of kl, kl_exp, log, cross, cross_exp, got "js"}}
  %0:4 = aten.call "fcdp.chunked_distillation.default"(hidden = %x, weight = %w, bias = none, labels = none, gradient = none, sum_gradient = none, teacher = %a, teacher_weight = %u, teacher_bias = none, teacher_gradient = %g, rows = 16, steps = "", factors = [], reduction = 1, ignore_index = -100, sums = false, output_mask = [true, true, false], workspace = 2816, common = 0, student_steps = "", student_factors = [], teacher_steps = "", teacher_factors = [], terms = "js", skip_infinite = false, by_row = false) {undefined = array<i64: 0, 1, 2, 5>} : (tensor<32x4xf32>, tensor<8x4xf32>, tensor<32x6xf32>, tensor<8x6xf32>, tensor<f32>) -> (tensor<32x4xf32>, tensor<8x4xf32>, tensor<2816xui8>, tensor<f32>)
  return
}

// -----

func.func @call_c8_teacher_common(%x: tensor<32x4xf32>, %w: tensor<8x4xf32>, %a: tensor<32x6xf32>, %u: tensor<8x6xf32>, %g: tensor<f32>) {
  // expected-error@+1 {{expected 'common' to be a number of 1 steps, or all without labels, got 0 : i64}}
  %0:4 = aten.call "fcdp.chunked_distillation.default"(hidden = %x, weight = %w, bias = none, labels = none, gradient = none, sum_gradient = none, teacher = %a, teacher_weight = %u, teacher_bias = none, teacher_gradient = %g, rows = 16, steps = "cast", factors = [], reduction = 1, ignore_index = -100, sums = false, output_mask = [true, true, false], workspace = 2816, common = 0, student_steps = "", student_factors = [], teacher_steps = "", teacher_factors = [], terms = "kl", skip_infinite = false, by_row = false) {undefined = array<i64: 0, 1, 2, 5>} : (tensor<32x4xf32>, tensor<8x4xf32>, tensor<32x6xf32>, tensor<8x6xf32>, tensor<f32>) -> (tensor<32x4xf32>, tensor<8x4xf32>, tensor<2816xui8>, tensor<f32>)
  return
}

// -----

func.func @call_c8_teacher_infinite(%x: tensor<32x4xf32>, %w: tensor<8x4xf32>, %a: tensor<32x6xf32>, %u: tensor<8x6xf32>, %g: tensor<f32>) {
  // expected-error@+1 {{expected 'skip_infinite' with a cross entropy alone, got "kl"}}
  %0:4 = aten.call "fcdp.chunked_distillation.default"(hidden = %x, weight = %w, bias = none, labels = none, gradient = none, sum_gradient = none, teacher = %a, teacher_weight = %u, teacher_bias = none, teacher_gradient = %g, rows = 16, steps = "", factors = [], reduction = 1, ignore_index = -100, sums = false, output_mask = [true, true, false], workspace = 2816, common = 0, student_steps = "", student_factors = [], teacher_steps = "", teacher_factors = [], terms = "kl", skip_infinite = true, by_row = false) {undefined = array<i64: 0, 1, 2, 5>} : (tensor<32x4xf32>, tensor<8x4xf32>, tensor<32x6xf32>, tensor<8x6xf32>, tensor<f32>) -> (tensor<32x4xf32>, tensor<8x4xf32>, tensor<2816xui8>, tensor<f32>)
  return
}

// -----

func.func @call_c8_teacher_gradient(%x: tensor<32x4xf32>, %w: tensor<8x4xf32>, %a: tensor<32x6xf32>, %u: tensor<8x6xf32>, %g: tensor<f32>) {
  // expected-error@+1 {{expected 'teacher_gradient' to be 'tensor<32xf32>', got 'tensor<f32>'}}
  %0:4 = aten.call "fcdp.chunked_distillation.default"(hidden = %x, weight = %w, bias = none, labels = none, gradient = none, sum_gradient = none, teacher = %a, teacher_weight = %u, teacher_bias = none, teacher_gradient = %g, rows = 16, steps = "", factors = [], reduction = 1, ignore_index = -100, sums = false, output_mask = [true, true, false], workspace = 2816, common = 0, student_steps = "", student_factors = [], teacher_steps = "", teacher_factors = [], terms = "kl", skip_infinite = false, by_row = true) {undefined = array<i64: 0, 1, 2, 5>} : (tensor<32x4xf32>, tensor<8x4xf32>, tensor<32x6xf32>, tensor<8x6xf32>, tensor<f32>) -> (tensor<32x4xf32>, tensor<8x4xf32>, tensor<2816xui8>, tensor<f32>)
  return
}

// -----

func.func @call_c8_teacher_type(%x: tensor<32x4xf32>, %w: tensor<8x4xf32>, %a: tensor<32x6xbf16>, %u: tensor<8x6xbf16>, %g: tensor<f32>) {
  // expected-error@+1 {{expected the teacher's probabilities in 'f32', got 'bf16'}}
  %0:4 = aten.call "fcdp.chunked_distillation.default"(hidden = %x, weight = %w, bias = none, labels = none, gradient = none, sum_gradient = none, teacher = %a, teacher_weight = %u, teacher_bias = none, teacher_gradient = %g, rows = 16, steps = "", factors = [], reduction = 1, ignore_index = -100, sums = false, output_mask = [true, true, false], workspace = 2816, common = 0, student_steps = "", student_factors = [], teacher_steps = "", teacher_factors = [], terms = "kl", skip_infinite = false, by_row = false) {undefined = array<i64: 0, 1, 2, 5>} : (tensor<32x4xf32>, tensor<8x4xf32>, tensor<32x6xbf16>, tensor<8x6xbf16>, tensor<f32>) -> (tensor<32x4xf32>, tensor<8x4xf32>, tensor<2816xui8>, tensor<f32>)
  return
}

// -----

func.func @call_c8_teacher_workspace(%x: tensor<32x4xf32>, %w: tensor<8x4xf32>, %a: tensor<32x6xf32>, %u: tensor<8x6xf32>, %g: tensor<f32>) {
  // expected-error@+1 {{expected 'workspace' 2112, the bytes of a chunk, got 64 : i64}}
  %0:4 = aten.call "fcdp.chunked_distillation.default"(hidden = %x, weight = %w, bias = none, labels = none, gradient = none, sum_gradient = none, teacher = %a, teacher_weight = %u, teacher_bias = none, teacher_gradient = %g, rows = 16, steps = "", factors = [], reduction = 1, ignore_index = -100, sums = false, output_mask = [true, true, false], workspace = 64, common = 0, student_steps = "", student_factors = [], teacher_steps = "", teacher_factors = [], terms = "kl", skip_infinite = false, by_row = false) {undefined = array<i64: 0, 1, 2, 5>} : (tensor<32x4xf32>, tensor<8x4xf32>, tensor<32x6xf32>, tensor<8x6xf32>, tensor<f32>) -> (tensor<32x4xf32>, tensor<8x4xf32>, tensor<64xui8>, tensor<f32>)
  return
}
