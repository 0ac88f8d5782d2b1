# SPDX-License-Identifier: Apache-2.0
"""Prints an imported step of UNITS units, each a matrix product with a parameter of N x N, forward and backward."""

import sys

units, n = map(int, sys.argv[1:])
T = f"tensor<{n}x{n}xf32>"


def call(result: str, operator: str, **operands: str) -> str:
    arguments = ", ".join(f"{name} = %{value}" for name, value in operands.items())
    types = ", ".join([T] * len(operands))
    return f'    %{result} = aten.call "aten.{operator}"({arguments}) : ({types}) -> {T}'


print("module attributes {fcdp.phase = #fcdp.phase<imported>} {")
print(f'  fcdp.input @x : {T} name "x"')
for i in range(units):
    print(f'  fcdp.parameter @w{i} : {T} unit "{i}" trainable names ["w{i}"]')
print(f"  func.func @step() {{\n    %h0 = fcdp.read_input @x : {T}")
for i in range(units):
    print(f"    %w{i} = fcdp.read_parameter @w{i} : {T}")
for i in range(units):
    print(call(f"h{i + 1}", "mm.default", self=f"h{i}", mat2=f"w{i}"))
print(f'    %l = aten.call "aten.sum.default"(self = %h{units}) : ({T}) -> tensor<f32>\n    fcdp.loss %l : tensor<f32>')
print(call(f"g{units}", "neg.default", self=f"h{units}"))
for i in reversed(range(units)):
    print(call(f"t{i}", "t.default", self=f"h{i}"))
    print(call(f"d{i}", "mm.default", self=f"t{i}", mat2=f"g{i + 1}"))
    print(call(f"u{i}", "t.default", self=f"w{i}"))
    print(call(f"g{i}", "mm.default", self=f"g{i + 1}", mat2=f"u{i}"))
    print(f"    fcdp.gradient %d{i} of @w{i} : {T}")
print("    return\n  }\n}")
