# SPDX-License-Identifier: Apache-2.0
"""Reads a .pt2 archive without PyTorch, as the compiler does."""

import json
import zipfile
from pathlib import Path
from typing import Any


def read(path: Path, name: str) -> Any:
    """The JSON entry ROOT/`name`; ROOT is the file's name without .pt2."""
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read(f"{path.stem}/{name}"))


def metadata(path: Path) -> dict[str, Any]:
    return read(path, "extra/fcdp.json")


def program(path: Path) -> dict[str, Any]:
    return read(path, "models/model.json")["graph_module"]


def labels(path: Path) -> list[dict[str, Any] | None]:
    """The label of every node, None where it has none."""
    nodes = program(path)["graph"]["nodes"]
    return [json.loads(node["metadata"]["custom"]) if "custom" in node["metadata"] else None for node in nodes]


def input_names(path: Path, kind: str, key: str) -> list[str]:
    """`key` of every input of `kind`, such as ("parameter", "parameter_name")."""
    specs = program(path)["signature"]["input_specs"]
    return [spec[kind][key] for spec in specs if kind in spec]


def user_inputs(path: Path) -> list[str]:
    return [arg["as_tensor"]["name"] for arg in input_names(path, "user_input", "arg")]


def gradients(path: Path) -> list[str]:
    """The parameters that the step gives a gradient, in order."""
    specs = program(path)["signature"]["output_specs"]
    found = [spec["gradient_to_parameter"] for spec in specs if "gradient_to_parameter" in spec]
    return [gradient["parameter_name"] for gradient in found]
