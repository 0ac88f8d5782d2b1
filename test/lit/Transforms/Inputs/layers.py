# SPDX-License-Identifier: Apache-2.0
"""Prints an imported step of UNITS units, forward and backward.

Each is a product of ROWS x N values with a parameter of N x N, and three operators without parameters. The backward
pass reads all values of the forward pass."""

import sys

units, rows, n = map(int, sys.argv[1:])
WIDE, PARAMETER = f"tensor<{rows}x{n}xf32>", f"tensor<{n}x{n}xf32>"


def call(result: str, operator: str, to: str, **operands: tuple[str, str]) -> str:
    arguments = ", ".join(f"{name} = %{value}" for name, (value, _) in operands.items())
    types = ", ".join(kind for _, kind in operands.values())
    return f'    %{result} = aten.call "aten.{operator}"({arguments}) : ({types}) -> {to}'


def point(result: str, operator: str, *values: str) -> str:
    return call(result, operator, WIDE, **dict(zip(("self", "other"), [(value, WIDE) for value in values], strict=False)))


print("module attributes {fcdp.phase = #fcdp.phase<imported>} {")
print(f'  fcdp.input @x : {WIDE} name "x"')
for i in range(units):
    print(f'  fcdp.parameter @w{i} : {PARAMETER} unit "{i}" trainable names ["w{i}"]')
print(f"  func.func @step() {{\n    %h0 = fcdp.read_input @x : {WIDE}")
for i in range(units):
    print(f"    %w{i} = fcdp.read_parameter @w{i} : {PARAMETER}")
for i in range(units):
    print(call(f"a{i}", "mm.default", WIDE, self=(f"h{i}", WIDE), mat2=(f"w{i}", PARAMETER)))
    print(point(f"b{i}", "sigmoid.default", f"a{i}"))
    print(point(f"c{i}", "tanh.default", f"b{i}"))
    print(point(f"h{i + 1}", "mul.Tensor", f"b{i}", f"c{i}"))
print(f'    %l = aten.call "aten.sum.default"(self = %h{units}) : ({WIDE}) -> tensor<f32>\n    fcdp.loss %l : tensor<f32>')
print(point(f"g{units}", "neg.default", f"h{units}"))
for i in reversed(range(units)):
    print(point(f"e{i}", "mul.Tensor", f"g{i + 1}", f"c{i}"))
    print(point(f"f{i}", "mul.Tensor", f"e{i}", f"b{i}"))
    print(point(f"k{i}", "mul.Tensor", f"f{i}", f"a{i}"))
    print(call(f"t{i}", "t.default", f"tensor<{n}x{rows}xf32>", self=(f"h{i}", WIDE)))
    print(call(f"d{i}", "mm.default", PARAMETER, self=(f"t{i}", f"tensor<{n}x{rows}xf32>"), mat2=(f"k{i}", WIDE)))
    print(call(f"u{i}", "t.default", PARAMETER, self=(f"w{i}", PARAMETER)))
    print(call(f"g{i}", "mm.default", WIDE, self=(f"k{i}", WIDE), mat2=(f"u{i}", PARAMETER)))
    print(f"    fcdp.gradient %d{i} of @w{i} : {PARAMETER}")
print("    return\n  }\n}")
