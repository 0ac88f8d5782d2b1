# SPDX-License-Identifier: Apache-2.0
"""SOAP updates matrices as its authors' code does, beside AdamW. The class in fcdp.optimizers is compared with the same
formulas in test/python/test_reference.py."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from torch import nn

import fcdp
from checkpoints import States, read_checkpoint
from expectations import LOSS_TOLERANCE
from fcdp.checkpoint.cli import main
from fcdp.optimizers import SOAP
from harness import Config, Workshop, read_plan, relative_error, run_command, tool
from models import build
from optimizer_checks import (
    EVERYTHING,
    STEPS,
    assert_checkpoints_go_on,
    assert_converts,
    assert_layout_is_bit_equal,
    assert_planned_memory,
    assert_refuses,
    assert_strategy_is_bit_equal,
    each_strategy,
)

# Sides of up to 64 have bases: one side of some matrices, both of others.
LIMIT, FREQUENCY = 64, 3
LR, BETAS, SHAMPOO, EPS, DECAY = 1e-3, (0.9, 0.95), 0.8, 1e-3, 0.1
ADAMW = "adamw,lr=1e-3,eps=1e-3"
OPTIMIZER = (
    f"soap,lr={LR},beta1={BETAS[0]},beta2={BETAS[1]},shampoo_beta={SHAMPOO},eps={EPS},weight_decay={DECAY},"
    f"precondition_frequency={FREQUENCY},max_precond_dim={LIMIT}+{ADAMW}"
)
CONFIG = Config("gpt", optimizer=OPTIMIZER)
# The bases are refreshed in the third update, too.
FULL = replace(
    EVERYTHING,
    optimizer=f"soap,lr=1e-3,eps=1e-3,precondition_frequency=2,max_precond_dim={LIMIT}+{ADAMW}",
    groups=("*.bias,*ln*:weight_decay=0", "*up.weight:lr=0.25,weight_decay=0", "*wte*,*wpe*:optimizer=adamw"),
)
SIDES = ("row", "col")
STATES = {"exp_avg", "exp_avg_sq", *(f"{side}_{kind}" for side in SIDES for kind in ("gg", "q"))}


@dataclass
class Reference:
    """The update of one matrix in float64, from the states before it. Bases are checked by what defines them, because
    their signs and the vectors of eigenvalues that are zero are free, and then taken as they are."""

    before: dict[str, torch.Tensor]
    after: dict[str, torch.Tensor]
    gradient: torch.Tensor
    update: int  # From 1 on.

    def check(self) -> None:
        for number, side in enumerate(SIDES):
            has = self.gradient.shape[number] <= LIMIT
            assert (f"{side}_q" in self.after) == (f"{side}_gg" in self.after) == has
            if has:
                left = self.gradient if number == 0 else self.gradient.T
                expected = SHAMPOO * self.before[f"{side}_gg"] + (1 - SHAMPOO) * left @ left.T
                assert_near(self.after[f"{side}_gg"], expected)
        if self.update == 1:
            self.check_first()
        else:
            self.check_other(self.update - 1)

    def check_first(self) -> None:
        assert self.after["value"].equal(self.before["value"])
        assert not self.after["exp_avg"].any() and not self.after["exp_avg_sq"].any()
        for side in self.sides():
            basis = self.after[f"{side}_q"]
            values = orthogonal(basis).T @ self.after[f"{side}_gg"] @ basis
            assert_near(values, values.diagonal().sort(descending=True).values.diag(), scale=values.abs().max())

    def check_other(self, counted: int) -> None:
        rotated = self.rotate(self.before, self.gradient)
        mean = BETAS[0] * self.before["exp_avg"] + (1 - BETAS[0]) * rotated
        squared = BETAS[1] * self.before["exp_avg_sq"] + (1 - BETAS[1]) * rotated**2
        corrected = [moment / (1 - beta**counted) for moment, beta in zip((mean, squared), BETAS)]
        # The authors add eps before they correct the bias.
        root = (1 - BETAS[1] ** counted) ** 0.5
        direction = self.rotate_back(self.before, corrected[0] / (corrected[1].sqrt() + EPS / root))
        moved = (self.before["value"] - LR * direction) * (1 - LR * DECAY)
        change = moved - self.before["value"]
        assert_near(self.after["value"] - self.before["value"], change, 1e-3)
        if counted % FREQUENCY == 0:
            mean, squared = self.refresh(mean, squared)
        else:
            assert all(self.after[f"{side}_q"].equal(self.before[f"{side}_q"]) for side in self.sides())
        assert_near(self.after["exp_avg"], mean)
        assert_near(self.after["exp_avg_sq"], squared)

    def refresh(self, mean: torch.Tensor, squared: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        original = self.rotate_back(self.before, mean)
        for number, side in enumerate(SIDES):
            if side not in self.sides():
                continue
            old, average = self.before[f"{side}_q"], self.after[f"{side}_gg"]
            # The order of estimated eigenvalues is that in which the sums of the second moment are.
            sums = [moment.sum(1 - number) for moment in (self.after["exp_avg_sq"], squared)]
            order = sums[1].argsort()[sums[0].argsort().argsort()]
            estimated = (old * (average @ old)).sum(0)[order]
            scale = estimated.max()
            assert_near(estimated, estimated.sort(descending=True).values, scale=scale)
            factor = orthogonal(self.after[f"{side}_q"]).T @ average @ old[:, order]
            assert_near(factor, factor.triu(), scale=scale)
            squared = squared.index_select(number, order)
        return self.rotate(self.after, original), squared

    def sides(self) -> list[str]:
        return [side for side in SIDES if f"{side}_q" in self.after]

    def rotate(self, states: dict[str, torch.Tensor], value: torch.Tensor) -> torch.Tensor:
        row, column = (states.get(f"{side}_q") if side in self.sides() else None for side in SIDES)
        value = value if row is None else row.T @ value
        return value if column is None else value @ column

    def rotate_back(self, states: dict[str, torch.Tensor], value: torch.Tensor) -> torch.Tensor:
        transposed = {role: state.T for role, state in states.items() if role.endswith("_q")}
        return self.rotate(transposed, value)


def assert_near(actual: torch.Tensor, expected: torch.Tensor, most: float = 1e-5, scale: torch.Tensor | None = None) -> None:
    """`most` is relative to the largest element, since products of matrices round by that."""
    scale = expected.abs().max() if scale is None else scale
    assert (actual - expected).abs().max() <= most * scale


def orthogonal(basis: torch.Tensor) -> torch.Tensor:
    assert_near(basis.T @ basis, torch.eye(len(basis), dtype=basis.dtype))
    return basis


def of(states: States, name: str, shape: torch.Size) -> dict[str, torch.Tensor]:
    """The states of a matrix in float64. Before the first step, they are zeros."""
    zeros = {"exp_avg": torch.zeros(shape), "exp_avg_sq": torch.zeros(shape)}
    for number, side in enumerate(SIDES):
        zeros[f"{side}_gg"] = torch.zeros(shape[number], shape[number])
    return {role: v.double() for role, v in (zeros | {r: v for (r, n), v in states.items() if n == name}).items()}


def test_each_update_is_the_reference(workshop: Workshop, tmp_path: Path) -> None:
    steps = 4 * FREQUENCY
    config = replace(CONFIG, nodes=1, local=1)
    given, network = workshop.model("gpt"), build("gpt")
    files = (f"--save-dir={tmp_path}", "--save-every=1", "--keep=99")
    tool(*run_command(workshop.step(config), given.archive, given.inputs, steps, *files))
    data = fcdp.batches_from_npy(given.inputs, 1, 1)
    parameters = dict(network.named_parameters())
    before: States = {("value", name): value.detach().clone() for name, value in parameters.items()}
    for step in range(steps):
        with torch.no_grad():
            for name, value in parameters.items():
                value.copy_(before["value", name])
        gradients: list[torch.Tensor] = []
        fcdp.reference(network, [data(step) if callable(data) else data[step]], recorder(gradients), 1, seed=0)
        after = read_checkpoint(tmp_path / f"step-{step + 1:08}").states
        for (name, value), gradient in zip(parameters.items(), gradients):
            roles = {role for role, other in after if other == name} - {"value"}
            if value.ndim != 2:
                assert roles == {"exp_avg", "exp_avg_sq"}
                continue
            own = of(after, name, value.shape)
            present = {role: state for role, state in own.items() if role in roles or role == "value"}
            Reference(of(before, name, value.shape), present, gradient.double(), step + 1).check()
        before = after


def recorder(gradients: list[torch.Tensor]) -> Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]:
    class Recorder(torch.optim.Optimizer):
        def __init__(self, trained: Iterable[nn.Parameter]):
            super().__init__(trained, {})

        def step(self, closure: None = None) -> None:
            gradients.extend(p.grad.clone() for p in self.param_groups[0]["params"])

    return Recorder


class Both:
    def __init__(self, trained: Iterable[nn.Parameter]):
        trained = list(trained)
        settings = {"betas": BETAS, "shampoo_beta": SHAMPOO, "eps": EPS, "weight_decay": DECAY}
        matrices, others = ([p for p in trained if (p.ndim == 2) == is_matrix] for is_matrix in (True, False))
        frequency = {"precondition_frequency": FREQUENCY, "max_precond_dim": LIMIT}
        soap = SOAP(matrices, lr=LR, **settings, **frequency)
        self.optimizers = [soap, torch.optim.AdamW(others, lr=1e-3, eps=1e-3)]

    def step(self) -> None:
        for optimizer in self.optimizers:
            optimizer.step()

    def zero_grad(self) -> None:
        for optimizer in self.optimizers:
            optimizer.zero_grad()


@pytest.mark.parametrize("model", ["gpt", "gpt_bf16"])
def test_four_ranks_lose_as_the_reference(workshop: Workshop, model: str) -> None:
    """Vectors of eigenvalues that are zero are chosen by rounding, so that single elements differ."""
    config = replace(CONFIG, model=model)
    data = fcdp.batches_from_npy(workshop.model(model).inputs, config.world, 1)
    losses = fcdp.reference(build(model), data, Both, STEPS, world=config.world, seed=0)
    assert losses[0] == pytest.approx(workshop.run(config, STEPS).losses[0], rel=LOSS_TOLERANCE[model])
    assert relative_error(workshop.run(config, STEPS).losses, losses) <= max(LOSS_TOLERANCE[model], 1e-3)


@each_strategy
def test_strategies_are_bit_equal(workshop: Workshop, strategy: str) -> None:
    assert_strategy_is_bit_equal(workshop, FULL, strategy)


def test_merged_buckets_are_bit_equal(workshop: Workshop) -> None:
    """The states of a matrix are at other places there."""
    assert_layout_is_bit_equal(workshop, CONFIG, {"bucket_bytes": 1 << 16})


def test_states_and_memory(workshop: Workshop) -> None:
    plan = read_plan(workshop.step(CONFIG))
    for index, bucket in enumerate(plan["buckets"]):
        shapes = [p["shape"] for p in plan["parameters"] if p["bucket"] == index]
        is_soap = bucket["name"].endswith(".soap")
        assert all((len(shape) == 2) == is_soap for shape in shapes)
        if is_soap:
            assert STATES <= set(bucket["states"])
            least = max(64 * 64 if shape[1] == 64 else 0 for shape in shapes)
            assert bucket["states"]["col_gg"]["bytes"] >= 4 * least
    # Changes of bases take more, from the system.
    for config in (CONFIG, replace(FULL, master="")):
        text = re.sub("frequency=.", "frequency=99", config.optimizer)
        assert_planned_memory(workshop, replace(config, optimizer=text))


def test_checkpoints_go_on_elsewhere(workshop: Workshop, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    others = [replace(FULL, nodes=1, local=1, strategy="zero3"), replace(FULL, nodes=1, local=3, bucket_bytes=1 << 16)]
    half = assert_checkpoints_go_on(workshop, tmp_path, FULL, others, {"value", "master", *STATES}, "row_q")
    assert main(["inspect", str(half)]) == 0
    assert "row_q" in capsys.readouterr().out
    assert_converts(half, tmp_path)


def test_checkpoints_of_other_optimizers_are_refused(workshop: Workshop, tmp_path: Path) -> None:
    soap, adamw = (Config("mlp_dropout", 1, 1, optimizer=optimizer) for optimizer in (OPTIMIZER, "adamw"))
    assert_refuses(workshop, tmp_path / "one", soap, adamw, "the step has no row_gg of")
    assert_refuses(workshop, tmp_path / "other", adamw, soap, "it lacks row_gg of")
