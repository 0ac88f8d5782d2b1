# SPDX-License-Identifier: Apache-2.0
"""CompiledTrainer trains as Transformers' Trainer does on the same ranks, and goes on from its checkpoints and its
own."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from harness import Config, environment, rank_environments
from python_ranks import run_ranks

SCRIPT = Path(__file__).with_name("trainer_script.py")
# Losses are sums in another order.
TOLERANCE = 2e-5
pytestmark = pytest.mark.xdist_group("trainer")

EVALUATED = {"eval_strategy": "steps", "eval_steps": 2, "eval_on_start": True}
SAVED = {"save_strategy": "steps", "save_steps": 4, "save_total_limit": 2}
ACCUMULATED = (1, 2, 4)
PRETRAINED = {**EVALUATED, "max_steps": 3, "per_device_eval_batch_size": 5, "include_for_metrics": ["loss"]}
BEST = {"load_best_model_at_end": True, "learning_rate": 0.3, "save_steps": 2, "max_grad_norm": 5.0}
# Batches of 4, 8 and 12 tokens.
SEVERAL = {"dynamic": True, "lengths": [8, 12]}
MEASURED = {**SEVERAL, "metrics": True, "evaluate": True}
# Whole epochs of steps that change nothing.
GROUPED = {
    "train_sampling_strategy": "group_by_length",
    "num_train_epochs": 3,
    "max_steps": -1,
    "learning_rate": 0.0,
    "neftune_noise_alpha": 20,
}
# Each is trained by both.
SETTINGS: dict[str, dict[str, Any]] = {
    # Rows of different numbers of tokens, two micro-batches, groups, clipping, warm-up, and evaluations of 10 rows by
    # 3.
    "default": {"arguments": {**EVALUATED, **SAVED}, "evaluate": True},
    "sgd": {
        "arguments": {
            **EVALUATED,
            **SAVED,
            "save_steps": 2,
            "load_best_model_at_end": True,
            "metric_for_best_model": "accuracy",
            "learning_rate": 1.0,
            "average_tokens_across_devices": False,
            "max_grad_norm": 0.0,
            "optim": "sgd",
            "include_for_metrics": ["loss"],
            "include_num_input_tokens_seen": "non_padding",
        },
        **MEASURED,
    },
    # A script with FSDP, whose compiled run has its arguments unchanged.
    "smoothing": {
        "fsdp": True,
        "arguments": {"label_smoothing_factor": 0.1, "activation_checkpointing": True, "num_train_epochs": 1, "max_steps": -1}
    },
    "bf16": {"arguments": {"bf16": True, "lr_scheduler_type": "constant"}},
    "experts": {"experts": True},
}


class Jobs:
    """The files that a job of several trainings left in a folder."""

    def __init__(self, folder: Path):
        self.folder = folder

    def run(self, ranks: int, jobs: list[dict[str, Any]]) -> None:
        environments = rank_environments(Config("", 1, ranks)) if ranks > 1 else [environment()]
        run_ranks(SCRIPT, [self.folder, json.dumps(jobs)], environments, timeout=600)

    def result(self, name: str) -> dict[str, Any]:
        return self.results(name)[0]

    def results(self, name: str) -> list[dict[str, Any]]:
        """Returns the result of each rank."""
        return [json.loads(path.read_text()) for path in sorted((self.folder / name).glob("result-*.json"))]

    def logged(self, name: str, key: str) -> list[float]:
        result = self.result(name)
        assert "error" not in result, result
        return [entry[key] for entry in result["history"] if key in entry]

    def parameters(self, name: str) -> dict[str, torch.Tensor]:
        return load_file(self.folder / name / "model" / "model.safetensors")

    def assert_same(self, name: str, expected: str, tolerance: float = TOLERANCE, but: frozenset[str] = frozenset()) -> None:
        for key in {"loss", "grad_norm", "learning_rate", "eval_loss", "epoch", "num_input_tokens_seen"} - but:
            assert self.logged(name, key) == pytest.approx(self.logged(expected, key), rel=tolerance), key
        found, wanted = self.parameters(name), self.parameters(expected)
        assert found.keys() == wanted.keys()
        for key, value in wanted.items():
            torch.testing.assert_close(found[key], value, rtol=10 * tolerance, atol=10 * tolerance)


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory: pytest.TempPathFactory) -> Jobs:
    folder = tmp_path_factory.mktemp("trainer")

    def checkpoint(name: str) -> str:
        return str(folder / name / "checkpoint-4")

    jobs = Jobs(folder)
    jobs.run(
        2,
        [
            *({"name": f"{kind}-{name}", "kind": kind, **more} for name, more in SETTINGS.items() for kind in ("plain", "compiled")),
            {"name": "resumed", "kind": "compiled", "resume": checkpoint("compiled-default")},
            {"name": "from-plain", "kind": "compiled", "resume": checkpoint("plain-default")},
            {"name": "best", "kind": "compiled", "arguments": {**EVALUATED, **SAVED, **BEST}, "evaluate": True},
            {"name": "grouped", "kind": "compiled", "rows": 8, "arguments": GROUPED, "dynamic": True, "lengths": [12]},
        ],
    )
    return jobs


@pytest.fixture(scope="module")
def one_rank(two_ranks: Jobs, tmp_path_factory: pytest.TempPathFactory) -> Jobs:
    jobs = Jobs(tmp_path_factory.mktemp("trainer"))
    whole = str(two_ranks.folder / "compiled-default" / "checkpoint-4")
    broken = tmp_path_factory.mktemp("broken") / "checkpoint-4"
    shutil.copytree(whole, broken, ignore=shutil.ignore_patterns("fcdp"))
    epochs = {"num_train_epochs": 2, "max_steps": -1, "eval_strategy": "epoch"}
    jobs.run(
        1,
        [
            # The last batch that is evaluated has one row.
            {"name": "plain", "kind": "plain", "rows": 8, "arguments": epochs, "evaluate": True},
            {"name": "compiled", "kind": "compiled", "rows": 8, "arguments": epochs, "evaluate": True},
            {"name": "several", "kind": "compiled", "dynamic": True},
            {"name": "short", "kind": "compiled", "dynamic": True, "lengths": [4, 8]},
            # As many rows of a step as on two ranks.
            {"name": "resumed", "kind": "compiled", "resume": whole, "arguments": {"gradient_accumulation_steps": 4}},
            {"name": "broken", "kind": "compiled", "resume": str(broken), "arguments": {"gradient_accumulation_steps": 4}},
            {"name": "rest", "kind": "compiled", "rows": 10},
            {"name": "last", "kind": "compiled", "rows": 7},
            *(
                {
                    "name": f"pretrained-{kind}-{micro_batches}",
                    "kind": kind,
                    "pretrained": True,
                    "evaluate": True,
                    "arguments": {**PRETRAINED, "gradient_accumulation_steps": micro_batches},
                    **(MEASURED if micro_batches == 1 else {}),
                }
                for micro_batches in ACCUMULATED
                for kind in ("plain", "compiled")
            ),
            # Ten rows, of which no batch is whole.
            {
                "name": "none",
                "kind": "compiled",
                "evaluate": True,
                "arguments": {"per_device_eval_batch_size": 11, "dataloader_drop_last": True, "max_steps": 1},
            },
        ],
    )
    return jobs


def test_trains_and_evaluates_as_trainer(two_ranks: Jobs) -> None:
    two_ranks.assert_same("compiled-default", "plain-default")
    assert len(two_ranks.logged("plain-default", "loss")) == 6 and len(two_ranks.logged("plain-default", "eval_loss")) == 5
    assert two_ranks.logged("plain-default", "grad_norm")[0] > 0.5
    plain, compiled = two_ranks.result("plain-default"), two_ranks.result("compiled-default")
    assert compiled["after"]["eval_loss"] == pytest.approx(plain["after"]["eval_loss"], rel=TOLERANCE)
    # A program may go on with the model itself: it has the trained values on all ranks.
    saved = two_ranks.parameters("compiled-default")["model.embed_tokens.weight"].double().sum().item()
    assert [result["embedding"] for result in two_ranks.results("compiled-default")] == [saved, saved]


@pytest.mark.parametrize(("name", "tolerance"), [("sgd", TOLERANCE), ("smoothing", TOLERANCE), ("bf16", 2e-2), ("experts", TOLERANCE)])
def test_settings_of_trainer(two_ranks: Jobs, name: str, tolerance: float) -> None:
    """A step that clips nothing has no norm for the log."""
    two_ranks.assert_same(f"compiled-{name}", f"plain-{name}", tolerance, but=frozenset({"grad_norm"} if name == "sgd" else ()))
    assert bool(two_ranks.logged(f"compiled-{name}", "grad_norm")) == (name != "sgd")


def test_metrics_and_predictions(two_ranks: Jobs, one_rank: Jobs) -> None:
    """They are those of Trainer on the same weights: rows of several lengths, the last batch smaller or filled up."""
    plain, compiled = (two_ranks.logged(f"{kind}-sgd", "eval_accuracy") for kind in ("plain", "compiled"))
    assert len(plain) == 5 and compiled == plain and plain[-1] == max(plain[1:]) > plain[0]
    assert two_ranks.logged("compiled-sgd", "eval_rows") == two_ranks.logged("compiled-sgd", "eval_losses") == [10] * 5
    for result in (*two_ranks.results("compiled-sgd"), one_rank.result("pretrained-compiled-1")):
        predicted = result["predicted"]
        assert predicted["equal"] and predicted["shape"] == [7, 12]
        found, expected = predicted["metrics"]
        assert found["test_loss"] == expected["test_loss"] and found["test_accuracy"] == expected["test_accuracy"]


def test_rows_grouped_by_length(two_ranks: Jobs) -> None:
    """Each row is in one batch of an epoch, though each rank has a random state of its own. Embeddings are noisy."""
    seen = [result["seen"] for result in two_ranks.results("grouped")]
    epochs = [[*seen[0][i : i + 4], *seen[1][i : i + 4]] for i in range(0, 12, 4)]
    assert [len(rows) for rows in seen] == [12, 12]
    assert all(sorted(epoch) == sorted(epochs[0]) and len({*map(tuple, epoch)}) == 8 for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2]
    first, *others = two_ranks.logged("grouped", "loss")
    assert all(1e-4 < abs(other - first) < 0.5 for other in others)


def test_resumes(two_ranks: Jobs) -> None:
    """From its own checkpoint bit for bit, and from one of Trainer."""
    folder = two_ranks.folder / "compiled-default"
    assert (folder / "checkpoint-6" / "fcdp" / "index.json").exists() and not list((folder / "fcdp").glob("step-*"))
    assert two_ranks.logged("resumed", "loss") == two_ranks.logged("compiled-default", "loss")
    resumed, whole = two_ranks.parameters("resumed"), two_ranks.parameters("compiled-default")
    assert all(torch.equal(resumed[name], value) for name, value in whole.items())
    two_ranks.assert_same("from-plain", "plain-default", but=frozenset({"eval_loss", "epoch"}))


def test_the_best_model_is_loaded(two_ranks: Jobs) -> None:
    """Not the last one: the rate is so high that the loss rises."""
    *_, at_2, at_4, at_6, after = two_ranks.logged("best", "eval_loss")
    assert after == pytest.approx(min(at_2, at_4, at_6), rel=1e-6) and after < at_6


def test_one_rank(one_rank: Jobs, two_ranks: Jobs) -> None:
    one_rank.assert_same("compiled", "plain")
    # From a checkpoint of two ranks, whose steps have the same rows.
    expected = two_ranks.logged("compiled-default", "loss")
    assert one_rank.logged("resumed", "loss") == pytest.approx(expected, rel=TOLERANCE)


@pytest.mark.parametrize("micro_batches", ACCUMULATED)
def test_a_model_of_from_pretrained(one_rank: Jobs, micro_batches: int) -> None:
    """It is in evaluation mode: dropout runs in steps alone, evaluations between them included."""
    name = f"pretrained-compiled-{micro_batches}"
    one_rank.assert_same(name, f"pretrained-plain-{micro_batches}")
    assert len(one_rank.logged(name, "loss")) == 3 and len(one_rank.logged(name, "eval_loss")) == 4
    # The model itself is evaluated where there are metrics.
    assert one_rank.result(name)["training"] == (micro_batches > 1)
    # Dropped values are never trained.
    found, begin = one_rank.parameters(name), load_file(one_rank.folder / name / "pretrained" / "model.safetensors")
    values = [key for key in found if "v_proj" in key]
    assert values and all(found[key].allclose(begin[key], rtol=1e-2, atol=0) for key in values)


def test_refused(one_rank: Jobs) -> None:
    """Epochs whose last step is smaller, a checkpoint without states, and an evaluation of nothing, which was NaN."""
    assert "gradient_accumulation_steps: a compiled step cannot honour 2; choose a divisor of 5" in one_rank.result("rest")["error"]
    assert "dataloader_drop_last: a compiled step cannot honour False; set it to True" in one_rank.result("last")["error"]
    several, short = one_rank.result("several")["error"], one_rank.result("short")["error"]
    assert "'input_ids': expected the shape of the first batch, [2, " in several
    assert "give CompiledTrainer lengths=[128, 256, ...]" in several
    assert "'input_ids' has rows of 12 elements, and the greatest of lengths is 8: add a greater one, or cut rows" in short
    assert "evaluate: expected 11 rows or more on each of 1 ranks, got 10 in all" in one_rank.result("none")["error"]
    assert "bad weights: " in one_rank.result("broken")["error"] and "was not saved whole" in one_rank.result("broken")["error"]
