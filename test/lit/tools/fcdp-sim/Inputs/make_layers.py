# SPDX-License-Identifier: Apache-2.0
"""Prints a step of LAYERS products, each with a bucket of its own. Usage: make_layers.py LAYERS"""

import sys

layers = int(sys.argv[1])
matrix, rows = "tensor<64x64xf32>", "tensor<8x64xf32>"
names = [f"model.decoder.transformer_layers.{layer}.feed_forward_network" for layer in range(layers)]
symbols, forward, backward, gradients = [], [], [], []


def call(result: str, name: str, arguments: str, types: str) -> str:
    return f'    %{result} = aten.call "aten.{name}.default"({arguments}) : {types}'


product = f"({rows}, {matrix}) -> {rows}"
for i, name in enumerate(names):
    symbols.append(f'  fcdp.parameter @w{i} : {matrix} unit "{name}" trainable names ["{name}.weight"]')
    forward.append(f"    %w{i} = fcdp.read_parameter @w{i} : {matrix}")
    forward.append(call(f"y{i + 1}", "mm", f"self = %y{i}, mat2 = %w{i}", product))
for i in reversed(range(layers)):
    backward.append(call(f"yt{i}", "t", f"self = %y{i}", f"({rows}) -> tensor<64x8xf32>"))
    backward.append(call(f"dw{i}", "mm", f"self = %yt{i}, mat2 = %g{i + 1}", f"(tensor<64x8xf32>, {rows}) -> {matrix}"))
    backward.append(call(f"wt{i}", "t", f"self = %w{i}", f"({matrix}) -> {matrix}"))
    backward.append(call(f"g{i}", "mm", f"self = %g{i + 1}, mat2 = %wt{i}", product))
    gradients.append(f"    fcdp.gradient %dw{i} of @w{i} : {matrix}")
lines = [
    "module attributes {fcdp.phase = #fcdp.phase<imported>} {",
    *symbols,
    f'  fcdp.input @x : {rows} name "x"',
    "  func.func @step() {",
    f"    %y0 = fcdp.read_input @x : {rows}",
    *forward,
    call("loss", "sum", f"self = %y{layers}", f"({rows}) -> tensor<f32>"),
    call(f"g{layers}", "ones_like", f"self = %y{layers}", f"({rows}) -> {rows}"),
    *backward,
    "    fcdp.loss %loss : tensor<f32>",
    *gradients,
    "    return",
    "  }",
    "}",
]
print("\n".join(lines))
