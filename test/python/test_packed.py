# SPDX-License-Identifier: Apache-2.0
"""Masks that keep the documents of a row apart become attention by documents, in any later batch; other masks stay."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import ExportedProgram

import fcdp
from fcdp.call import make_call
from fcdp.check import replay
from fcdp.eager import eager_step

transformers = pytest.importorskip("transformers")

ROWS, TOKENS, WIDTH = 2, 12, 8
Mask = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
NOTHING_HIDDEN = torch.ones((), dtype=torch.bool)
MASKED = "aten._scaled_dot_product_flash_attention_for_cpu.default"
PACKED = "fcdp.packed_attention.default"


class Attending(nn.Module):
    """Attention of four heads, and two of keys, under a mask that is made of document numbers and positions."""

    def __init__(self, make_mask: Mask) -> None:
        super().__init__()
        self.make_mask = make_mask
        self.project = nn.Linear(WIDTH, 8 * WIDTH)

    def forward(self, x: torch.Tensor, documents: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        heads = self.project(x).unflatten(-1, (8, WIDTH)).transpose(1, 2)
        q, k, v = heads.split([4, 2, 2], dim=1)
        return F.scaled_dot_product_attention(q, k, v, self.make_mask(documents, positions), enable_gqa=True).square().mean()


def same(rows: torch.Tensor) -> torch.Tensor:
    return rows[:, None, :, None] == rows[:, None, None, :]


def not_after(rows: torch.Tensor) -> torch.Tensor:
    return rows[:, None, None, :] <= rows[:, None, :, None]


def causal() -> torch.Tensor:
    return torch.ones(TOKENS, TOKENS, dtype=torch.bool).tril()


def of_lengths(documents: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """Documents of the first row's cumulative lengths (cu_seqlens), for all rows."""
    ends = torch.cumsum(F.one_hot(documents[0], 4).sum(0), 0)
    numbers = torch.searchsorted(ends, torch.arange(TOKENS), right=True)
    return (numbers[:, None] == numbers[None, :]) & causal()


def by_indices(documents: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    row, place = torch.arange(ROWS)[:, None, None, None], torch.arange(TOKENS)
    query, key = place[None, None, :, None], place[None, None, None, :]
    return causal() & (documents[row, key] == documents[row, query])


def as_numbers(documents: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    seen = (documents[:, :, None] == documents[:, None, :]) & causal()
    seen = seen.unsqueeze(1).expand(ROWS, 4, TOKENS, TOKENS)
    return torch.where(seen, 0.0, torch.finfo(torch.float32).min)


def two_sources(documents: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    return (documents[:, None, :, None] == positions[:, None, None, :]) & causal() | torch.eye(TOKENS, dtype=torch.bool)


def given(seed: int) -> dict[str, torch.Tensor]:
    """Documents with boundaries of their own, in the second row also apart, and positions that grow in some of them."""
    draw = torch.Generator().manual_seed(seed)
    first = torch.sort(torch.randint(4, (TOKENS,), generator=draw)).values
    documents = torch.stack([first, torch.randint(3, (TOKENS,), generator=draw)])
    positions = torch.stack([torch.arange(TOKENS), torch.randint(5, (TOKENS,), generator=draw)])
    return {"x": torch.randn(ROWS, TOKENS, WIDTH, generator=draw), "documents": documents, "positions": positions}


def export(model: nn.Module, batch: dict[str, torch.Tensor], path: Path, **settings: object) -> ExportedProgram:
    fcdp.export(model, batch, path, **settings)
    return torch.export.load(path)


def attentions(program: ExportedProgram) -> set[str]:
    return {str(node.target) for node in program.graph.nodes} & {MASKED, PACKED}


def assert_like_eager(program: ExportedProgram, model: nn.Module, batch: dict[str, torch.Tensor]) -> None:
    call = make_call(model, batch, None)
    found, expected = replay(program, call), eager_step(model, call)
    torch.testing.assert_close(found.loss, expected.loss)
    torch.testing.assert_close(found.gradients, expected.gradients, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("make_mask", "expected"),
    [
        (lambda documents, positions: same(documents) & causal(), PACKED),
        (lambda documents, positions: same(documents) & not_after(positions), PACKED),
        (lambda documents, positions: NOTHING_HIDDEN & not_after(positions) & same(documents), PACKED),
        (of_lengths, PACKED),
        (by_indices, PACKED),
        (as_numbers, PACKED),
        (lambda documents, positions: same(documents), MASKED),
        (lambda documents, positions: not_after(positions), MASKED),
        (lambda documents, positions: same(documents) & not_after(positions) & causal(), MASKED),
        (lambda documents, positions: same(documents) & same(positions) & causal(), MASKED),
        (lambda documents, positions: (same(documents) & causal()) | torch.eye(TOKENS, dtype=torch.bool), MASKED),
        (lambda documents, positions: (same(documents) & causal()).flip(-1).flip(-1), MASKED),
        (two_sources, MASKED),
        (lambda documents, positions: same(F.pad(documents, (0, 3))[:, :TOKENS]) & causal(), PACKED),
        (lambda documents, positions: torch.where(same(documents) & causal(), 0.0, -1.0), MASKED),
    ],
    ids=(
        "documents positions other-order lengths indices numbers both-directions positions-alone two-orders two-documents or "
        "flipped two-sources cut bias"
    ).split(),
)
def test_masks_of_documents(tmp_path: Path, make_mask: Mask, expected: str) -> None:
    model = Attending(make_mask)
    program = export(model, given(0), tmp_path / "step.pt2")
    assert attentions(program) == {expected}
    for seed in (1, 2):
        assert_like_eager(program, model, given(seed))


def llama(**settings: object) -> nn.Module:
    shape = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2, "vocab_size": 32}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2}
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**shape, **heads, **settings)).train()


