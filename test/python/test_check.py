# SPDX-License-Identifier: Apache-2.0
import pytest
import torch
from small_models import Tiny, tiny_inputs
from torch.export import experimental

import fcdp
from fcdp import exporter


def test_check_refuses_the_stock_exporters_gradients(tmp_path, monkeypatch):
    monkeypatch.setattr(exporter, "joint_program", experimental._export_forward_backward)
    with pytest.raises(fcdp.ExportError, match="the archive's gradient of"):
        fcdp.export(Tiny(), tiny_inputs(), tmp_path / "step.pt2")
    assert list(tmp_path.iterdir()) == []


def test_check_refuses_a_changed_weight(tmp_path, monkeypatch):
    save = torch.export.save

    def save_changed(program, path, **kwargs):
        program.state_dict["head.weight"].data.mul_(1.5)
        save(program, path, **kwargs)

    path = tmp_path / "step.pt2"
    path.write_text("an earlier export")
    monkeypatch.setattr(torch.export, "save", save_changed)
    with pytest.raises(fcdp.ExportError, match="the archive's loss is"):
        fcdp.export(Tiny(), tiny_inputs(), path)
    assert [file.name for file in tmp_path.iterdir()] == ["step.pt2"]
    assert path.read_text() == "an earlier export"


def test_check_can_be_left_out(tmp_path):
    exported = fcdp.export(Tiny(), tiny_inputs(), tmp_path / "step.pt2", check=False)
    assert exported.gradient_error is None
