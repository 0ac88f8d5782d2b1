# SPDX-License-Identifier: Apache-2.0
"""Runs the program of an imported step operator by operator: on fake CUDA tensors, or on the CPU with the operators
that CUDA alone has written out."""

import math
import re
import struct
import sys
from collections.abc import Mapping
from typing import Any

import torch

from harness import ROOT

sys.path.insert(0, str(ROOT / "test/simulate"))

import ir  # noqa: E402

DTYPES = {
    "f32": torch.float32,
    "f64": torch.float64,
    "bf16": torch.bfloat16,
    "f16": torch.float16,
    "i64": torch.int64,
    "i32": torch.int32,
    "i1": torch.bool,
    "ui64": torch.uint64,
}
FORMATS = {
    "contiguous": torch.contiguous_format,
    "preserve": torch.preserve_format,
    "channels_last": torch.channels_last,
}
ATTENTION = tuple(f"_scaled_dot_product_{kernel}_attention" for kernel in ("flash", "cudnn", "efficient"))


def type_of(tensor: torch.Tensor) -> str:
    name = next(key for key, dtype in DTYPES.items() if dtype == tensor.dtype)
    return f"tensor<{'x'.join([*map(str, tensor.shape), name])}>"


def is_dense(result: torch.Tensor, operands: list[torch.Tensor]) -> bool:
    """Whether new memory is what plans reserve for the result, without gaps between its elements."""
    storage = result.untyped_storage()
    is_view = any(storage._cdata == operand.untyped_storage()._cdata for operand in operands)
    return is_view or storage.nbytes() == result.numel() * result.itemsize


class Program:
    """The step of a module in MLIR's generic form. Results are compared with their types."""

    def __init__(self, text: str):
        self.module = ir.Module(text)
        self.step = self.module.functions["step"]

    def calls(self) -> list[str]:
        return [op.attrs["callee"] for op in self.step if op.name == "aten.call"]

    def empty(self, kind: str, symbol: str, device: str) -> torch.Tensor:
        """A value of the type that a parameter, buffer or input has."""
        shape, dtype = ir.shape_of(self.module.of(kind)[symbol]["type"])
        return torch.empty(shape, dtype=DTYPES[dtype], device=device)

    def run(self, read: Any, device: str) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """The loss and the gradients by symbol; `read(kind, symbol)` gives a parameter, a buffer or an input."""
        values: dict[str, Any] = {}
        loss, gradients = None, {}
        for op in self.step:
            operands = [values[name] for name in op.operands]
            if op.name == "aten.call":
                results = self._call(op, operands, device)
                assert [type_of(result) for result in results] == op.result_types, op.attrs["callee"]
                assert all(is_dense(result, operands) for result in results), op.attrs["callee"]
                values.update(zip(op.results, results, strict=True))
            elif op.name.startswith("fcdp.read_"):
                kind = op.name.removeprefix("fcdp.read_")
                values[op.result()] = read(kind, op.attrs["source"])
            elif op.name == "fcdp.loss":
                loss = operands[0]
            elif op.name == "fcdp.gradient":
                gradients[op.attrs["parameter"]] = operands[0]
        assert loss is not None
        return loss, gradients

    def _call(self, op: Any, operands: list[torch.Tensor], device: str) -> list[torch.Tensor]:
        namespace, name, overload = op.attrs["callee"].split(".")
        function = getattr(getattr(getattr(torch.ops, namespace), name), overload)
        schema = {argument.name: argument for argument in function._schema.arguments}
        positional, keywords = [], {}
        given = dict(zip(op.attrs["argNames"], op.attrs["args"], strict=True))
        assert given.keys() <= schema.keys(), (op.attrs["callee"], given.keys() - schema.keys())
        for argument in schema.values():
            if argument.name not in given:
                keywords[argument.name] = argument.default_value
                assert argument.has_default_value(), (op.attrs["callee"], argument.name)
            else:
                keywords[argument.name] = self._argument(given[argument.name], str(argument.type), operands, device)
        for argument in schema.values():
            if not argument.kwarg_only:
                positional.append(keywords.pop(argument.name))
        if device == "cpu" and name.removesuffix("_backward") in ATTENTION:
            results = emulate(name, {**dict(zip(schema, positional, strict=False)), **keywords})
        elif device == "cpu" and name.startswith("_flash_attention_"):
            results = over_sequences(name, {**dict(zip(schema, positional, strict=False)), **keywords})
        elif device == "cpu" and name == "_fused_rms_norm":
            results = rms_norm(*positional)
        elif device == "cpu" and name == "_fused_rms_norm_backward":
            results = rms_norm_backward(*positional)
        else:
            results = function(*positional, **keywords)
        flat = [
            tensor
            for result in (results if isinstance(results, tuple | list) else [results])
            for tensor in (result if isinstance(result, list) else [result])
        ]
        # array<i64: 2, 3>
        undefined = [int(number) for number in re.findall(r"\d+", op.attrs.get("undefined", "")[len("array<i64") :])]
        assert all(flat[position] is None or isinstance(flat[position], int) for position in undefined)
        return [tensor for position, tensor in enumerate(flat) if position not in undefined]

    def _argument(self, value: Any, kind: str, operands: list[torch.Tensor], device: str) -> Any:
        if isinstance(value, tuple) and value[0] == "#aten.operand":
            return operands[value[1]]
        if isinstance(value, tuple) and value[0] == "#aten.operands":
            return [None if index == -1 else operands[index] for index in value[1]]
        if value == "unit":
            return None
        if isinstance(value, str):
            if value in ("cpu", "cuda"):
                return torch.device(device)
            if value in DTYPES:
                return DTYPES[value]
            if value in FORMATS:
                return FORMATS[value]
            return torch.strided if value == "strided" else value
        # A float that is no decimal is written by its bits.
        if isinstance(value, int) and value >= 1 << 60 and "int" not in kind:
            return struct.unpack("<d", struct.pack("<Q", value))[0]
        return value


