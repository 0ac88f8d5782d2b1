# SPDX-License-Identifier: Apache-2.0
"""Kernels that the compiler writes: the bits of PyTorch's operators, at each level of processors, and whole steps."""

import platform
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from harness import BIN, Config, Workshop, assert_bit_equal, read_plan
from kernel_functions import KernelFunction, Sleef, make_exp, runnable_levels, step_text

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="kernels are compiled for x86-64")

BF16, F32 = torch.bfloat16, torch.float32
aten = torch.ops.aten


@dataclass(frozen=True)
class Operator:
    """An operator, its arguments in MLIR, the number of its tensors, and itself."""

    name: str
    arguments: str
    operands: int
    run: Callable[..., torch.Tensor]


OPERATORS = [
    Operator("aten.add.Tensor", "self = %0, other = %1", 2, torch.add),
    Operator("aten.add.Tensor", "self = %0, other = 0.3", 1, lambda x: x + 0.3),
    Operator("aten.sub.Tensor", "self = %0, other = %1", 2, torch.sub),
    Operator("aten.sub.Tensor", "self = %0, other = 0.3", 1, lambda x: x - 0.3),
    Operator("aten.mul.Tensor", "self = %0, other = %1", 2, torch.mul),
    Operator("aten.mul.Tensor", "self = %0, other = 0.3", 1, lambda x: x * 0.3),
    Operator("aten.mul.Scalar", "self = %0, other = 3", 1, lambda x: aten.mul.Scalar(x, 3)),
    Operator("aten.div.Tensor", "self = %0, other = %1", 2, torch.div),
    Operator("aten.div.Tensor", "self = %0, other = 0.3", 1, lambda x: x / 0.3),
    Operator("aten.neg.default", "self = %0", 1, torch.neg),
    Operator("aten.rsqrt.default", "self = %0", 1, torch.rsqrt),
    Operator("aten.sigmoid.default", "self = %0", 1, torch.sigmoid),
    Operator("aten.silu.default", "self = %0", 1, F.silu),
    Operator("aten.silu_backward.default", "grad_output = %0, self = %1", 2, aten.silu_backward.default),
]
COUNT = 1 << 16


