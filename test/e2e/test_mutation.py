# SPDX-License-Identifier: Apache-2.0
"""The comparison with PyTorch notices gradients that are wrong, and the compiler a reduction that is left out."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import BIN, Config, ToolError, Workshop, compile_command, relative_error, tool

STEPS = 3


def sharded_text(workshop: Workshop, config: Config, folder: Path) -> str:
    """The module after the sharded phase, still to be scheduled."""
    imported = folder / "step.mlir"
    tool(BIN / "fcdp-translate", "--import-pt2", workshop.model(config.model).archive, "-o", imported)
    options = (
        f"strategy={config.strategy} nodes={config.nodes} ranks-per-node={config.local} "
        f"micro-batches={config.micro_batches} optimizer={config.optimizer} dump-dir={folder}"
    )
    tool(BIN / "fcdp-opt", imported, f"--fcdp-pipeline={options}", "-o", "/dev/null")
    return (folder / "1-sharded.mlir").read_text()


def same(text: str) -> str:
    return text


def leave_out_network_reduction(text: str) -> str:
    """A block's gradient is summed twice inside the node, never between nodes; with two of each, the shapes agree."""
    pattern = r"(reduce_scatter %\w+ of @bucket\.blocks\.1 over @world\[)node\]"
    text, count = re.subn(pattern, r"\1local]", text)
    assert count == 1
    return text


def exchange_gradients(text: str) -> str:
    """Two parameters of a block get each other's gradient."""
    line = re.search(r"pack @bucket\.blocks\.1\((.*?)\)[^\n]*: \((.*?)\) ->", text)
    names = re.findall(r"as (@[\w.]+)", line[1])
    types = line[2].split(", ")
    i, j = next((i, j) for j in range(len(types)) for i in range(j) if types[i] == types[j])
    members = line[1].split(", ")
    members[i] = members[i].replace(names[i], names[j])
    members[j] = members[j].replace(names[j], names[i])
    return text[: line.start(1)] + ", ".join(members) + text[line.end(1) :]


def scale_gradients(text: str) -> str:
    """The gradients of a block count four times as much, as if that were meant."""
    pattern = r"(shard_update @bucket\.blocks\.1 scale )(\S+)( with #fcdp\.\w+<[^>]*>)"
    text, count = re.subn(pattern, lambda found: f"{found[1]}{4 * float(found[2]):e}{found[3]} {{fcdp.own_scale}}", text)
    assert count == 1
    return text


def leave_out_accumulation(text: str) -> str:
    """The last micro-batch's gradient of a block replaces the sum of those before."""
    start = text.index("@last_microbatch")
    pattern = r"(accumulate %\w+ into @bucket\.blocks\.1 +)add"
    rest, count = re.subn(pattern, r"\1overwrite", text[start:])
    assert count == 1
    return text[:start] + rest


@pytest.mark.parametrize(("edit", "agrees"), [(same, True), (scale_gradients, False)])
def test_losses_show_it(workshop: Workshop, tmp_path: Path, edit: Callable[[str], str], agrees: bool) -> None:
    config = Config("gpt", strategy="zero3")
    text, step = tmp_path / "edited.mlir", tmp_path / "step.so"
    text.write_text(edit(sharded_text(workshop, config, tmp_path)))
    tool(*compile_command(config, text, step))
    run = workshop.run_object(step, config, STEPS, f"mutation-{edit.__name__}")
    expected = workshop.reference(config, STEPS).losses
    # The first step's losses are those of the initial weights.
    assert relative_error(run.losses[:1], expected[:1]) <= 1e-5
    assert (relative_error(run.losses, expected) <= 1e-5) == agrees
    if agrees:
        assert run.losses == workshop.run(config, STEPS).losses


def test_compiler_refuses_exchanged_gradients(workshop: Workshop, tmp_path: Path) -> None:
    config = Config("gpt", strategy="zero3")
    text = tmp_path / "edited.mlir"
    text.write_text(exchange_gradients(sharded_text(workshop, config, tmp_path)))
    with pytest.raises(ToolError, match="'fcdp.pack' op in @only_microbatch: expected the gradient of @"):
        tool(*compile_command(config, text, tmp_path / "step.so"))


def test_compiler_refuses_a_lost_accumulation(workshop: Workshop, tmp_path: Path) -> None:
    config = Config("gpt", strategy="zero3", micro_batches=2)
    text = tmp_path / "edited.mlir"
    text.write_text(leave_out_accumulation(sharded_text(workshop, config, tmp_path)))
    with pytest.raises(ToolError, match="'fcdp.accumulate' op expected 'add' in @last_microbatch"):
        tool(*compile_command(config, text, tmp_path / "step.so"))


def test_compiler_refuses_a_lost_reduction(workshop: Workshop, tmp_path: Path) -> None:
    config = Config("gpt", strategy="zero3")
    text = tmp_path / "edited.mlir"
    text.write_text(leave_out_network_reduction(sharded_text(workshop, config, tmp_path)))
    with pytest.raises(ToolError, match="'fcdp.reduce_scatter' op .* in @only_microbatch: expected to reduce within"):
        tool(*compile_command(config, text, tmp_path / "step.so"))
