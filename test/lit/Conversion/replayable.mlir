// The plan marks calls that a CUDA graph may contain.
//
// RUN: fcdp-opt %s --convert-fcdp-to-llvm | mlir-translate --mlir-to-llvmir | llc -filetype=obj -o %t.o && fcdp-compile %t.o --emit=plan-json | %python %S/Inputs/show_plan.py | FileCheck %s
// RUN: %edit %s --replace 'fcdp.target = "cuda", ' "" | fcdp-opt --convert-fcdp-to-llvm | mlir-translate --mlir-to-llvmir | llc -filetype=obj -o %t.o && fcdp-compile %t.o --emit=plan-json | %python %S/Inputs/show_plan.py | FileCheck %s --check-prefix=CPU

// On the CPU there are no graphs.
// CPU-COUNT-17: "replayable": false, "args"

module attributes {fcdp.micro_batches = 1 : i64, fcdp.phase = #fcdp.phase<planned>, fcdp.target = "cuda", fcdp.strategy = "zero3"} {
fcdp.mesh @world(node = 1, local = 1)
fcdp.parameter @w : tensor<4x4xf32> unit "" trainable names ["w"]
fcdp.bucket @b unit "" elements 16 storage f32 wire f32 trainable members [@w at 0]
fcdp.state @shard shard of @b in device : tensor<16xf32> at <arena = device, offset = 0, bytes = 64>
fcdp.state @grad grad of @b in device : tensor<16xf32> at <arena = device, offset = 64, bytes = 64>
fcdp.input @ids : tensor<2xi64> name "ids"
fcdp.input @mask : tensor<4xi1> name "mask"
func.func @only_microbatch() attributes {fcdp.role = #fcdp.role<only_microbatch>} {
  %shard = fcdp.read_shard @b : tensor<16xf32>
  %w = fcdp.view_member %shard @w of @b : tensor<16xf32> to tensor<4x4xf32>
  %ids = fcdp.read_input @ids : tensor<2xi64>
  %mask = fcdp.read_input @mask : tensor<4xi1>
  // CHECK: "aten::mm", "alias": "fresh", "replayable": true, "args"
  %0 = aten.call "aten.mm.default"(self = %w, mat2 = %w) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  // CHECK-NEXT: "aten::t", "alias": "view", "replayable": true, "args"
  %1 = aten.call "aten.t.default"(self = %0) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  // Not replayable: operators that draw random numbers, that the table does not
  // know, and attention, which makes a random state on another device during a
  // capture.
  // CHECK-NEXT: "aten::native_dropout", "alias": "fresh", "replayable": false, "args"
  %2:2 = aten.call "aten.native_dropout.default"(input = %1, p = 1.000000e-01, train = true) : (tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xi1>)
  // CHECK-NEXT: "aten::cosh", "alias": "unknown", "replayable": false, "args"
  %3 = aten.call "aten.cosh.default"(self = %2#0) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  // CHECK: "aten::_scaled_dot_product_flash_attention", "alias": "fresh", "replayable": false, "args"
  %q = aten.call "aten.view.default"(self = %3, size = [1, 1, 4, 4]) : (tensor<4x4xf32>) -> tensor<1x1x4x4xf32>
  %4 = aten.call "aten._scaled_dot_product_flash_attention.default"(query = %q, key = %q, value = %q, dropout_p = 0.000000e+00) {undefined = array<i64: 1, 2, 3, 4, 5, 6, 7, 8>} : (tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>) -> tensor<1x1x4x4xf32>
  %5 = aten.call "aten.view.default"(self = %4, size = [4, 4]) : (tensor<1x1x4x4xf32>) -> tensor<4x4xf32>
  // Rows are chosen by number; by a mask the device is asked how many there are.
  // CHECK: "aten::index", "overload": "Tensor", "alias": "fresh", "replayable": true, "args"
  %6 = aten.call "aten.index.Tensor"(self = %5, indices = [%ids]) : (tensor<4x4xf32>, tensor<2xi64>) -> tensor<2x4xf32>
  // CHECK-NEXT: "aten::index_put", "alias": "fresh", "replayable": false, "args"
  %7 = aten.call "aten.index_put.default"(self = %5, indices = [%mask], values = %6) : (tensor<4x4xf32>, tensor<4xi1>, tensor<2x4xf32>) -> tensor<4x4xf32>
  // CHECK-NEXT: "aten::_to_copy", "alias": "fresh", "replayable": true, "args"
  %8 = aten.call "aten._to_copy.default"(self = %7, dtype = bf16) : (tensor<4x4xf32>) -> tensor<4x4xbf16>
  // CHECK-NEXT: "aten::_to_copy", "alias": "fresh", "replayable": false, "args"
  %9 = aten.call "aten._to_copy.default"(self = %8, device = #aten.device<"cpu">) : (tensor<4x4xbf16>) -> tensor<4x4xbf16>
  // The backward pass of attention with dropout reads the random state, which is
  // not on the device. Without dropout it is given one and does not read it.
  // CHECK: "aten::_scaled_dot_product_flash_attention_backward", "alias": "fresh", "replayable": true, "unread": [12, 13], "args"
  %11:3 = aten.call "aten._scaled_dot_product_flash_attention_backward.default"(grad_out = %q, query = %q, key = %q, value = %q, out = %4, logsumexp = %q, cum_seq_q = none, cum_seq_k = none, max_q = 4, max_k = 4, dropout_p = 0.0, is_causal = false, philox_seed = %ids, philox_offset = %ids) : (tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>, tensor<2xi64>, tensor<2xi64>) -> (tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>)
  // CHECK-NEXT: "aten::_scaled_dot_product_flash_attention_backward", "alias": "fresh", "replayable": false, "args"
  %12:3 = aten.call "aten._scaled_dot_product_flash_attention_backward.default"(grad_out = %q, query = %q, key = %q, value = %q, out = %4, logsumexp = %q, cum_seq_q = none, cum_seq_k = none, max_q = 4, max_k = 4, dropout_p = 0.1, is_causal = false, philox_seed = %ids, philox_offset = %ids) : (tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>, tensor<2xi64>, tensor<2xi64>) -> (tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>)
  // CHECK-NEXT: "aten::view"
  // CHECK-NEXT: "aten::_flash_attention_forward", "alias": "fresh", "replayable": false, "args"
  %f = aten.call "aten.view.default"(self = %3, size = [4, 1, 4]) : (tensor<4x4xf32>) -> tensor<4x1x4xf32>
  %13:4 = aten.call "aten._flash_attention_forward.default"(query = %f, key = %f, value = %f, cum_seq_q = %ids, cum_seq_k = %ids, max_q = 4, max_k = 4, dropout_p = 0.000000e+00, is_causal = true, return_debug_mask = false) {undefined = array<i64: 4>} : (tensor<4x1x4xf32>, tensor<4x1x4xf32>, tensor<4x1x4xf32>, tensor<2xi64>, tensor<2xi64>) -> (tensor<4x1x4xf32>, tensor<1x4xf32>, tensor<2xui64>, tensor<ui64>)
  // CHECK-NEXT: "aten::_flash_attention_backward", "alias": "fresh", "replayable": true, "unread": [12, 13], "args"
  %14:3 = aten.call "aten._flash_attention_backward.default"(grad_out = %f, query = %f, key = %f, value = %f, out = %13#0, logsumexp = %13#1, cum_seq_q = %ids, cum_seq_k = %ids, max_q = 4, max_k = 4, dropout_p = 0.0, is_causal = true, rng_state = %13#2, unused = %13#3) : (tensor<4x1x4xf32>, tensor<4x1x4xf32>, tensor<4x1x4xf32>, tensor<4x1x4xf32>, tensor<4x1x4xf32>, tensor<1x4xf32>, tensor<2xi64>, tensor<2xi64>, tensor<2xui64>, tensor<ui64>) -> (tensor<4x1x4xf32>, tensor<4x1x4xf32>, tensor<4x1x4xf32>)
  // libtorch reads the ends of groups from most devices.
  // CHECK-NEXT: "aten::_grouped_mm", "alias": "fresh", "replayable": false, "args"
  %15 = aten.call "aten._grouped_mm.default"(self = %5, mat2 = %f, offs = %ids) : (tensor<4x4xf32>, tensor<4x1x4xf32>, tensor<2xi64>) -> tensor<4x4xf32>
  // CHECK-NEXT: "aten::sum", "alias": "fresh", "replayable": true, "args"
  %10 = aten.call "aten.sum.default"(self = %9) : (tensor<4x4xbf16>) -> tensor<bf16>
  fcdp.loss %10 : tensor<bf16>
  return
}
func.func @update() attributes {fcdp.role = #fcdp.role<update>} {
  fcdp.shard_update @b scale 1.0 with #fcdp.sgd<lr = 0.0, momentum = 0.0, dampening = 0.0, weight_decay = 0.0, nesterov = false>
  return
}
}