def tokens(*rows: list[int]) -> dict[str, torch.Tensor]:
    """Rows of documents of these lengths."""
    positions = torch.stack([torch.cat([torch.arange(length) for length in row]) for row in rows])
    ids = torch.randint(32, positions.shape)
    return {"input_ids": ids, "labels": ids.masked_fill(positions == 0, -100), "position_ids": positions}


LATER = (([5, 1, 2, 4], [12]), ([12], [12]), ([1] * 12, [3, 9]))


def test_positions_of_transformers(tmp_path: Path) -> None:
    model = llama(use_cache=False)
    program = export(model, tokens([12], [12]), tmp_path / "step.pt2")
    assert attentions(program) == {PACKED}
    for rows in LATER:
        assert_like_eager(program, model, tokens(*rows))


def test_a_model_without_weights(tmp_path: Path) -> None:
    with fcdp.empty_weights():
        model = llama(use_cache=False)
    exported = fcdp.export(model, tokens([3, 4, 5], [6, 6]), tmp_path / "step.pt2")
    assert attentions(torch.export.load(tmp_path / "step.pt2")) == {PACKED}
    assert exported.checked_units and not exported.unchecked_units


def test_in_half_precision(tmp_path: Path) -> None:
    model = llama(use_cache=False)
    program = export(model, tokens([3, 4, 5], [6, 6]), tmp_path / "step.pt2", autocast=torch.bfloat16)
    assert attentions(program) == {PACKED}
    call = make_call(model, tokens(*LATER[0]), None, autocast=torch.bfloat16)
    torch.testing.assert_close(replay(program, call).loss, eager_step(model, call).loss, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_a_model_that_keeps_a_cache_crosses_documents(tmp_path: Path, implementation: str) -> None:
    """Transformers looks at positions only without a cache, and a model as it comes has one."""
    model = llama(attn_implementation=implementation)
    assert model.config.use_cache
    with pytest.warns(UserWarning, match="attention goes over the boundaries .* use_cache=False"):
        program = export(model, tokens([3, 4, 5], [6, 6]), tmp_path / "step.pt2")
    for rows in LATER:
        batch = tokens(*rows)
        loss = replay(program, make_call(model, batch, None)).loss
        torch.testing.assert_close(loss, model(**batch).loss.detach())
    apart = {**tokens([3, 4, 5], [6, 6]), "use_cache": False}
    loss = eager_step(model, make_call(model, apart, None)).loss
    torch.testing.assert_close(loss, model(**apart).loss.detach())


@pytest.mark.parametrize("full_masks", [[], ["attention_mask"]], ids=["mask", "full"])
def test_a_mask_of_ones_crosses_documents(tmp_path: Path, full_masks: list[str]) -> None:
    model, ones = llama(use_cache=False), {"attention_mask": torch.ones(2, 12, dtype=torch.int64)}
    fcdp.export(model, tokens([12], [12]) | ones, tmp_path / "whole.pt2", full_masks=full_masks)
    if full_masks:
        with pytest.warns(UserWarning, match="there is no mask: leave 'attention_mask' out of the inputs"):
            make_call(model, tokens([3, 4, 5], [6, 6]) | ones, None, full_masks)
    program = torch.export.load(tmp_path / "whole.pt2")
    for rows in LATER:
        batch = tokens(*rows) | ones
        loss = replay(program, make_call(model, batch, None)).loss
        torch.testing.assert_close(loss, model(**batch).loss.detach())


def test_the_operator_in_a_model(tmp_path: Path) -> None:
    class Own(Attending):
        def forward(self, x: torch.Tensor, documents: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
            q, k, v = self.project(x).unflatten(-1, (8, WIDTH)).transpose(1, 2).split([4, 2, 2], dim=1)
            return fcdp.packed_attention(q, k, v, documents).square().mean()

    own, masked = Own(by_indices), Attending(by_indices)
    own.load_state_dict(masked.state_dict())
    program = export(own, given(0), tmp_path / "step.pt2")
    assert attentions(program) == {PACKED}
    for seed in (1, 2):
        assert_like_eager(program, masked, given(seed))
    with pytest.raises(ValueError, match=r"expected documents to be int64 or int32 of shape \[2, 12\], got torch.float32"):
        own(**given(0) | {"documents": torch.zeros(2, 12)})
