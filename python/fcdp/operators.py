# SPDX-License-Identifier: Apache-2.0
"""Refuses operators that the runtime does not have: it calls those of libtorch, and runs no Python."""

from torch.export import ExportedProgram

from fcdp.errors import ExportError
from fcdp.torch_private import operator_name

_HINTS = {
    "transformers::grouped_mm": "call model.set_experts_implementation('batched_mm') before the export",
}


def check_operators(joint: ExportedProgram) -> None:
    """Raises ExportError for an operator that libtorch does not have, such as one that a package registers in Python."""
    for node in joint.graph.nodes:
        if node.op != "call_function":
            continue
        # Sizes of dynamic shapes are Python's own functions.
        name = operator_name(node.target)
        if name and not name.startswith("aten::"):
            module = node.meta.get("custom", {}).get("module")
            where = f" (in module '{module}')" if module else ""
            raise ExportError(
                f"the step calls '{name}'{where}, which is not part of PyTorch's own library, "
                f"and the runtime has no other; {_hint(name)}"
            )


def _hint(name: str) -> str:
    return next(
        (hint for prefix, hint in _HINTS.items() if name.startswith(prefix)),
        "choose the setting of the model that uses PyTorch's own operators",
    )
