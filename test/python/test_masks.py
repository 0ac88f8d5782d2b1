# SPDX-License-Identifier: Apache-2.0
"""Masks of attention that are known at export are replaced, others stay, and results are the same."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
import transformers
from torch import nn
from torch.export import ExportedProgram

import fcdp
from fcdp import exporter
from fcdp.call import make_call
from fcdp.check import replay
from fcdp.masks import Pattern, pattern_of

TIME, WIDTH = 6, 8
Mask = Callable[[nn.Module, torch.Tensor], torch.Tensor]


class Attending(nn.Module):
    """Four heads of attention under the mask that `make_mask` makes of the model and its input."""

    def __init__(self, make_mask: Mask, heads_of_keys: int = 4, keys: int = TIME) -> None:
        super().__init__()
        self.make_mask, self.keys = make_mask, keys
        self.q = nn.Linear(WIDTH, 4 * WIDTH)
        self.kv = nn.Linear(WIDTH, 2 * heads_of_keys * WIDTH)
        self.register_buffer("fixed", torch.ones(TIME, TIME, dtype=torch.bool).tril(), persistent=False)
        self.register_buffer("saved", torch.ones(TIME, TIME, dtype=torch.bool).tril())

    def forward(self, x: torch.Tensor, padding: torch.Tensor) -> torch.Tensor:
        q = self.q(x).unflatten(-1, (-1, WIDTH)).transpose(1, 2)
        k, v = self.kv(x[:, : self.keys]).unflatten(-1, (-1, WIDTH)).transpose(1, 2).chunk(2, dim=1)
        grouped = k.shape[1] < q.shape[1]
        attended = F.scaled_dot_product_attention(q, k, v, self.make_mask(self, padding), enable_gqa=grouped)
        return attended.square().mean()


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(2, TIME, WIDTH), torch.ones(2, TIME)


def export(model: nn.Module, given: object, path: Path) -> ExportedProgram:
    fcdp.export(model, given, path)
    return torch.export.load(path)


def export_as_traced(model: nn.Module, given: object, path: Path, monkeypatch: pytest.MonkeyPatch) -> ExportedProgram:
    with monkeypatch.context() as patched:
        patched.setattr(exporter, "simplify_masks", lambda forward, inputs: None)
        patched.setattr(exporter, "attend_by_document", lambda joint: None)
        return export(model, given, path)


def attention(program: ExportedProgram) -> set[tuple[bool, bool]]:
    """Whether each call of attention, and of its backward pass, has a mask, and whether it is causal."""
    found = set()
    for node in program.graph.nodes:
        if "scaled_dot_product" in str(node.target):
            given = node.normalized_arguments(program.graph_module, normalize_to_only_use_kwargs=True).kwargs
            found.add((given.get("attn_mask") is not None, given["is_causal"]))
    return found


MASKED, CAUSAL, FULL = (True, False), (False, True), (False, False)


def has_mask_of(program: ExportedProgram, queries: int, keys: int) -> bool:
    """Whether anything of the size of a mask is computed."""
    values = [node.meta.get("val") for node in program.graph.nodes if node.op == "call_function"]
    shapes = {tuple(value.shape[-2:]) for value in values if isinstance(value, torch.Tensor)}
    return (queries, keys) in shapes


def assert_same_results(found: ExportedProgram, expected: ExportedProgram, model: nn.Module, given: object) -> None:
    call = make_call(model, given, None)
    left, right = replay(found, call), replay(expected, call)
    torch.testing.assert_close(left.loss, right.loss)
    torch.testing.assert_close(left.gradients, right.gradients, rtol=1e-4, atol=1e-6)


def in_place(model: nn.Module, padding: torch.Tensor) -> torch.Tensor:
    mask = torch.empty(TIME, TIME)
    mask.fill_(float("-inf"))
    mask.triu_(1)
    return mask


def in_place_by_a_view(model: nn.Module, padding: torch.Tensor) -> torch.Tensor:
    mask = torch.ones(TIME, TIME, dtype=torch.bool).tril()
    mask[0, 0] = False
    mask.view(-1)[0].fill_(True)
    return mask


def without_gradients(model: nn.Module, padding: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return nn.Transformer.generate_square_subsequent_mask(TIME)


def one_element_differs(model: nn.Module, padding: torch.Tensor) -> torch.Tensor:
    mask = torch.ones(2, 1, TIME, TIME, dtype=torch.bool).tril()
    mask[1, 0, 4, 2] = False
    return mask


def of_padding(model: nn.Module, padding: torch.Tensor) -> torch.Tensor:
    return model.fixed & padding.bool()[:, None, None, :]


def padding_in_place(model: nn.Module, padding: torch.Tensor) -> torch.Tensor:
    mask = torch.ones(2, 1, TIME, TIME, dtype=torch.bool).tril()
    view = mask[1:]
    mask.logical_and_(padding.bool()[:, None, None, :])
    return view


def changing(model: nn.Module, padding: torch.Tensor) -> torch.Tensor:
    model.fixed.logical_xor_(torch.ones((), dtype=torch.bool))
    return model.fixed


def random(model: nn.Module, padding: torch.Tensor) -> torch.Tensor:
    return torch.rand(TIME, TIME) < 2


TRIL = torch.ones(TIME, TIME, dtype=torch.bool).tril()


@pytest.mark.parametrize(
    ("make_mask", "expected"),
    [
        (lambda model, padding: model.fixed, CAUSAL),
        (lambda model, padding: TRIL, CAUSAL),
        (lambda model, padding: TRIL.expand(2, 4, TIME, TIME), CAUSAL),
        (lambda model, padding: torch.arange(TIME) <= torch.arange(TIME)[:, None], CAUSAL),
        (lambda model, padding: torch.where(TRIL, 0.0, torch.finfo(torch.float32).min), CAUSAL),
        (in_place, CAUSAL),
        (in_place_by_a_view, CAUSAL),
        (without_gradients, CAUSAL),
        (lambda model, padding: torch.ones(1, TIME, dtype=torch.bool), FULL),
        (lambda model, padding: torch.zeros(TIME, TIME), FULL),
        (lambda model, padding: TRIL | True, FULL),
        (of_padding, MASKED),
        (padding_in_place, MASKED),
        (one_element_differs, MASKED),
        (lambda model, padding: TRIL.T, MASKED),
        (lambda model, padding: torch.where(TRIL, 0.0, -1e4), MASKED),
        (lambda model, padding: TRIL.triu(-3), MASKED),
        (lambda model, padding: model.saved, MASKED),
        (random, MASKED),
    ],
    ids=(
        "buffer constant expanded compared least-number in-place in-place-by-a-view without-gradients "
        "ones zeros all-true padding padding-in-place one-element-differs anticausal bias window persistent random"
    ).split(),
)
def test_masks_that_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_mask: Mask, expected: tuple[bool, bool]
) -> None:
    model, given = Attending(make_mask), inputs()
    program = export(model, given, tmp_path / "step.pt2")
    assert attention(program) == {expected}
    masked = export_as_traced(model, given, tmp_path / "masked.pt2", monkeypatch)
    assert attention(masked) == {MASKED}
    if expected != MASKED:
        assert not has_mask_of(program, TIME, TIME)
        assert_same_results(program, masked, model, given)


def test_a_buffer_that_the_step_changes_is_not_known(tmp_path: Path) -> None:
    # The loss of the step is compared with eager PyTorch by the export.
    program = export(Attending(changing), inputs(), tmp_path / "step.pt2")
    assert attention(program) == {MASKED}


def test_more_keys_than_queries_are_not_causal(tmp_path: Path) -> None:
    model = Attending(lambda model, padding: TRIL[:, :4], keys=4)
    assert attention(export(model, inputs(), tmp_path / "step.pt2")) == {MASKED}
    model = Attending(lambda model, padding: TRIL[:, :1], keys=1)
    assert attention(export(model, inputs(), tmp_path / "step.pt2")) == {FULL}


def test_grouped_heads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, given = Attending(lambda model, padding: TRIL, heads_of_keys=2), inputs()
    program = export(model, given, tmp_path / "step.pt2")
    assert attention(program) == {CAUSAL}
    assert_same_results(program, export_as_traced(model, given, tmp_path / "masked.pt2", monkeypatch), model, given)


@pytest.mark.parametrize("wrap", [torch.no_grad, lambda: torch.autocast("cpu", torch.bfloat16)], ids=["frozen", "half"])
def test_attention_in_a_graph_of_its_own(tmp_path: Path, wrap: Callable[[], object]) -> None:
    class Inner(Attending):
        def forward(self, x: torch.Tensor, padding: torch.Tensor) -> torch.Tensor:
            mask = torch.ones(TIME, TIME, dtype=torch.bool).tril()
            with wrap():
                heads = x.unflatten(-1, (2, -1)).transpose(1, 2)
                attended = F.scaled_dot_product_attention(heads, heads, heads, mask)
                padded = F.scaled_dot_product_attention(heads, heads, heads, padding.bool()[:, None, None, :])
            return (self.q(x) * (attended + padded).float().mean()).square().mean()

    program = export(Inner(lambda model, padding: TRIL), inputs(), tmp_path / "step.pt2")
    assert attention(program) == {CAUSAL, MASKED}


def test_a_frozen_graph_that_changes_a_mask(tmp_path: Path) -> None:
    def make_mask(model: nn.Module, padding: torch.Tensor) -> torch.Tensor:
        mask = torch.ones(TIME, TIME, dtype=torch.bool).tril()
        with torch.no_grad():
            mask.logical_and_(padding[0].bool())
        return mask

    assert attention(export(Attending(make_mask), inputs(), tmp_path / "step.pt2")) == {MASKED}


def small(name: str, **settings: object) -> nn.Module:
    given = {
        "vocab_size": 32, "hidden_size": 16, "n_embd": 16, "intermediate_size": 16, "num_hidden_layers": 2,
        "n_layer": 2,
        "num_attention_heads": 4, "n_head": 4, "num_key_value_heads": 2, "head_dim": 4, "max_position_embeddings": 64,
        "use_cache": False, "attn_pdrop": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0,
    }  # fmt: skip
    config = transformers.AutoConfig.for_model(name)
    given = {key: value for key, value in given.items() if hasattr(config, key)} | settings
    return transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.for_model(name, **given))


TOKENS = 11


def tokens() -> dict[str, torch.Tensor]:
    ids = torch.randint(3, 32, (2, TOKENS))
    return {"input_ids": ids, "labels": ids}


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("gpt2", {}),
        ("llama", {}),
        ("qwen2", {}),
        ("gemma", {}),
        ("gpt_neox", {}),
        ("mistral", {"sliding_window": TOKENS}),
    ],
)
def test_decoders_of_transformers_are_causal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, settings: dict[str, object]
) -> None:
    model, given = small(name, **settings), tokens()
    program = export(model, given, tmp_path / "step.pt2")
    assert attention(program) == {CAUSAL}
    assert not has_mask_of(program, TOKENS, TOKENS)
    masked = export_as_traced(model, given, tmp_path / "masked.pt2", monkeypatch)
    assert attention(masked) == {MASKED} and has_mask_of(masked, TOKENS, TOKENS)
    assert_same_results(program, masked, model, given)


def test_a_window_and_padding_of_transformers_stay(tmp_path: Path) -> None:
    assert attention(export(small("mistral", sliding_window=4), tokens(), tmp_path / "window.pt2")) == {MASKED}
    given = tokens() | {"attention_mask": torch.ones(2, TOKENS, dtype=torch.int64)}
    assert attention(export(small("llama"), given, tmp_path / "padding.pt2")) == {MASKED}


def test_padding_that_is_declared_to_be_full(tmp_path: Path) -> None:
    model = small("llama")
    given = tokens() | {"attention_mask": torch.ones(2, TOKENS, dtype=torch.int64)}
    exported = fcdp.export(model, given, tmp_path / "step.pt2", full_masks=["attention_mask"])
    assert set(exported.inputs) == {"input_ids", "labels", "attention_mask"}
    program = torch.export.load(tmp_path / "step.pt2")
    assert attention(program) == {CAUSAL} and not has_mask_of(program, TOKENS, TOKENS)
    loss = replay(program, make_call(model, given, None)).loss
    torch.testing.assert_close(loss, model(**given).loss.detach())
    given["attention_mask"][1, 3] = 0
    assert replay(program, make_call(model, given, None)).loss.isnan()


def test_full_masks_are_inputs_of_ones(tmp_path: Path) -> None:
    path = tmp_path / "step.pt2"
    model, (x, padding) = Attending(of_padding), inputs()
    with pytest.raises(fcdp.ExportError, match="among the inputs 'x', 'padding'; got 'mask'"):
        fcdp.export(model, (x, padding), path, full_masks=["mask"])
    padding[1, 4] = 0
    with pytest.raises(fcdp.ExportError, match="expected only ones in the example input 'padding'"):
        fcdp.export(model, (x, padding), path, full_masks=["padding"])
    assert not path.exists()


def test_models_without_weights(tmp_path: Path) -> None:
    with fcdp.empty_weights():
        model = small("llama")
    assert attention(export(model, tokens(), tmp_path / "step.pt2")) == {CAUSAL}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_patterns_of_numbers(dtype: torch.dtype) -> None:
    hidden = torch.full((3, 3), float("-inf"), dtype=dtype)
    assert pattern_of(hidden.triu(1), 3, 3) is Pattern.CAUSAL
    assert pattern_of(hidden.clamp(min=torch.finfo(dtype).min).triu(1), 3, 3) is Pattern.CAUSAL
    assert pattern_of((hidden / 2).triu(0), 3, 3) is Pattern.OTHER
    assert pattern_of(torch.full((3, 3), float("nan"), dtype=dtype).triu(1), 3, 3) is Pattern.OTHER
    assert pattern_of(torch.zeros(3, dtype=dtype), 3, 3) is Pattern.ALL
    assert pattern_of(-torch.zeros(3, dtype=dtype), 2, 3) is Pattern.ALL


def test_patterns_differ_by_batch_and_head() -> None:
    causal = torch.ones(2, 3, 5, 5, dtype=torch.bool).tril()
    assert pattern_of(causal, 5, 5) is Pattern.CAUSAL
    for element in ((1, 2, 3, 0), (0, 1, 0, 4)):
        other = causal.clone()
        other[element] ^= True
        assert pattern_of(other, 5, 5) is Pattern.OTHER
