# SPDX-License-Identifier: Apache-2.0
"""Comparing given states with those of a step, before any is set."""

import pytest
import torch

from fcdp.loop.states import Ranks, match_optimizer, match_values

ONE = Ranks(0, 1)


def meta(*shape: int) -> torch.Tensor:
    return torch.empty(shape, device="meta")


VALUES = [
    (["a", "tied.a"], "value", meta(4, 8), True),
    (["b"], "value", meta(3), True),
    (["rotary"], "value", meta(2), False),
]
STATES = [
    *VALUES,
    (["a", "tied.a"], "exp_avg", meta(4, 8), True),
    (["a", "tied.a"], "exp_avg_sq", meta(4, 8), True),
    (["b"], "exp_avg", meta(3), True),
    (["b"], "exp_avg_sq", meta(3), True),
]
COUNTED = [["a", "b"], ["rotary"]]


def values() -> dict[str, torch.Tensor]:
    return {"a": torch.ones(4, 8), "b": torch.ones(3)}


def moments(step: float = 5.0) -> dict[str, dict[str, torch.Tensor]]:
    return {
        name: {"step": torch.tensor(step), "exp_avg": torch.ones(shape), "exp_avg_sq": torch.ones(shape)}
        for name, shape in (("a", (4, 8)), ("b", (3,)))
    }


def test_values_that_fit() -> None:
    found, problems = match_values(STATES, values(), ONE, is_model=False)
    assert problems.text() == "" and set(found) == {"a", "b"}
    # By any name of a tied parameter, and by all of them.
    given = values()
    given["tied.a"] = given["a"].clone()
    assert match_values(STATES, given, ONE, is_model=False)[1].text() == ""
    del given["a"]
    found, problems = match_values(STATES, given, ONE, is_model=False)
    assert problems.text() == "" and found["a"] is given["tied.a"]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"a": torch.ones(8, 4)}, "these differ: a (expected float32 [4, 8], got float32 [8, 4])"),
        ({"a": torch.ones(32)}, "a (expected float32 [4, 8], got float32 [32])"),
        ({"b": torch.ones(3, dtype=torch.float64)}, "b (expected float32 [3], got float64 [3])"),
        ({"b": [1.0, 1.0, 1.0]}, "b (expected a tensor, got list)"),
        ({"b": meta(3)}, "b (expected a dense tensor with values, got one of meta and torch.strided)"),
        ({"b": torch.ones(3).to_sparse()}, "b (expected a dense tensor with values, got one of cpu and torch.sparse_coo)"),
        ({"c": torch.ones(3), "d": 1}, "the step has no c, d"),
        ({"tied.a": torch.zeros(4, 8)}, "these differ: a and tied.a, which are one parameter"),
    ],
)
def test_values_that_do_not_fit(change: dict[str, object], text: str) -> None:
    problems = match_values(STATES, {**values(), **change}, ONE, is_model=False)[1]
    assert problems.text() == f"the given states do not fit the step: {text}" or text in problems.text()


def test_missing_values() -> None:
    problems = match_values(STATES, {}, ONE, is_model=False)[1]
    assert problems.text() == "the given states do not fit the step: they lack a, b"
    buffer = (["scale"], "value", meta(2), True)
    problems = match_values([*STATES, buffer], values(), ONE, is_model=True)[1]
    assert problems.text() == "the given states do not fit the step: they lack scale"
    # No state dict has 'rotary', and a model may have more than the step.
    assert match_values(STATES, {**values(), "more": 1}, ONE, is_model=True)[1].text() == ""


def test_a_nan_is_equal_to_itself() -> None:
    nan = torch.full((4, 8), torch.nan)
    assert match_values(STATES, {**values(), "a": nan, "tied.a": nan.clone()}, ONE, is_model=False)[1].text() == ""


