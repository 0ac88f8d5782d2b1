# SPDX-License-Identifier: Apache-2.0
"""Writes small .pt2 archives as torch.export.save does, without torch."""

import json
import zipfile

U8, I8, I16, I32, I64, F16, F32, F64 = range(1, 9)
C64, BOOL, BF16, F8E4M3FN = 10, 12, 13, 29


def size(value):
    """A SymInt: an integer, or the name of a symbol."""
    if isinstance(value, int):
        return {"as_int": value}
    return {"as_expr": {"expr_str": f"Symbol('{value}', positive=True, integer=True)", "hint": {"as_int": 8}}}


def meta(shape, dtype=F32):
    strides, step = [], 1
    for extent in reversed(shape):
        strides.insert(0, size(step))
        step *= extent if isinstance(extent, int) else 1
    return {
        "dtype": dtype,
        "sizes": [size(extent) for extent in shape],
        "requires_grad": False,
        "device": {"type": "cpu", "index": None},
        "strides": strides,
        "storage_offset": {"as_int": 0},
        "layout": 7,
    }


class Model:
    """A model under construction. Values are given by name."""

    def __init__(self):
        self.tensors, self.nodes = {}, []
        self.integers = {}
        self.input_specs, self.output_specs = [], []
        self.version = {"major": 8, "minor": 20}
        self.config = {"weights": {}, "constants": {}}

    def value(self, name, shape, dtype=F32):
        self.tensors[name] = meta(shape, dtype)
        return name

    def _input(self, kind, name, shape, dtype, prefix, **more):
        value = self.value(prefix + name.replace(".", "_"), shape, dtype)
        self.input_specs.append({kind: {"arg": {"name": value}, f"{kind}_name": name, **more}})
        return value

    def parameter(self, name, shape, dtype=F32):
        return self._input("parameter", name, shape, dtype, "p_")

    def buffer(self, name, shape, dtype=F32, persistent=True):
        return self._input("buffer", name, shape, dtype, "b_", persistent=persistent)

    def constant(self, name, shape, dtype=F32):
        return self._input("tensor_constant", name, shape, dtype, "c_")

    def input(self, name, shape, dtype=F32):
        self.input_specs.append({"user_input": {"arg": {"as_tensor": {"name": self.value(name, shape, dtype)}}}})
        return name

    def call(self, target, arguments, *results, label=None, name=None):
        """Arguments are names of values, or written as in the archive; results are names, lists of them, None, or
        written as in the archive."""

        def result(value):
            if isinstance(value, dict):
                return value
            if isinstance(value, list):
                return {"as_tensors": [{"name": element} for element in value]}
            return {"as_none": True} if value is None else {"as_tensor": {"name": value}}

        def argument(value):
            return {"as_tensor": {"name": value}} if isinstance(value, str) else value

        first = next((value for value in results if isinstance(value, str)), target)
        self.nodes.append(
            {
                "target": f"torch.ops.{target}" if target.startswith("aten.") else target,
                "inputs": [{"name": key, "arg": argument(value), "kind": 1} for key, value in arguments.items()],
                "outputs": [result(value) for value in results],
                "metadata": {"custom": json.dumps(label)} if label else {},
                "is_hop_single_tensor_return": None,
                "name": name or first,
            }
        )
        return results[0] if results else None

    def output(self, kind, value, **more):
        self.output_specs.append({kind: {"arg": {"name": value}, **more}})

    def loss(self, value):
        self.output("loss_output", value)

    def gradient(self, parameter, value):
        self.output("gradient_to_parameter", value, parameter_name=parameter)

    def mutation(self, buffer, value):
        self.output("buffer_mutation", value, buffer_name=buffer)

    def json(self):
        return {
            "graph_module": {
                "graph": {
                    "inputs": [],
                    "outputs": [],
                    "nodes": self.nodes,
                    "tensor_values": self.tensors,
                    "sym_int_values": self.integers,
                },
                "signature": {"input_specs": self.input_specs, "output_specs": self.output_specs},
                "module_call_graph": [],
                "metadata": {},
            },
            "opset_version": {"aten": 10},
            "range_constraints": {},
            "schema_version": self.version,
            "verifiers": ["ATEN"],
            "torch_version": "2.13.0+cpu",
            "guards_code": [],
        }

    def save(self, path, extras=None, entries={}):
        """`entries` replaces entries, None removes one."""
        contents = {"archive_format": "pt2", "archive_version": "0", "byteorder": "little"}
        contents["models/model.json"] = json.dumps(self.json())
        for kind, config in self.config.items():
            contents[f"data/{kind}/model_{kind}_config.json"] = json.dumps({"config": config})
        if extras is not None:
            contents["extra/fcdp.json"] = json.dumps({"fcdp": 1, "ties": {}, "units": [], **extras})
        contents.update(entries)
        with zipfile.ZipFile(path, "w") as file:
            for name, text in contents.items():
                if text is not None:
                    file.writestr(f"step/{name}", text)


def step():
    """A step of one parameter: loss = sum(x w^T). Tests add to it or break it."""
    model = Model()
    w = model.parameter("fc.weight", [3, 4])
    x = model.input("x", [2, 4])
    t = model.call("aten.t.default", {"self": w}, model.value("t", [4, 3]))
    mm = model.call("aten.mm.default", {"self": x, "mat2": t}, model.value("mm", [2, 3]))
    model.loss(model.call("aten.sum.default", {"self": mm}, model.value("sum_1", [])))
    ones = model.call(
        "aten.ones.default",
        {"size": {"as_ints": [3, 2]}, "dtype": {"as_scalar_type": F32}},
        model.value("ones", [3, 2]),
    )
    model.gradient("fc.weight", model.call("aten.mm.default", {"self": ones, "mat2": x}, model.value("g", [3, 4])))
    return model
