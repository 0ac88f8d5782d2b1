# SPDX-License-Identifier: Apache-2.0
import pytest
import torch
import transformers
from small_models import Tiny, tiny_inputs
from torch import nn
from torch.export import experimental

import fcdp
from fcdp import check, exporter
from fcdp.call import make_call
from fcdp.eager import eager_step


def test_check_refuses_the_stock_exporters_gradients(tmp_path, monkeypatch):
    monkeypatch.setattr(exporter, "joint_program", experimental._export_forward_backward)
    with pytest.raises(fcdp.ExportError, match="the archive's gradient of"):
        fcdp.export(Tiny(), tiny_inputs(), tmp_path / "step.pt2")
    assert list(tmp_path.iterdir()) == []


def test_check_refuses_a_changed_weight(tmp_path, monkeypatch):
    save = torch.export.save

    def save_changed(program, path, **kwargs):
        program.state_dict["head.weight"] = nn.Parameter(program.state_dict["head.weight"] * 1.5)
        save(program, path, **kwargs)

    path = tmp_path / "step.pt2"
    path.write_text("an earlier export")
    monkeypatch.setattr(torch.export, "save", save_changed)
    with pytest.raises(fcdp.ExportError, match="the archive's loss is"):
        fcdp.export(Tiny(), tiny_inputs(), path)
    assert [file.name for file in tmp_path.iterdir()] == ["step.pt2"]
    assert path.read_text() == "an earlier export"


def growing():
    number = 1.0
    while True:
        number += 1
        yield number


GROWING = growing()


class Unrepeated(Tiny):
    """Its loss is another one in each step, but not while it is traced."""

    def forward(self, ids, *others):
        return super().forward(ids, *others) * (next(GROWING) if type(ids) is torch.Tensor else 1)


def test_check_says_that_eager_pytorch_does_not_repeat_its_step(tmp_path):
    with pytest.raises(fcdp.ExportError, match="plain PyTorch does not repeat the model's step .* its loss is .*, and then "):
        fcdp.export(Unrepeated(), tiny_inputs(), tmp_path / "step.pt2")
    assert list(tmp_path.iterdir()) == []


def test_too_little_memory_for_the_check_is_named(tmp_path):
    class Full(torch.fx.Interpreter):
        """Has PyTorch allocate more than there can be, as the operators of a model may."""

        def run_node(self, node):
            return torch.empty(1 << 60, dtype=torch.uint8)

    path = fcdp.export(Tiny(), tiny_inputs(), tmp_path / "step.pt2", check=False).path
    message = r"too little memory to compare .*: give check=False, or more memory \(.*allocate memory.*1152921504606846976 bytes"
    with pytest.raises(fcdp.ExportError, match=message):
        check.replay(torch.export.load(path), make_call(Tiny(), tiny_inputs(), None), Full)


def test_check_can_be_left_out(tmp_path):
    exported = fcdp.export(Tiny(), tiny_inputs(), tmp_path / "step.pt2", check=False)
    assert exported.gradient_error is None


class HalfPrecision(nn.Module):
    """Computes in bfloat16, with parameters in float32."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, *inputs):
        with torch.autocast("cpu", torch.bfloat16):
            output = self.model(*inputs)
        return output if isinstance(output, torch.Tensor) else output.loss


class Llama(nn.Module):
    """Fewer heads of keys than of queries: eager leaves their repetition to the kernel, export does not."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        config = transformers.LlamaConfig(
            vocab_size=64,
            hidden_size=32,
            intermediate_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
        )
        self.llama = transformers.LlamaForCausalLM(config)

    def forward(self, ids, labels):
        return self.llama(input_ids=ids, labels=labels, use_cache=False)


def llama_inputs():
    ids = torch.randint(64, (2, 16), generator=torch.Generator().manual_seed(1))
    return ids, ids


def test_paths_that_round_elsewhere_are_equal_in_half_precision(tmp_path):
    exported = fcdp.export(HalfPrecision(Llama()), llama_inputs(), tmp_path / "step.pt2")
    assert 1e-3 < exported.gradient_error < 2e-2
    in_float32 = fcdp.export(Llama(), llama_inputs(), tmp_path / "step.pt2")
    assert in_float32.gradient_error < 1e-6


def test_check_refuses_wrong_gradients_in_half_precision(tmp_path, monkeypatch):
    def with_a_wrong_gradient(*arguments):
        result = eager_step(*arguments)
        result.gradients["model.head.weight"].mul_(1.12)
        return result

    monkeypatch.setattr(exporter, "eager_step", with_a_wrong_gradient)
    with pytest.raises(fcdp.ExportError, match="gradient of 'model.head.weight'"):
        fcdp.export(HalfPrecision(Tiny()), tiny_inputs(), tmp_path / "step.pt2")
