# SPDX-License-Identifier: Apache-2.0
"""Steps that were exported on the CPU, for CUDA: every operator takes what it is given and gives the shapes that the
program says, by PyTorch's own fake kernels, and loss and gradients are those of the CPU's program, by PyTorch's own
arithmetic. The kernels of GPUs are not tested here."""

import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.functional import scaled_dot_product_attention
from transformers.models.gemma.modeling_gemma import GemmaRMSNorm
from transformers.models.llama.modeling_llama import LlamaRMSNorm

import fcdp
from harness import BIN, ROOT, ToolError, Workshop, read_plan, run_command, tool
from models import MODELS, build
from retargeted import Program


@dataclass(frozen=True)
class Case:
    """Attention over 2 sequences."""

    heads: int = 4
    key_heads: int = 4
    depth: int = 8
    queries: int = 20
    keys: int = 20
    causal: bool = False
    mask: str = ""
    token_major: bool = True
    dtype: torch.dtype = torch.float32

    def kernel(self, capability: float) -> str:
        flash = self.dtype != torch.float32 and not self.mask and not (self.causal and self.queries != self.keys)
        if not flash:
            return "efficient"
        return "cudnn" if capability == 9 and self.heads == self.key_heads else "flash"


CASES = {
    "plain": Case(),
    "causal": Case(causal=True),
    "causal_bf16": Case(causal=True, dtype=torch.bfloat16),
    "causal_f16_long": Case(causal=True, dtype=torch.float16, queries=64, keys=64),
    "causal_bf16_more_keys": Case(causal=True, dtype=torch.bfloat16, keys=33),
    "grouped": Case(key_heads=2),
    "grouped_bf16": Case(key_heads=1, dtype=torch.bfloat16, causal=True),
    "odd_depth": Case(depth=5, causal=True),
    "odd_depth_bf16": Case(depth=12, dtype=torch.bfloat16),
    "odd_depth_grouped": Case(depth=5, key_heads=2),
    "mask": Case(mask="matrix"),
    "mask_aligned": Case(mask="matrix", queries=16, keys=24),
    "mask_bool": Case(mask="bool"),
    "mask_bf16": Case(mask="heads", dtype=torch.bfloat16, key_heads=2),
    "mask_row": Case(mask="row", keys=19),
    "head_major": Case(token_major=False, mask="matrix"),
    "head_major_bf16": Case(token_major=False, dtype=torch.bfloat16),
}


