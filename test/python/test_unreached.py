# SPDX-License-Identifier: Apache-2.0
"""Parameters that the loss of the example inputs does not depend on."""

from pathlib import Path

import pytest
import torch
from torch import nn

from fcdp.call import Call, make_call
from fcdp.errors import StepError
from fcdp.loop import build as loop_build
from fcdp.unreached import without_unreached
from test_loop import compiler, home

__all__ = ["home"]


class Towers(nn.Module):
    """A batch without an image does not reach the tower."""

    def __init__(self) -> None:
        super().__init__()
        self.text, self.tower = nn.Linear(8, 4), nn.Linear(6, 8)

    def forward(self, x: torch.Tensor, image: torch.Tensor | None = None) -> torch.Tensor:
        return self.text(x if image is None else x + self.tower(image)).square().mean()


def text_of(model: nn.Module) -> Call:
    return make_call(model, {"x": torch.randn(3, 8)}, None)


def image_of(model: nn.Module) -> Call:
    return make_call(model, {"x": torch.randn(4, 8), "image": torch.randn(4, 6)}, None)


def test_are_named_and_left_out_of_groups(home: Path, tmp_path: Path) -> None:
    """As optimizers of PyTorch leave out what has no gradient."""
    compiler(home, f'echo "$@" > {tmp_path}/options; for out; do :; done; echo object > "$out"')
    model = Towers()
    groups = ["--group=tower.weight,tower.bias:lr=0.1", "--group=text.bias,tower.bias:weight_decay=0.0", "--strategy=zero3"]
    with pytest.warns(UserWarning, match="does not train 'tower.weight', 'tower.bias': the loss of the example inputs does not"):
        loop_build.build(model, text_of(model), groups, tmp_path / "cache", check=False)
    options = (tmp_path / "options").read_text().split()
    assert [option for option in options if option.startswith("--group")] == ["--group=text.bias:weight_decay=0.0"]


@pytest.mark.parametrize("is_first", [True, False])
def test_shapes_that_reach_others(home: Path, tmp_path: Path, is_first: bool) -> None:
    compiler(home, "exit 1")
    model = Towers()
    shapes = [text_of(model), image_of(model)] if is_first else [image_of(model), text_of(model)]
    expected = f"the loss of example inputs {0 if is_first else 1} does not depend on 'tower.bias', 'tower.weight', but the loss of"
    with pytest.raises(StepError, match=expected):
        loop_build.build(model, shapes[0], [], tmp_path / "cache", False, greater=shapes[1:])


def test_a_pattern_stays() -> None:
    assert without_unreached(["--group=tower.*,text.bias:lr=1"], ["tower.weight"]) == ["--group=tower.*,text.bias:lr=1"]