def emulate(name: str, arguments: Mapping[str, Any]) -> Any:
    """The results of CUDA's kernels, and their requirements on operands."""
    query, key, value = arguments["query"], arguments["key"], arguments["value"]
    bias, flash, cudnn = arguments.get("attn_bias"), "flash" in name, "cudnn" in name
    assert query.shape[-1] % 8 == 0 and all(tensor.stride(-1) == 1 for tensor in (query, key, value))
    assert arguments["dropout_p"] == 0
    if flash:
        assert query.dtype in (torch.bfloat16, torch.float16)
        assert not arguments["is_causal"] or query.shape[2] == key.shape[2]
        times = query.shape[1] // key.shape[1]
    else:
        assert query.shape[1] == key.shape[1]
        times = 1
        if cudnn:
            assert query.dtype in (torch.bfloat16, torch.float16) and query.shape[-1] <= 128 and bias is None
        if bias is not None:
            assert bias.dtype == query.dtype and bias.shape == (*query.shape[:3], key.shape[2])
            assert bias.stride(-1) == 1 and all(stride % 8 == 0 for stride in bias.stride()[:-1])

    def forward(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        k, v = k.repeat_interleave(times, 1), v.repeat_interleave(times, 1)
        scale = arguments["scale"] if arguments["scale"] is not None else 1 / math.sqrt(q.shape[-1])
        scores = scale * q.float() @ k.float().transpose(-1, -2)
        if bias is not None:
            scores = scores + bias.float()
        if arguments["is_causal"]:
            scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -math.inf)
        return (scores.softmax(-1) @ v.float()).to(q.dtype), scores.logsumexp(-1)

    if name.endswith("_backward"):
        grad = arguments["grad_out" if flash or cudnn else "grad_out_"]
        leaves = [tensor.detach().requires_grad_() for tensor in (query, key, value)]
        with torch.enable_grad():
            grads = torch.autograd.grad(forward(*leaves)[0], leaves, grad)
        # Memory as the kernels have it: as the operand's, or token by token.
        if flash or cudnn:
            return tuple(torch.empty_like(t).copy_(g) for t, g in zip((query, key, value), grads, strict=True))
        return (*(g.transpose(1, 2).contiguous().transpose(1, 2) for g in grads), None)
    out, logsumexp = forward(query, key, value)
    if flash:
        seed = torch.zeros(2, dtype=torch.uint64), torch.zeros((), dtype=torch.uint64)
        out = torch.empty_like(query).copy_(out)
        return out, logsumexp, None, None, query.shape[2], key.shape[2], *seed, query.new_empty(0)
    if cudnn:
        numbers = (torch.zeros((), dtype=torch.int64) for _ in range(2))
        out = torch.empty_like(query).copy_(out)
        return out, logsumexp.unsqueeze(-1), None, None, query.shape[2], key.shape[2], *numbers, None
    out = out.transpose(1, 2).contiguous().transpose(1, 2)
    rows = math.ceil(query.shape[2] / 32) * 32 if arguments["compute_log_sumexp"] else 0
    padded = torch.full((*query.shape[:2], rows), math.inf)
    padded[:, :, : query.shape[2]] = logsumexp[:, :, :rows]
    return out, padded, torch.zeros((), dtype=torch.int64), torch.zeros((), dtype=torch.int64)


