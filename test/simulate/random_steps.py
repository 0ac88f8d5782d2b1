# SPDX-License-Identifier: Apache-2.0
"""Imported modules of small random steps: a chain of layers, each with a weight and maybe a bias, some frozen, some
read in bf16, some used again at the end."""

VALUE = "tensor<4x4xf32>"
NARROW = "tensor<4x4xbf16>"


class Step:
    def __init__(self, random, narrow=0.25):
        self.random, self.narrow = random, narrow
        self.declared, self.lines, self.gradients, self.count = [], [], {}, 0

    def call(self, callee, arguments, types, result=VALUE):
        name = f"%v{self.count}"
        self.count += 1
        self.lines.append(f'{name} = aten.call "aten.{callee}"({arguments}) : ({", ".join(types)}) -> {result}')
        return name

    def binary(self, callee, a, b):
        return self.call(callee, f"self = {a}, other = {b}", [VALUE, VALUE])

    def read(self, unit, name):
        trained = self.random.random() < 0.75
        self.declared.append(
            f'fcdp.parameter @{name} : {VALUE} unit "{unit}"{" trainable" if trained else ""} names ["{name}"]'
        )
        self.lines.append(f"%{name} = fcdp.read_parameter @{name} : {VALUE}")
        return name, trained

    def use(self, name, narrow):
        """A value to compute with; in bf16 the weight is gathered in it."""
        if not narrow:
            return f"%{name}"
        half = self.call("_to_copy.default", f"self = %{name}, dtype = bf16", [VALUE], NARROW)
        return self.call("_to_copy.default", f"self = {half}, dtype = f32", [NARROW])

    def make_gradient(self, gradient, value):
        if self.random.random() < 0.5:
            return self.binary("mul.Tensor", gradient, value)
        # An operator that may write it straight into its bucket.
        return self.call("mm.default", f"self = {gradient}, mat2 = {value}", [VALUE, VALUE])

    def add_gradient(self, name, value):
        old = self.gradients.get(name)
        self.gradients[name] = value if old is None else self.binary("add.Tensor", old, value)

    def text(self):
        layers = []
        for i in range(self.random.randint(2, 3)):
            weight, narrow = self.read(f"u{i}", f"w{i}"), self.random.random() < self.narrow
            bias = self.read(f"u{i}", f"b{i}") if self.random.random() < 0.4 else None
            layers.append((weight, narrow, bias))
        if self.random.random() < 0.4:
            layers.append((layers[0][0], layers[0][1], None))  # tied
        self.lines.append(f"%x = fcdp.read_input @x : {VALUE}")
        value, inputs = "%x", []
        for (weight, _), narrow, bias in layers:
            inputs.append(value)
            value = self.binary("mul.Tensor", value, self.use(weight, narrow))
            if bias:
                value = self.binary("add.Tensor", value, f"%{bias[0]}")
        loss = self.call("sum.default", f"self = {value}", [VALUE], "tensor<f32>")
        gradient = self.call("ones_like.default", f"self = {value}", [VALUE])
        for ((weight, trained), narrow, bias), value in zip(reversed(layers), reversed(inputs)):
            if bias and bias[1]:
                self.add_gradient(bias[0], self.call("clone.default", f"self = {gradient}", [VALUE]))
            if trained:
                self.add_gradient(weight, self.make_gradient(gradient, value))
            gradient = self.binary("mul.Tensor", gradient, self.use(weight, narrow))
        self.lines.append(f"fcdp.loss {loss} : tensor<f32>")
        self.lines += [f"fcdp.gradient {v} of @{n} : {VALUE}" for n, v in self.gradients.items()]
        body = "\n    ".join([*self.lines, "return"])
        declared = "\n  ".join([*self.declared, f'fcdp.input @x : {VALUE} name "x"'])
        return (
            "module attributes {fcdp.phase = #fcdp.phase<imported>} {\n  "
            f"{declared}\n  func.func @step() {{\n    {body}\n  }}\n}}\n"
        )