class Attention(nn.Module):
    """Views of the result require the order in memory of the CPU's kernels."""

    def __init__(self, case: Case):
        super().__init__()
        self.case = case
        width, narrow = case.heads * case.depth, case.key_heads * case.depth
        self.query = nn.Linear(16, width, dtype=case.dtype)
        self.key = nn.Linear(16, narrow, dtype=case.dtype)
        self.value = nn.Linear(16, narrow, dtype=case.dtype)
        self.out = nn.Linear(width, 16, dtype=case.dtype)

    def split(self, x: torch.Tensor, heads: int) -> torch.Tensor:
        if self.case.token_major:
            return x.view(*x.shape[:2], heads, -1).transpose(1, 2)
        return x.view(*x.shape[:2], heads, -1).transpose(1, 2).contiguous()

    def mask(self, keep: torch.Tensor) -> torch.Tensor | None:
        shapes = {"matrix": (), "bool": (), "heads": (2, 1, -1, -1), "row": (2, 1, 1, -1)}
        if not self.case.mask:
            return None
        if self.case.mask == "bool":
            return keep > 0.3
        if self.case.mask == "row":
            keep = keep[:1]
        rows = keep.to(self.case.dtype)
        return rows.expand(shapes[self.case.mask]) if shapes[self.case.mask] else rows

    def forward(self, x: torch.Tensor, y: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
        case = self.case
        q, k, v = self.split(self.query(x), case.heads), self.split(self.key(y), case.key_heads), self.value(y)
        v = self.split(v, case.key_heads)
        grouped = case.heads != case.key_heads
        z = scaled_dot_product_attention(q, k, v, self.mask(keep), is_causal=case.causal, enable_gqa=grouped)
        if not case.token_major:  # a view that needs head by head
            z = z * z.view(2 * case.heads, -1, case.depth).view(z.shape)
        return self.out(z.transpose(1, 2).reshape(*x.shape[:2], -1)).float().pow(2).mean() + 0 * keep.sum()


def imported(archive: Path, *passes: str) -> Program:
    text = archive.with_suffix(".mlir")
    tool(BIN / "fcdp-translate", "--import-pt2", archive, "-o", text)
    return Program(tool(BIN / "fcdp-opt", text, "--mlir-print-op-generic", *passes))


def inputs_of(case: Case) -> dict[str, torch.Tensor]:
    return {
        "x": torch.randn(2, case.queries, 16, dtype=case.dtype),
        "y": torch.randn(2, case.keys, 16, dtype=case.dtype),
        "keep": torch.rand(case.queries, case.keys),
    }


# The cases whose kernel differs at compute capability 9.0.
ON_HOPPER = [(name, 9.0) for name in CASES if CASES[name].kernel(9.0) != CASES[name].kernel(8.0)]


@pytest.mark.parametrize(("name", "capability"), [*((name, 8.0) for name in CASES), *ON_HOPPER])
def test_attention(tmp_path: Path, name: str, capability: float) -> None:
    torch.manual_seed(0)
    case = CASES[name]
    model, inputs = Attention(case), inputs_of(case)
    fcdp.export(model, inputs, tmp_path / "step.pt2")
    before = imported(tmp_path / "step.pt2")
    after = imported(tmp_path / "step.pt2", f"--fcdp-retarget=target=cuda compute-capability={capability}")
    cpu = "aten._scaled_dot_product_flash_attention_for_cpu"
    assert [call for call in before.calls() if call.startswith(cpu)] == [f"{cpu}.default", f"{cpu}_backward.default"]
    cuda = f"aten._scaled_dot_product_{case.kernel(capability)}_attention"
    attention = [call for call in after.calls() if "_scaled_dot_product" in call]
    assert attention == [f"{cuda}.default", f"{cuda}_backward.default"]

    values = {**{n: p.detach() for n, p in model.named_parameters()}, **inputs}
    loss, gradients = before.run(lambda kind, symbol: values[symbol], "cpu")
    new_loss, new_gradients = after.run(lambda kind, symbol: values[symbol], "cpu")
    tolerance = {torch.float32: 1e-5, torch.float16: 5e-3, torch.bfloat16: 3e-2}[case.dtype]
    torch.testing.assert_close(new_loss, loss, rtol=tolerance, atol=tolerance)
    assert new_gradients.keys() == gradients.keys() == dict(model.named_parameters()).keys()
    for key, gradient in gradients.items():
        scale = gradient.abs().max().item()
        torch.testing.assert_close(new_gradients[key], gradient, rtol=tolerance, atol=tolerance * max(scale, 1e-2))

    with FakeTensorMode():
        fakes = {key: torch.empty(v.shape, dtype=v.dtype, device="cuda") for key, v in values.items()}
        fake_loss, _ = after.run(lambda kind, symbol: fakes[symbol], "cuda")
        assert fake_loss.device.type == "cuda"


def test_attention_by_documents(tmp_path: Path) -> None:
    """It is attention under a mask that is made of the documents of each batch."""

    class Packed(Attention):
        def mask(self, keep: torch.Tensor) -> torch.Tensor:
            documents = torch.cumsum(keep[:1] < 0.3, 1)
            causal = torch.ones(keep.shape, dtype=torch.bool).tril()
            return (documents[:, None, :, None] == documents[:, None, None, :]) & causal

    torch.manual_seed(0)
    case = Case(key_heads=2)
    model = Packed(case)
    fcdp.export(model, inputs_of(case), tmp_path / "step.pt2")
    before = imported(tmp_path / "step.pt2")
    after = imported(tmp_path / "step.pt2", "--fcdp-retarget=target=cuda")
    assert sum(call.startswith("fcdp.packed_attention") for call in before.calls()) == 2
    efficient = "aten._scaled_dot_product_efficient_attention"
    attention = [call for call in after.calls() if "attention" in call]
    assert attention == [f"{efficient}.default", f"{efficient}_backward.default"]
    values = {**{n: p.detach() for n, p in model.named_parameters()}, **inputs_of(case)}
    loss, gradients = before.run(lambda kind, symbol: values[symbol], "cpu")
    new_loss, new_gradients = after.run(lambda kind, symbol: values[symbol], "cpu")
    torch.testing.assert_close(new_loss, loss)
    torch.testing.assert_close(new_gradients, gradients, rtol=1e-4, atol=1e-5)
    check_types(after)


@pytest.mark.parametrize("source", ["flags", "bounds"])
def test_attention_by_sequences(tmp_path: Path, source: str) -> None:
    """Documents are sequences of the flash kernel. If their number has no bound, short ones are computed in blocks."""

    class Packed(Attention):
        def __init__(self, case: Case) -> None:
            super().__init__(case)
            # The gradient of the bias of keys is nothing but rounding.
            self.key = nn.Linear(16, case.key_heads * case.depth, bias=False, dtype=case.dtype)

        def mask(self, keep: torch.Tensor) -> torch.Tensor:
            documents = (keep[:1] < 0.01).cumsum(1)
            if source == "bounds":
                documents = torch.searchsorted((keep[0, :4] * keep.shape[0]).long().sort()[0], torch.arange(keep.shape[0]))[None]
            causal = torch.ones(keep.shape, dtype=torch.bool).tril()
            return (documents[:, None, :, None] == documents[:, None, None, :]) & causal

    torch.manual_seed(0)
    case = Case(key_heads=2, queries=512, keys=512, dtype=torch.bfloat16)
    model = Packed(case)
    fcdp.export(model, inputs_of(case), tmp_path / "step.pt2")
    before = imported(tmp_path / "step.pt2")
    after = imported(tmp_path / "step.pt2", "--fcdp-retarget=target=cuda")
    flash, efficient = "aten._flash_attention", "aten._scaled_dot_product_efficient_attention"
    attention = [call for call in after.calls() if "attention" in call]
    expected = [f"{flash}_forward.default", f"{efficient}.default", f"{flash}_backward.default", f"{efficient}_backward.default"]
    assert attention == (expected if source == "flags" else expected[::2])
    # A row has a long document, and short ones.
    values = {**{n: p.detach() for n, p in model.named_parameters()}, **inputs_of(case)}
    values["keep"][0, 20:320] = 1
    loss, gradients = before.run(lambda kind, symbol: values[symbol], "cpu")
    new_loss, new_gradients = after.run(lambda kind, symbol: values[symbol], "cpu")
    torch.testing.assert_close(new_loss, loss, rtol=3e-2, atol=3e-2)
    for key, gradient in gradients.items():
        torch.testing.assert_close(new_gradients[key], gradient, rtol=3e-2, atol=3e-2 * gradient.abs().max().item())
    check_types(after)


class Norm(nn.Module):
    """A norm between two linear layers, whose input has a second user."""

    def __init__(self, norm: nn.Module, token_major: bool):
        super().__init__()
        self.first = nn.Linear(16, 16)
        self.norm = norm
        self.last = nn.Linear(16, 16)
        self.token_major = token_major

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x)
        if not self.token_major:  # the view after it needs the norm's result token by token
            heads = y.view(2, 8, 2, 8).transpose(1, 2)
            return self.last(self.norm(heads).transpose(1, 2).reshape(2, 8, 16)).float().pow(2).mean()
        return (self.last(self.norm(y)) + y).float().pow(2).mean()


