# SPDX-License-Identifier: Apache-2.0
"""Steps that have an evaluation, and its data."""

from pathlib import Path

import numpy as np
import torch

import fcdp
from harness import Config, Workshop, compile_command, tool
from models import MODELS, build

ROWS = 12
"""Rows of the evaluation's data."""


def evaluation_data(workshop: Workshop, model: str) -> tuple[Path, dict[str, Path]]:
    """An archive of the model's loss in evaluation mode, of batches of another size, and its inputs."""

    def make() -> tuple[Path, dict[str, Path]]:
        rng = np.random.default_rng(7)
        rows = [MODELS[model].inputs(rng) for _ in range(2 * ROWS)]
        arrays = {
            key: np.stack([np.concatenate([rows[2 * i][key], rows[2 * i + 1][key]]) for i in range(ROWS)])
            for key in rows[0]
        }
        folder = workshop.folder / f"{model}.evaluation"
        folder.mkdir(exist_ok=True)
        for key, array in arrays.items():
            np.save(folder / f"{key}.npy", array)
        example = {key: torch.from_numpy(array[0].copy()) for key, array in arrays.items()}
        fcdp.export(build(model).eval(), example, folder / "eval.pt2", train=False)
        return folder / "eval.pt2", {key: folder / f"{key}.npy" for key in arrays}

    return workshop._once(("evaluation", model), make)


def step_with_evaluation(workshop: Workshop, config: Config) -> Path:
    def make() -> Path:
        archive, _ = evaluation_data(workshop, config.model)
        out = workshop.folder / f"{config.name}.eval.so"
        tool(*compile_command(config, workshop.model(config.model).archive, out), f"--eval={archive}")
        return out

    return workshop._once(("step with evaluation", config), make)
