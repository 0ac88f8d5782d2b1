# SPDX-License-Identifier: Apache-2.0
"""Frozen matrices in 4 and 8 bits, --frozen: the numbers of the unpacked base, with packed bytes in shards, in the host
cache and on the wire."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import fcdp
from fcdp.checkpoint.convert import Options, convert
from fcdp.checkpoint.errors import CheckpointError
from fcdp.checkpoint.formats import open_checkpoint
from closed_forms import buckets
from harness import Config, Run, ToolError, compile_command, parameters, read_log, read_plan, run_command, tool
from models import MODELS, build
from packed_reference import BLOCK, NF4, join_codes, pack_int8, pack_nf4, round_trip

pytestmark = pytest.mark.filterwarnings("ignore")

STEPS = 10
CONFIG = Config("peft_lora", 2, 2, "zero3", optimizer="sgd,lr=0.1,momentum=0.9")
TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def is_packed(name: str) -> bool:
    """Whether a parameter is one of the matrices that the compiler packs: no adapter, no embedding, no head."""
    return any(target in name for target in TARGETS) and "lora" not in name


def unpacked(weights: dict[str, torch.Tensor], packing: str) -> dict[str, torch.Tensor]:
    def unpack(value: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(round_trip(value.float().numpy(), packing)).to(value.dtype)

    return {name: unpack(value) if is_packed(name) else value for name, value in weights.items()}


class Base:
    """A model with a frozen base, in one type."""

    def __init__(self, folder: Path, dtype: torch.dtype):
        torch.manual_seed(3)
        self.model: nn.Module = build("peft_lora").to(dtype)
        self.folder = folder
        self.archive = folder / "model.pt2"
        rng = np.random.default_rng(0)
        rows = [MODELS["peft_lora"].inputs(rng) for _ in range(4 * STEPS)]
        self.inputs = {}
        for name in rows[0]:
            self.inputs[name] = folder / f"{name}.npy"
            np.save(self.inputs[name], np.stack([row[name] for row in rows]))
        fcdp.export(self.model, {name: torch.from_numpy(value) for name, value in rows[0].items()}, self.archive)

    def weights(self) -> dict[str, torch.Tensor]:
        return {name: value.detach().contiguous() for name, value in self.model.named_parameters()}

    def step(self, config: Config, frozen: str, *extra: str) -> Path:
        out = self.folder / f"{config.name}-{frozen}{len(extra)}.so"
        if not out.exists():
            tool(*compile_command(config, self.archive, out), f"--frozen={frozen}", *extra)
        return out

    def run(self, config: Config, step: Path, weights: Path, steps: int = STEPS, *extra: str | Path) -> Run:
        log, out = self.folder / "run.jsonl", self.folder / f"{step.stem}-{weights.stem}-{steps}.safetensors"
        log.unlink(missing_ok=True)
        mesh = (f"--nodes={config.nodes}", f"--ranks-per-node={config.local}")
        tool(*run_command(step, weights, self.inputs, steps, *mesh, f"--json={log}", f"--params-out={out}", *extra))
        return Run([line for line in read_log(log) if "loss" in line], out)


@pytest.fixture(scope="module")
def bf16(tmp_path_factory: pytest.TempPathFactory) -> Base:
    return Base(tmp_path_factory.mktemp("bf16"), torch.bfloat16)


@pytest.mark.parametrize("packing", ["nf4", "int8"])
@pytest.mark.parametrize("mesh, strategy", [((1, 1), "zero3"), ((2, 2), "zero3"), ((2, 2), "fcdp")])
def test_numbers_of_the_unpacked_base(bf16: Base, packing: str, mesh: tuple[int, int], strategy: str) -> None:
    """Losses, adapters and the base that --params-out writes have all bits of a base that was unpacked before."""
    config = replace(CONFIG, nodes=mesh[0], local=mesh[1], strategy=strategy)
    before = bf16.folder / f"{packing}.safetensors"
    save_file(unpacked(bf16.weights(), packing), before)
    expected = bf16.run(config, bf16.step(config, "off"), before)
    run = bf16.run(config, bf16.step(config, packing), bf16.archive)
    assert run.losses == expected.losses
    assert len(set(run.losses)) == STEPS
    theirs = parameters(expected.parameters)
    for name, value in parameters(run.parameters).items():
        assert torch.equal(value, theirs[name]), name
    whole = bf16.run(config, bf16.step(config, "off"), bf16.archive)
    assert run.losses != whole.losses


def packed_bytes(shape: tuple[int, ...], packing: str) -> int:
    rows, columns = shape
    if packing == "int8":
        return rows * (4 + -(-columns // 4) * 4)
    return rows * columns // BLOCK * 36


@pytest.mark.parametrize("packing", ["nf4", "int8"])
def test_packed_bytes_on_the_wire(bf16: Base, packing: str) -> None:
    """Per step zero3 gathers a packed bucket as often as a bucket of values, and bytes are the closed forms."""
    plan = read_plan(bf16.step(CONFIG, packing))
    matrices = {name: value for name, value in bf16.weights().items() if is_packed(name)}
    packed = {p["names"][0]: p for p in plan["parameters"] if p.get("packed")}
    assert packed.keys() == matrices.keys()
    for name, value in matrices.items():
        assert packed[name]["shape"] == [packed_bytes(tuple(value.shape), packing)]
        assert packed[name]["packed"]["shape"] == list(value.shape)
        bucket = plan["buckets"][packed[name]["bucket"]]
        assert bucket["storage"] == bucket["wire"] == packed[name]["dtype"] == "u8"
        # The shard holds a fourth of the bytes.
        assert bucket["states"]["shard"]["bytes"] == bucket["elements"] // 4
    config = replace(CONFIG, strategy="fcdp")
    layout = buckets(read_plan(bf16.step(config, packing)))
    trained = sum(bucket.gather_bytes for bucket in layout if bucket.trainable)
    frozen = sum(bucket.gather_bytes for bucket in layout if not bucket.trainable)
    sent = [step.inter for step in bf16.run(config, bf16.step(config, packing), bf16.archive).traffic]
    # The frozen base crosses the network once. A trained bucket is gathered once and reduced once.
    assert sent[1:] == [trained] * (STEPS - 1)
    assert sent[0] == trained + frozen // 2
    values = sum(bucket.gather_bytes for bucket in buckets(read_plan(bf16.step(config, "off"))) if not bucket.trainable)
    saved = sum(2 * value.numel() for value in matrices.values()) - sum(packed_bytes(tuple(v.shape), packing) for v in matrices.values())
    # Padding to 64 bytes a member and a multiple of the ranks.
    assert abs(values - frozen - saved) <= 256 * len(layout)


def test_auto_keeps_a_packed_base_on_the_device(bf16: Base) -> None:
    """The packed copy stays where it fits, so that nothing of it is gathered after the first step."""
    config = replace(CONFIG, strategy="auto", cluster="workstations")
    step = bf16.step(config, "nf4")
    plan = read_plan(step)
    packed = [bucket for bucket in plan["buckets"] if bucket["storage"] == "u8"]
    assert packed
    assert all(bucket["states"]["resident"]["bytes"] == bucket["elements"] for bucket in packed)
    run = bf16.run(config, step, bf16.archive)
    trained = sum(bucket.gather_bytes + bucket.reduce_bytes for bucket in buckets(plan) if bucket.trainable)
    assert [step.inter for step in run.traffic[1:]] == [trained // 2] * (STEPS - 1)
    assert [step.h2d for step in run.traffic[1:]] == [0] * (STEPS - 1)


def description(shape: torch.Size, offset: float | None) -> torch.Tensor:
    state = {"quant_type": "nf4", "blocksize": BLOCK, "dtype": "bfloat16", "shape": list(shape)}
    if offset is not None:
        state |= {"nested_blocksize": 256, "nested_dtype": "float32", "nested_offset": offset}
    return torch.frombuffer(bytearray(json.dumps(state).encode()), dtype=torch.uint8)


def as_bitsandbytes(base: Base, packing: str, nested: bool) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """Returns the tensors of a file of bitsandbytes, and the values that they have."""
    stored, values = {}, {}
    table = np.sort(np.random.default_rng(5).uniform(-1, 1, 256)).astype(np.float32)
    for name, value in base.weights().items():
        if not is_packed(name):
            stored[name] = values[name] = value
            continue
        matrix = value.float().numpy()
        if packing == "int8":
            codes, absmax = pack_int8(matrix)
            stored[name], stored[name.removesuffix("weight") + "SCB"] = torch.from_numpy(codes), torch.from_numpy(absmax)
            stored[name.removesuffix("weight") + "weight_format"] = torch.tensor(0, dtype=torch.uint8)
            unpacked = codes * (absmax * np.float32(1 / 127))[:, None]
        else:
            codes, absmax = pack_nf4(matrix)
            stored[name] = torch.from_numpy(join_codes(codes)).view(-1, 1)
            stored[f"{name}.quant_map"] = torch.from_numpy(NF4.copy())
            offset = None
            if nested:
                offset = float(absmax.mean())
                scale = np.abs(absmax - np.float32(offset)).max(keepdims=True).repeat(-(-len(absmax) // 256))
                wanted = (absmax - np.float32(offset)) / scale[0]
                second = np.abs(table[None] - wanted[:, None]).argmin(1).astype(np.uint8)
                absmax = (table[second] * scale[0]).astype(np.float32) + np.float32(offset)
                stored[f"{name}.absmax"] = torch.from_numpy(second)
                stored[f"{name}.nested_absmax"] = torch.from_numpy(scale)
                stored[f"{name}.nested_quant_map"] = torch.from_numpy(table)
            else:
                stored[f"{name}.absmax"] = torch.from_numpy(absmax)
            stored[f"{name}.quant_state.bitsandbytes__nf4"] = description(value.shape, offset)
            unpacked = (NF4[codes] * np.repeat(absmax, BLOCK)[: len(codes)]).reshape(matrix.shape)
        values[name] = torch.from_numpy(unpacked).to(value.dtype)
    return {name: value.clone() for name, value in stored.items()}, values


@pytest.mark.parametrize("packing, nested", [("nf4", False), ("nf4", True), ("int8", False)])
def test_files_of_bitsandbytes(bf16: Base, packing: str, nested: bool) -> None:
    """Codes and scales of a file are read as they are."""
    stored, values = as_bitsandbytes(bf16, packing, nested)
    file = bf16.folder / f"bnb-{packing}-{nested}.safetensors"
    save_file(stored, file)
    run = bf16.run(CONFIG, bf16.step(CONFIG, packing), file, 1)
    written = parameters(run.parameters)
    for name, value in values.items():
        if "lora" not in name:
            assert torch.equal(written[name], value), name
    other = {"nf4": "int8", "int8": "nf4"}[packing]
    with pytest.raises(ToolError, match=f"expected a matrix in a floating type or packed as {other}, got one packed as {packing}"):
        bf16.run(CONFIG, bf16.step(CONFIG, other), file, 1)


def test_wrong_files(bf16: Base) -> None:
    stored, _ = as_bitsandbytes(bf16, "nf4", nested=False)
    name = next(name for name in stored if is_packed(name) and name.endswith(".weight"))
    key = f"{name}.quant_state.bitsandbytes__nf4"

    def refused(change: dict[str, torch.Tensor | None], message: str) -> None:
        file = bf16.folder / "wrong.safetensors"
        save_file({name: value for name, value in (stored | change).items() if value is not None}, file)
        with pytest.raises(ToolError, match=message):
            bf16.run(CONFIG, bf16.step(CONFIG, "nf4"), file, 1)

    refused({key: None}, "expected a matrix in a floating type, or '.quant_state.bitsandbytes__nf4' beside its bytes")
    refused({f"{name}.absmax": None}, "expected a tensor '.absmax' beside it")
    refused({f"{name}.absmax": stored[f"{name}.absmax"][:-1]}, "expected '.absmax' beside it to be .* elements of f32")
    refused({f"{name}.quant_map": stored[f"{name}.quant_map"].neg()}, "expected the values of NF4 in '.quant_map'")
    refused({key: description(torch.Size([2, 2]), None)}, r"quant_state.shape: expected \[64, 64\], got \[2,2\]")
    refused({key: torch.zeros(3, dtype=torch.uint8)}, "quant|JSON|parse")
    refused({name: stored[name][:-1]}, "expected .* bytes for")
    broken = bf16.weights()[name].clone()
    broken[0, 3] = float("inf")
    refused({name: broken, key: None}, "expected finite values of a matrix to pack as nf4")


def test_checkpoints(bf16: Base, tmp_path: Path) -> None:
    """A checkpoint has the packed bytes, which another mesh and strategy load."""
    step, steps = bf16.step(CONFIG, "nf4"), 4
    through = bf16.run(CONFIG, step, bf16.archive, steps)
    bf16.run(CONFIG, step, bf16.archive, steps // 2, f"--save-dir={tmp_path}")
    other = replace(CONFIG, strategy="fcdp")
    resumed = bf16.run(other, bf16.step(other, "nf4"), bf16.archive, steps, f"--resume={tmp_path}")
    assert resumed.losses == through.losses[steps // 2 :]
    for name, value in parameters(resumed.parameters).items():
        assert torch.equal(value, parameters(through.parameters)[name]), name
    with pytest.raises(ToolError, match=r"expected bf16\[64, 64\], got u8\[2304\]"):
        bf16.run(CONFIG, bf16.step(CONFIG, "off"), bf16.archive, steps, f"--resume={tmp_path}")
    checkpoint = next(tmp_path.glob("step-*"))
    index = json.loads((checkpoint / "index.json").read_text())
    packed = {state["names"][0]: state["packed"] for state in index["states"] if "packed" in state}
    assert packed.keys() == {name for name in bf16.weights() if is_packed(name)}
    assert "nf4 of bf16[64, 64]" in packed.values()
    source = open_checkpoint(checkpoint)
    with pytest.raises(CheckpointError, match="packed as nf4 of bf16"):
        convert(source, tmp_path / "model.safetensors", Options("safetensors"))
    convert(source, tmp_path / "adapter.safetensors", Options("safetensors", only_trained=True))
    convert(source, tmp_path / "copy", Options("fcdp"))
    again = bf16.run(other, bf16.step(other, "nf4"), bf16.archive, steps, f"--resume={tmp_path / 'copy'}")
    assert again.losses == resumed.losses