def make_values(dtype: torch.dtype, seed: int) -> torch.Tensor:
    """All values of bf16, or values of f32 of random bits and of usual size, with infinities, NaN, zeros and
    denormal numbers."""
    generator = torch.Generator().manual_seed(seed)
    if dtype == BF16:
        order = torch.randperm(COUNT, generator=generator) if seed else torch.arange(COUNT)
        return order.to(torch.int32).to(torch.int16).view(BF16)
    bits = torch.randint(-(2**31), 2**31, (COUNT // 2,), generator=generator).to(torch.int32).view(F32)
    special = torch.tensor([0.0, -0.0, float("inf"), -float("inf"), float("nan"), 1e-40, -1e-45, 88.0, 89.0, -87.5, -104.0, 3e38])
    usual = torch.randn(COUNT // 2, generator=generator) * 5
    usual[: len(special) ** 2] = special.repeat_interleave(len(special)) if seed == 0 else special.repeat(len(special))
    return torch.cat([usual, bits])


def assert_same_bits(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    """Any NaN equals any other."""
    words = torch.int16 if ours.dtype == BF16 else torch.int32
    differs = (ours.view(words) != theirs.view(words)) & ~(ours.isnan() & theirs.isnan())
    assert not differs.any(), f"{int(differs.sum())} values differ, the first is {ours[differs][0]}, not {theirs[differs][0]}"


@pytest.mark.parametrize("dtype", [F32, BF16], ids=str)
def test_operators(tmp_path: Path, dtype: torch.dtype) -> None:
    """Whole tensors have the bits of PyTorch's operators. So has each part, whose ends are anywhere, and nothing is
    written beside it. Both levels have the same bits."""
    for number, operator in enumerate(OPERATORS):
        folder = tmp_path / str(number)
        folder.mkdir()
        given = [([COUNT], dtype)] * operator.operands
        function = KernelFunction(BIN / "fcdp-compile", step_text(operator.name, operator.arguments, given, dtype), folder)
        values = [make_values(dtype, seed) for seed in range(operator.operands)]
        expected = -operator.run(*values)
        for level in runnable_levels():
            out = torch.empty(COUNT, dtype=dtype)
            function.run(level, values, out, 0, COUNT)
            assert_same_bits(out, expected)
            part = torch.full([COUNT], 7, dtype=dtype)
            ends = [0, 0, 1, 16, 33, 64, 79, 1082]
            for begin, end in zip(ends, ends[1:]):
                function.run(level, values, part, begin, end)
            assert_same_bits(part[: ends[-1]], expected[: ends[-1]])
            assert (part[ends[-1] :] == 7).all()


@pytest.mark.parametrize("source, target", [(F32, BF16), (BF16, F32)], ids=str)
def test_casts(tmp_path: Path, source: torch.dtype, target: torch.dtype) -> None:
    arguments = "self = %0, dtype = " + ("bf16" if target == BF16 else "f32")
    function = KernelFunction(BIN / "fcdp-compile", step_text("aten._to_copy.default", arguments, [([COUNT], source)], target), tmp_path)
    values = make_values(source, 0)
    for level in runnable_levels():
        out = torch.empty(COUNT, dtype=target)
        function.run(level, [values], out, 0, COUNT)
        assert_same_bits(out, -values.to(target))


@pytest.mark.parametrize("shape", [[8], [5, 1], [1]], ids=["row", "column", "scalar"])
def test_maps(tmp_path: Path, shape: list[int]) -> None:
    """Rows of 8 elements are shorter than a vector."""
    function = KernelFunction(BIN / "fcdp-compile", step_text("aten.mul.Tensor", "self = %0, other = %1", [([5, 8], BF16), (shape, BF16)], BF16), tmp_path)
    x, y = torch.randn(5, 8).to(BF16), torch.randn(shape).to(BF16)
    for level in runnable_levels():
        out = torch.zeros(5, 8, dtype=BF16)
        function.run(level, [x, y], out, *((0, 40) if shape == [1] else (1, 4, 8)))
        rows = slice(None) if shape == [1] else slice(1, 4)
        assert_same_bits(out[rows], -(x * y)[rows])
        assert shape == [1] or not (out[0].any() or out[4].any())


def test_exp(tmp_path: Path) -> None:
    """The inline exponential function has the library's bits. benchmarks/kernels compares all values."""
    exp, values = make_exp(BIN / "fcdp-compile", tmp_path), make_values(F32, 0)
    expected = Sleef(tmp_path).exp(values)
    for level in runnable_levels():
        out = torch.empty_like(values)
        exp.run(level, [values], out, 0, COUNT)
        assert_same_bits(out, expected)


def test_steps(workshop: Workshop) -> None:
    """Losses and parameters are those of operators, bit for bit, on all ranks and with another strategy. Values in use
    take no more memory; their places may leave other gaps."""
    config = Config("hf_llama", 2, 2, "fcdp", 2, optimizer="adamw,lr=1e-2")
    plain, fused = (workshop.run(one, 3) for one in (config, replace(config, fuse="exact")))
    assert fused.losses == plain.losses
    assert_bit_equal(fused, plain)
    assert_bit_equal(workshop.run(replace(config, strategy="zero3", fuse="exact"), 3), plain)
    # The first step has results at planned places, too, also if a kernel has several.
    assert fused.steps[0]["device_peak_bytes"] <= 1.001 * plain.steps[0]["device_peak_bytes"]
    plans = [read_plan(workshop.step(one)) for one in (config, replace(config, fuse="exact"))]
    assert plans[1]["planned"]["device_bytes"] <= 1.001 * plans[0]["planned"]["device_bytes"]
    calls = [op["overload"] for op in plans[1]["ops"] if op.get("callee") == "fcdp::kernel"]
    assert {"silu_mul", "mul_silu_backward"} <= set(calls)
    assert "aten::silu" not in {op.get("callee") for op in plans[1]["ops"]}
