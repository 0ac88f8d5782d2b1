# SPDX-License-Identifier: Apache-2.0
import archive
import torch.nn.functional as F
from small_models import Tiny, tiny_inputs
from torch import nn
from torch.utils.checkpoint import checkpoint

import fcdp
from fcdp.units import unit_of, units


def test_labels(tmp_path):
    path = tmp_path / "step.pt2"
    exported = fcdp.export(Tiny(), tiny_inputs(), path)
    labels = archive.labels(path)
    assert exported.labelled >= 0.95 * exported.nodes
    found = [label for label in labels if label]
    assert len(found) >= 0.95 * len(labels)
    assert sum(label["source"].split(":")[0].endswith("small_models.py") for label in found) >= 0.95 * len(labels)
    assert {"blocks.1.qkv", "blocks.1.norm", "blocks.1", "embed", "head", ""} <= {label["module"] for label in found}
    assert any(label["grad_acc"] and label["backward"] for label in found)


def test_backward_follows_forward(tmp_path):
    path = tmp_path / "step.pt2"
    fcdp.export(Tiny(), tiny_inputs(), path)
    passes = [label["backward"] for label in archive.labels(path) if label]
    assert passes == sorted(passes)
    nodes = archive.program(path)["graph"]["nodes"]
    backward = [n for n, b in zip(nodes, passes) if "backward" in n["target"] and not b]
    assert backward == []


def test_backward_has_the_forwards_module_and_line(tmp_path):
    path = tmp_path / "step.pt2"
    fcdp.export(Tiny(), tiny_inputs(), path)
    of_attention = [
        label
        for node, label in zip(archive.program(path)["graph"]["nodes"], archive.labels(path))
        if "scaled_dot_product" in node["target"]
    ]
    forward, backward = of_attention[:2], of_attention[2:]
    assert [(l["module"], l["source"]) for l in forward] == [(l["module"], l["source"]) for l in reversed(backward)]


def test_checkpointed_regions(tmp_path):
    class Checkpointed(Tiny):
        def forward(self, ids, labels):
            x = self.embed(ids)
            for block in self.blocks:
                x = checkpoint(block, x, use_reentrant=False)
            return F.cross_entropy(self.head(x).flatten(0, 1), labels.flatten())

    path = tmp_path / "step.pt2"
    fcdp.export(Checkpointed(), tiny_inputs(), path)
    labels = [label for label in archive.labels(path) if label]
    for block in (0, 1):
        modules = {label["module"] for label in labels if label.get("region") == block}
        assert modules == {f"blocks.{block}{part}" for part in ("", ".norm", ".qkv")}
    outside = {label["module"] for label in labels if "region" not in label and not label["backward"]}
    assert outside == {"embed", "head", ""}
    assert not any("region" in label for label in labels if label["backward"])


def test_units():
    model = nn.Module()
    model.embed = nn.Embedding(3, 2)
    model.layers = nn.ModuleList([nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)), nn.Identity(), nn.Linear(2, 2)])
    model.head = nn.Module()
    model.head.deep = nn.Linear(2, 2)
    model.head.scale = nn.Parameter(nn.Linear(1, 1).bias.detach())
    model.bias = nn.Parameter(nn.Linear(1, 1).bias.detach())
    assert units(model) == ["", "embed", "layers.0", "layers.2", "head", "head.deep"]
    assert unit_of("head.deep.weight", units(model)) == "head.deep"
    assert unit_of("layers.0.1.bias", units(model)) == "layers.0"
    assert unit_of("bias", units(model)) == ""
    assert unit_of("layers.20.bias", ["layers.2"]) is None


def test_units_in_the_archive(tmp_path):
    path = tmp_path / "step.pt2"
    fcdp.export(Tiny(tied=True), tiny_inputs(), path)
    assert archive.metadata(path)["units"] == ["embed", "blocks.0", "blocks.1", "head"]
