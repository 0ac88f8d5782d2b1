// RUN: fcdp-opt %s --split-input-file --verify-diagnostics --fcdp-retarget=target=cuda

module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.input @q : tensor<2x4x20x8xf16> name "q"
  fcdp.input @documents : tensor<2x19xi64> name "documents"
  func.func @step() {
    %q = fcdp.read_input @q : tensor<2x4x20x8xf16>
    %d = fcdp.read_input @documents : tensor<2x19xi64>
    // expected-error @+1 {{expected the operands and results of 'fcdp.packed_attention.default' as fcdp.export writes them: query, key and value [batch, heads, tokens, depth], and documents and positions [batch, tokens]}}
    %a:2 = aten.call "fcdp.packed_attention.default"(query = %q, key = %q, value = %q, documents = %d) : (tensor<2x4x20x8xf16>, tensor<2x4x20x8xf16>, tensor<2x4x20x8xf16>, tensor<2x19xi64>) -> (tensor<2x4x20x8xf16>, tensor<2x4x20xf32>)
    %l = aten.call "aten.sum.default"(self = %a#0) : (tensor<2x4x20x8xf16>) -> tensor<f16>
    fcdp.loss %l : tensor<f16>
    return
  }
}