def over_sequences(name: str, arguments: Mapping[str, Any]) -> Any:
    """CUDA's flash kernel over sequences of several lengths [tokens, heads, depth], each of which is causal."""
    query, bounds = arguments["query"], arguments["cum_seq_q"]
    assert bounds is arguments["cum_seq_k"] and bounds.dtype == torch.int32 and bounds.dim() == 1
    lengths = bounds.diff()
    assert bounds[0] == 0 and bounds[-1] == query.shape[0] and lengths.min() >= 0
    assert lengths.max() <= arguments["max_q"] == arguments["max_k"] and arguments["is_causal"]
    of_tokens = ("grad_out", "query", "key", "value", "out")
    kernel = "_scaled_dot_product" + name.replace("_forward", "")
    results = []
    for begin, end in zip(bounds[:-1].tolist(), bounds[1:].tolist()):
        if begin == end:
            continue
        part = {
            key: value[begin:end].transpose(0, 1)[None] if key in of_tokens else value for key, value in arguments.items()
        }
        results.append([one for one in emulate(kernel, part) if isinstance(one, torch.Tensor)])
    # Each result has a batch of one. The tokens of log-sum-exps are the last dimension.
    attended = [torch.cat([one[i][0].transpose(0, 1) for one in results]) for i in range(3 if "backward" in name else 1)]
    if "backward" in name:
        return tuple(attended)
    sums = torch.cat([one[1][0] for one in results], 1)
    return attended[0], sums, *results[0][2:4], query.new_empty(0)


def rms_norm(
    given: torch.Tensor, shape: list[int], weight: torch.Tensor | None, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """CUDA's kernel, which computes in f32 at least and rounds the result once."""
    dims = tuple(range(-len(shape), 0))
    assert weight is None or (list(weight.shape) == shape and weight.dtype == given.dtype)
    x = given.to(torch.promote_types(given.dtype, torch.float32))
    rstd = torch.rsqrt(x.pow(2).mean(dims, keepdim=True) + eps)
    return (x * rstd * (1 if weight is None else weight.to(x.dtype))).to(given.dtype).contiguous(), rstd


def rms_norm_backward(
    grad: torch.Tensor,
    given: torch.Tensor,
    shape: list[int],
    rstd: torch.Tensor,
    weight: torch.Tensor | None,
    needed: tuple[bool, bool],
) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    inner = tuple(range(-len(shape), 0))
    outer = tuple(range(given.dim() - len(shape)))
    assert weight is None or (list(weight.shape) == shape and weight.dtype == given.dtype)
    x, g = given.to(rstd.dtype) * rstd, grad.to(rstd.dtype)
    h = g if weight is None else g * weight.to(rstd.dtype)
    of_input = (h - x * (h * x).mean(inner, keepdim=True)) * rstd
    return (
        of_input.to(given.dtype).contiguous() if needed[0] else None,
        (g * x).sum(outer).to(given.dtype) if needed[1] else None,
    )