def test_an_optimizer_that_fits() -> None:
    matched, problems = match_optimizer(STATES, COUNTED, moments(), ONE)
    assert problems.text() == "" and matched.updates == {"a": 5, "b": 5} and len(matched.tensors) == 4
    given = moments()
    given["tied.a"] = given.pop("a")
    assert match_optimizer(STATES, COUNTED, given, ONE)[0].updates == {"a": 5, "b": 5}
    # A frozen parameter has no states, and PyTorch keeps None where there is nothing yet.
    given = moments() | {"rotary": {}}
    given["b"]["momentum_buffer"] = None
    assert match_optimizer(STATES, COUNTED, given, ONE)[1].text() == ""
    assert match_optimizer(VALUES, COUNTED, {}, ONE)[1].text() == ""


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda given: given.pop("a"), "they lack exp_avg of a, exp_avg_sq of a, step of a"),
        (lambda given: given["a"].pop("step"), "they lack step of a"),
        (lambda given: given["a"].pop("exp_avg_sq"), "they lack exp_avg_sq of a"),
        (lambda given: given["a"].update(exp_avg=None), "they lack exp_avg of a"),
        (lambda given: given["a"].update(max_exp_avg_sq=torch.ones(4, 8)), "the step has no max_exp_avg_sq of a"),
        (lambda given: given.update(c={"exp_avg": torch.ones(1)}), "the step has no exp_avg of c"),
        (lambda given: given.update(rotary={"step": torch.tensor(1.0)}), "the step has no step of rotary"),
        (lambda given: given["a"].update(exp_avg=torch.ones(8, 4)), "exp_avg of a (expected float32 [4, 8], got float32 [8, 4])"),
        (lambda given: given["b"].update(step=torch.tensor(2.0)), "step of a and b (5 and 2 updates, and their bucket has one"),
        (lambda given: given["b"].update(step=torch.tensor(2.5)), "step of b (expected a number of updates, got tensor(2.5"),
        (lambda given: given["b"].update(step=float("nan")), "step of b (expected a number of updates, got nan)"),
        (lambda given: given["b"].update(step=-1), "step of b (expected a number of updates, got -1)"),
        (lambda given: given["b"].update(step="5"), "step of b (expected a number of updates, got '5')"),
        (lambda given: given.update({"tied.a": moments(4.0)["a"]}), "step of a and tied.a, which are one parameter"),
    ],
)
def test_an_optimizer_that_does_not_fit(change, text: str) -> None:
    given = moments()
    change(given)
    problems = match_optimizer(STATES, COUNTED, given, ONE)[1]
    assert text in problems.text()


def test_a_state_dict_of_pytorchs_optimizer() -> None:
    model = torch.nn.Linear(2, 2)
    given = torch.optim.AdamW(model.parameters()).state_dict()
    problems = match_optimizer(STATES, COUNTED, given, ONE)[1]
    assert problems.text() == (
        "the given states do not fit the step: these differ: "
        "the whole (expected {parameter: {'step': ..., ...}}, as optimizer_state_dict returns it)"
    )


def test_counts_of_other_buckets_may_differ() -> None:
    given = moments()
    given["b"]["step"] = torch.tensor(2.0)
    matched, problems = match_optimizer(STATES, [["a"], ["b"]], given, ONE)
    assert problems.text() == "" and matched.updates == {"a": 5, "b": 2}


def test_masters_are_all_there_or_none() -> None:
    states = [*STATES, (["a"], "master", meta(4, 8), True), (["b"], "master", meta(3), True)]
    assert match_optimizer(states, COUNTED, moments(), ONE)[1].text() == ""
    given = moments()
    given["a"]["master"] = torch.ones(4, 8)
    assert "they lack master of b" in match_optimizer(states, COUNTED, given, ONE)[1].text()


@pytest.mark.parametrize("role", ["momentum_buffer", "exp_avg"])
def test_sgd_and_lion_keep_no_count(role: str) -> None:
    """Their momentum would be lost if the step began with the first update."""
    states = [*VALUES[:2], (["a", "tied.a"], role, meta(4, 8), True)]
    matched, problems = match_optimizer(states, COUNTED, {"a": {role: torch.ones(4, 8)}}, ONE)
    assert problems.text() == "" and matched.updates == {"a": 1}
    assert "they lack" in match_optimizer(states, COUNTED, {"a": {role: None}}, ONE)[1].text()