class SquaredByHand(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


def frozen(norm: nn.Module) -> nn.Module:
    return norm.requires_grad_(False)


@dataclass(frozen=True)
class NormCase:
    make: Callable[[], nn.Module]
    """The norm over the last dimension or dimensions of [2, 8, 16]."""
    weighted: bool = True
    """Whether the kernel multiplies by the weight, in both types."""
    weighted_in_half: bool = True
    fused_in_half: bool = True
    gradient_of_weight: bool = True


NORMS = {
    "rms_norm": NormCase(lambda: nn.RMSNorm(16)),
    "without_weight": NormCase(lambda: nn.RMSNorm(16, elementwise_affine=False), weighted=False, weighted_in_half=False),
    "two_dimensions": NormCase(lambda: nn.RMSNorm((8, 16), eps=1e-3)),
    "frozen": NormCase(lambda: frozen(nn.RMSNorm(16)), gradient_of_weight=False),
    # It rounds the norm before it multiplies by the weight.
    "llama": NormCase(lambda: LlamaRMSNorm(16), weighted_in_half=False),
    # It multiplies by 1 + weight in f32 before it rounds.
    "gemma": NormCase(lambda: GemmaRMSNorm(16)),
    # In half precision it rounds the mean.
    "by_hand": NormCase(SquaredByHand, weighted=False, weighted_in_half=False, fused_in_half=False),
}


TYPED_NORMS = [(name, dtype) for name in NORMS for dtype in (torch.float32, torch.bfloat16, torch.float16)]


@pytest.mark.parametrize(("name", "dtype"), [*TYPED_NORMS, ("rms_norm", torch.float64)], ids=str)
def test_norm(tmp_path: Path, name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    case, is_half = NORMS[name], dtype.itemsize == 2
    model, x = Norm(case.make(), token_major=True).to(dtype), torch.randn(2, 8, 16, dtype=dtype)
    for parameter in model.norm.parameters():
        nn.init.normal_(parameter)
    fcdp.export(model, (x,), tmp_path / "step.pt2")
    before = imported(tmp_path / "step.pt2")
    after = imported(tmp_path / "step.pt2", "--fcdp-retarget=target=cuda")
    if not case.fused_in_half and is_half:
        assert after.calls() == before.calls()
        return
    norm, backward = fused_calls(after)
    weighted = case.weighted_in_half if is_half else case.weighted
    assert (norm["weight"] != "unit") == (backward["weight"] != "unit") == weighted
    assert backward["output_mask"] == [True, weighted and case.gradient_of_weight]
    assert "aten.rsqrt.default" not in after.calls()

    values = {**{n: p.detach() for n, p in model.named_parameters()}, "x": x}
    loss, gradients = before.run(lambda kind, symbol: values[symbol], "cpu")
    new_loss, new_gradients = after.run(lambda kind, symbol: values[symbol], "cpu")
    # One unit in the last place of the results in half precision, which are rounded at the same points.
    tolerance = 1e-5 if not is_half else 2 * torch.finfo(dtype).eps
    torch.testing.assert_close(new_loss, loss, rtol=tolerance, atol=tolerance)
    assert new_gradients.keys() == gradients.keys()
    for key, gradient in gradients.items():
        torch.testing.assert_close(new_gradients[key], gradient, rtol=tolerance, atol=tolerance * gradient.abs().max().item())
    check_types(after)


def fused_calls(program: Program) -> tuple[dict[str, object], dict[str, object]]:
    """The arguments of the only fused norm, and of its backward pass."""
    found = {
        op.attrs["callee"]: dict(zip(op.attrs["argNames"], op.attrs["args"], strict=True))
        for op in program.step
        if op.name == "aten.call" and "_fused_rms_norm" in op.attrs["callee"]
    }
    assert found.keys() == {"aten._fused_rms_norm.default", "aten._fused_rms_norm_backward.default"}
    return found["aten._fused_rms_norm.default"], found["aten._fused_rms_norm_backward.default"]


def test_norm_of_permuted_input(tmp_path: Path) -> None:
    """Views of the result need the order in memory that the input has, which the kernel does not keep."""
    fcdp.export(Norm(nn.RMSNorm(8), token_major=False), (torch.randn(2, 8, 16),), tmp_path / "step.pt2")
    after = imported(tmp_path / "step.pt2", "--fcdp-retarget=target=cuda")
    assert after.calls() == imported(tmp_path / "step.pt2").calls()
    check_types(after)


# Complex numbers, which the reader of the module does not know, and grouped products in f32, which PyTorch's fake
# kernel for CUDA refuses, unlike the kernel itself.
UNREAD = {"rotary", "hf_mixtral"}
# Models with norms of other kinds, in bf16.
IN_BF16 = ["masked", "convnet_bn", "residual_bn", "hf_gpt2", "hf_llama", "hf_mixtral"]


@pytest.mark.parametrize("name", sorted(MODELS.keys() - UNREAD))
def test_types(workshop: Workshop, name: str) -> None:
    """Each result has the type, and takes the memory, that CUDA's kernels give it."""
    check_types(imported(workshop.model(name).archive, "--fcdp-retarget=target=cuda"))


@pytest.mark.parametrize("name", IN_BF16)
def test_types_in_bf16(tmp_path: Path, name: str) -> None:
    inputs = {
        key: value.to(torch.bfloat16) if value.is_floating_point() else value
        for key, value in ((k, torch.from_numpy(v)) for k, v in MODELS[name].inputs(np.random.default_rng(0)).items())
    }
    fcdp.export(build(name).to(torch.bfloat16), inputs, tmp_path / "step.pt2")
    check_types(imported(tmp_path / "step.pt2", "--fcdp-retarget=target=cuda"))


def check_types(program: Program) -> None:
    with FakeTensorMode():
        program.run(lambda kind, symbol: program.empty(kind, symbol, "cuda"), "cuda")


@pytest.mark.parametrize("name", ["gpt", "hf_llama"])
def test_model(workshop: Workshop, tmp_path: Path, name: str) -> None:
    """Whole models on fake tensors, and as objects."""
    archive = workshop.model(name).archive
    program = imported(archive, "--fcdp-retarget=target=cuda")
    assert not any("cpu" in call for call in program.calls())
    step = tmp_path / "step.so"
    tool(BIN / "fcdp-compile", archive, "--target=cuda", "-o", step)
    made = read_plan(step)
    assert made["target"] == "cuda"
    calls = [op for op in made["ops"] if op["kind"] == "aten_call"]
    assert not any("_for_cpu" in op["callee"] for op in calls)
    devices = {value["text"] for op in calls for value in op["args"] if value["kind"] == "device"}
    assert devices <= {"cuda"}
    with pytest.raises(ToolError, match="the step was compiled for 'cuda'"):
        tool(*run_command(step, archive, workshop.model(name).inputs, 1))


def test_archive_of_cuda(workshop: Workshop, tmp_path: Path) -> None:
    """An archive whose device fields say CUDA, as those that are exported there do, is for CUDA without being asked."""
    archive = tmp_path / "cuda.pt2"
    with zipfile.ZipFile(workshop.model("gpt").archive) as source, zipfile.ZipFile(archive, "w") as target:
        for entry in source.infolist():
            data = source.read(entry)
            if entry.filename.endswith("models/model.json"):
                data = json.dumps(on_cuda(json.loads(data))).encode()
            target.writestr(entry, data, zipfile.ZIP_STORED)
    text = tool(BIN / "fcdp-translate", "--import-pt2", archive)
    assert 'fcdp.target = "cuda"' in text and '#aten.device<"cuda:0">' in text
    printed = tool(BIN / "fcdp-compile", archive, "--emit=plan-json")
    assert '"target": "cuda"' in printed and '"kind": "device","text": "cuda"' in printed and "cuda:0" not in printed
    with pytest.raises(ToolError, match="expected the target 'cuda'"):
        tool(BIN / "fcdp-compile", archive, "--target=cpu", "--emit=plan-json")


def on_cuda(value: object) -> object:
    """Every device of a program in JSON, moved."""
    if isinstance(value, dict):
        if value.keys() == {"type", "index"} and value["type"] == "cpu":
            return {"type": "cuda", "index": 0}
        return {key: on_cuda(part) for key, part in value.items()}
    return [on_cuda(part) for part in value] if isinstance(value, list) else value


def test_cpu_only_operators() -> None:
    """The compiler's list of what CUDA lacks is PyTorch's own."""
    import torchgen
    import yaml

    source = Path(torchgen.__file__).parent / "packaged/ATen/native/native_functions.yaml"
    functions = {f["func"].split("(")[0]: f for f in yaml.safe_load(source.read_text())}
    expected = set()
    for name, function in functions.items():
        both = (function, functions.get(function.get("structured_delegate"), {}))
        keys = {key.strip() for f in both for group in f.get("dispatch", {}) for key in group.split(",")}
        elsewhere = any(key.endswith("CUDA") or key.startswith("Composite") for key in keys)
        # Not those that change an argument, which no export has, nor PyTorch's own tests.
        if keys & {"CPU", "MkldnnCPU"} and not elsewhere and "!" not in function["func"]:
            if not name.startswith(("_test_", "_foobar", "_scaled_dot_product_flash_attention_for_cpu")):
                expected.add(f"aten.{name}" if "." in name else f"aten.{name}.default")
    lines = (ROOT / "lib/Transforms/Retarget/CpuOnlyOps.inc").read_text().splitlines()
    assert {line.strip('",') for line in lines if line.startswith('"')} == expected
