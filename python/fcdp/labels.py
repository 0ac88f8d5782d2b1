# SPDX-License-Identifier: Apache-2.0
"""Labels each node of the joint graph with its module, its pass and its line in the user's code."""

import functools
import os
import re
import sys
from typing import Any

import torch

from fcdp.regions import region_of

_FRAME = re.compile(r'File "(.+?)", line (\d+)')
_NOT_THE_USERS = tuple(os.path.dirname(os.path.abspath(path)) + os.sep for path in (torch.__file__, __file__))


def label(meta: dict[str, Any]) -> dict[str, Any]:
    """Returns the label of a node, from the metadata that autograd's tracing left on it.

    module: the innermost module path, "" for the root. backward: whether the node belongs to the backward pass.
    grad_acc: whether it adds gradients of one value. source: "file.py:line" in the forward pass, for backward nodes
    too, or "" if it is unknown. region: the number of the checkpointed region of a forward node, if it is in one.
    """
    stack = meta.get("nn_module_stack") or meta.get("fwd_nn_module_stack") or {}
    path = next(reversed(stack.values()))[0] if stack else ""
    backward = meta.get("partitioner_tag") == "is_backward"
    region = None if backward else region_of(meta)
    return {
        # A module's second call in one forward is recorded as path@1.
        "module": re.sub(r"@\d+", "", path),
        "backward": backward,
        "grad_acc": bool(meta.get("is_gradient_acc")),
        "source": source_line(meta.get("stack_trace") or ""),
        **({} if region is None else {"region": region}),
    }


@functools.lru_cache(maxsize=None)
def source_line(stack_trace: str) -> str:
    """Returns the innermost frame outside of PyTorch and this package, or "" if there is none."""
    for file, line in reversed(_FRAME.findall(stack_trace)):
        # Code that torch generates has a name in angle brackets.
        if not file.startswith("<") and not os.path.abspath(file).startswith(_NOT_THE_USERS):
            return f"{_shorten(file)}:{line}"
    return ""


def _shorten(file: str) -> str:
    """Returns the path relative to the closest containing folder among the working directory and sys.path."""
    file = os.path.abspath(file)
    roots = {os.path.join(os.path.abspath(entry), "") for entry in [os.getcwd(), *sys.path]}
    inside = [root for root in roots if file.startswith(root)]
    return file[len(max(inside, key=len)) :] if inside else file
