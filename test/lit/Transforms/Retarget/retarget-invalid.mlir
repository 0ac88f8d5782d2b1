// RUN: split-file %s %t
// RUN: not fcdp-opt %t/phase.mlir --fcdp-retarget=target=cuda 2>&1 | FileCheck %s --check-prefix=PHASE
// PHASE: error: expected a module in phase 'imported'
// RUN: not fcdp-opt %t/cuda.mlir --fcdp-retarget=target=tpu 2>&1 | FileCheck %s --check-prefix=TARGET
// TARGET: error: target: expected 'cpu' or 'cuda', got 'tpu'
// RUN: not fcdp-opt %t/cuda.mlir --fcdp-retarget=target=cpu 2>&1 | FileCheck %s --check-prefix=BACK
// BACK: error: expected the target 'cuda', which the step is made for, got 'cpu'; export the model on the CPU, which serves both

// A step that was exported on CUDA keeps all but the numbers of its devices.
// RUN: fcdp-opt %t/cuda.mlir --fcdp-retarget | FileCheck %s --check-prefix=KEPT
// KEPT: fcdp.target = "cuda"
// KEPT: "aten.zeros.default"(size = [2], device = #aten.device<"cuda">)
// KEPT: "aten.ones.default"(size = [2], device = #aten.device<"cpu">)

// RUN: fcdp-opt %t/calls.mlir --split-input-file --fcdp-retarget=target=cuda --verify-diagnostics

//--- phase.mlir
module {}
//--- cuda.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>, fcdp.target = "cuda"} {
  func.func @step() {
    %0 = aten.call "aten.zeros.default"(size = [2], device = #aten.device<"cuda:3">) : () -> tensor<2xf32>
    %1 = aten.call "aten.ones.default"(size = [2], device = #aten.device<"cpu">) : () -> tensor<2xf32>
    return
  }
}
//--- calls.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.input @x : tensor<2x3xf32> name "x"
  func.func @step() {
    %x = fcdp.read_input @x : tensor<2x3xf32>
    // expected-error@+1 {{'aten.histogram.bin_ct' has no kernel for CUDA in PyTorch; export the model on a CUDA device, where it chooses another operator}}
    %h:2 = aten.call "aten.histogram.bin_ct"(self = %x, bins = 4) : (tensor<2x3xf32>) -> (tensor<4xf32>, tensor<5xf32>)
    // expected-error@+1 {{expected a step on the device 'cpu', got the device 'mps:0'}}
    %z = aten.call "aten.zeros.default"(size = [2], device = #aten.device<"mps:0">) : () -> tensor<2xf32>
    return
  }
}

// -----

module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.input @q : tensor<2x4x20x8xf64> name "q"
  fcdp.input @x : tensor<4x20x8xf32> name "x"
  fcdp.input @s : tensor<2x4x20x8xf32> name "s"
  func.func @step() {
    %q = fcdp.read_input @q : tensor<2x4x20x8xf64>
    %x = fcdp.read_input @x : tensor<4x20x8xf32>
    %s = fcdp.read_input @s : tensor<2x4x20x8xf32>
    // expected-error@+1 {{attention in 'f64' has no kernel for CUDA: export the model in f32, bf16 or f16, or under torch.nn.attention.sdpa_kernel(SDPBackend.MATH)}}
    %a:2 = aten.call "aten._scaled_dot_product_flash_attention_for_cpu.default"(query = %q, key = %q, value = %q) : (tensor<2x4x20x8xf64>, tensor<2x4x20x8xf64>, tensor<2x4x20x8xf64>) -> (tensor<2x4x20x8xf64>, tensor<2x4x20xf64>)
    // expected-error@+1 {{expected the operands and results of 'aten._scaled_dot_product_flash_attention_for_cpu.default' as PyTorch exports them}}
    %b:2 = aten.call "aten._scaled_dot_product_flash_attention_for_cpu.default"(query = %x, key = %x, value = %x) : (tensor<4x20x8xf32>, tensor<4x20x8xf32>, tensor<4x20x8xf32>) -> (tensor<4x20x8xf32>, tensor<4x20xf32>)
    // expected-error@+1 {{expected dropout_p 0, got 1.000000e-01 : f64: the CPU's attention drops nothing}}
    %c:2 = aten.call "aten._scaled_dot_product_flash_attention_for_cpu.default"(query = %s, key = %s, value = %s, dropout_p = 0.1) : (tensor<2x4x20x8xf32>, tensor<2x4x20x8xf32>, tensor<2x4x20x8xf32>) -> (tensor<2x4x20x8xf32>, tensor<2x4x20xf32>)
    return
  }
}

// -----

module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.input @s : tensor<2x4x20x8xf32> name "s"
  fcdp.input @l : tensor<2x4x20xf32> name "l"
  func.func @step() {
    %s = fcdp.read_input @s : tensor<2x4x20x8xf32>
    %l = fcdp.read_input @l : tensor<2x4x20xf32>
    // expected-error@+1 {{expected the argument 'logsumexp' of 'aten._scaled_dot_product_flash_attention_for_cpu_backward.default' to be a result of 'aten._scaled_dot_product_flash_attention_for_cpu.default' with operands of these types, and 'grad_out' to be of the query's}}
    %g:3 = aten.call "aten._scaled_dot_product_flash_attention_for_cpu_backward.default"(grad_out = %s, query = %s, key = %s, value = %s, out = %s, logsumexp = %l, dropout_p = 0.0, is_causal = true) : (tensor<2x4x20x8xf32>, tensor<2x4x20x8xf32>, tensor<2x4x20x8xf32>, tensor<2x4x20x8xf32>, tensor<2x4x20x8xf32>, tensor<2x4x20xf32>) -> (tensor<2x4x20x8xf32>, tensor<2x4x20x8xf32>, tensor<2x4x20x8xf32>)
    return
  }
}

// -----

module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.input @s : tensor<2x4x20x8xf32> name "s"
  func.func @step() {
    %s = fcdp.read_input @s : tensor<2x4x20x8xf32>
    %a:2 = aten.call "aten._scaled_dot_product_flash_attention_for_cpu.default"(query = %s, key = %s, value = %s) : (tensor<2x4x20x8xf32>, tensor<2x4x20x8xf32>, tensor<2x4x20x8xf32>) -> (tensor<2x4x20x8xf32>, tensor<2x4x20xf32>)
    // expected-error@+1 {{reads the log-sum-exp of attention, which only its backward pass can on CUDA}}
    %l = aten.call "aten.sum.default"(self = %a#1) : (tensor<2x4x20xf32>) -> tensor<f32>
    fcdp.loss %l : tensor<f32>
    return
  }
}
