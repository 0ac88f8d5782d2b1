# SPDX-License-Identifier: Apache-2.0
"""Prints an imported step of UNITS units, each a product with a parameter of ELEMENTS elements, forward and
backward."""

import sys

units, elements = map(int, sys.argv[1:])
T = f"tensor<{elements}xf32>"


def multiply(result: str, value: str, unit: int) -> str:
    return f'    %{result} = aten.call "aten.mul.Tensor"(self = %{value}, other = %w{unit}) : ({T}, {T}) -> {T}'


print("module attributes {fcdp.phase = #fcdp.phase<imported>} {")
print(f'  fcdp.input @x : {T} name "x"')
for i in range(units):
    print(f'  fcdp.parameter @w{i} : {T} unit "{i}" trainable names ["w{i}"]')
print(f"  func.func @step() {{\n    %h0 = fcdp.read_input @x : {T}")
for i in range(units):
    print(f"    %w{i} = fcdp.read_parameter @w{i} : {T}")
for i in range(units):
    print(multiply(f"h{i + 1}", f"h{i}", i))
print(f'    %l = aten.call "aten.sum.default"(self = %h{units}) : ({T}) -> tensor<f32>\n    fcdp.loss %l : tensor<f32>')
print(f'    %g{units} = aten.call "aten.neg.default"(self = %h{units}) : ({T}) -> {T}')
for i in reversed(range(units)):
    print(multiply(f"g{i}", f"g{i + 1}", i))
    print(f"    fcdp.gradient %g{i} of @w{i} : {T}")
print("    return\n  }\n}")
