# SPDX-License-Identifier: Apache-2.0
"""Counts the operators of forward passes by module, to tell whether two graphs compute the same."""

from collections import Counter
from collections.abc import Callable, Iterable

import torch
from torch.export import ExportedProgram

from fcdp.torch_private import is_view, operator_name, pytree

# A whole step may have the first in place of the second (fcdp.documents).
_SAME = {"fcdp::packed_attention": "aten::_scaled_dot_product_flash_attention_for_cpu"}


class OperatorCounts:
    """The operators of the forward pass of a program by the module that calls them, and the bytes of their results."""

    def __init__(self, program: ExportedProgram):
        self._operators: dict[str, Counter[str]] = {}
        self._bytes: Counter[str] = Counter()
        for node in program.graph.nodes:
            label = node.meta.get("custom") or {}
            name = operator_name(node.target) if node.op == "call_function" else ""
            # The backward pass reads detached values.
            if name and "module" in label and not label["backward"] and name not in ("aten::detach", "aten::alias"):
                self._operators.setdefault(label["module"], Counter())[_SAME.get(name, name)] += 1
                if not is_view(node.target):
                    self._bytes[label["module"]] += _bytes_of(node.meta.get("val"))

    def within(self, unit: str) -> Counter[str]:
        return self._sum(lambda path: is_within(path, unit))

    def outside(self, units: Iterable[str]) -> Counter[str]:
        return self._sum(lambda path: not any(is_within(path, unit) for unit in units))

    def bytes_within(self, unit: str) -> int:
        return sum(size for path, size in self._bytes.items() if is_within(path, unit))

    def bytes_outside(self, units: Iterable[str]) -> int:
        return self._bytes.total() - sum(self.bytes_within(unit) for unit in units)

    def _sum(self, wanted: Callable[[str], bool]) -> Counter[str]:
        return sum((counter for path, counter in self._operators.items() if wanted(path)), Counter())


def find_difference(whole: Counter[str], alone: Counter[str]) -> str:
    """Returns in which operators a part of the whole step differs from the part alone, or "" if it does not.

    Operators that turn a boolean mask of attention into numbers may be missing, because the whole step knows some
    masks.
    """
    attentions = sum(count for name, count in whole.items() if "attention" in name)
    masks = Counter({"aten::where": attentions, "aten::scalar_tensor": 2 * attentions})
    if whole == alone or (whole <= alone and alone - whole <= masks):
        return ""
    names = [name for name in sorted(whole | alone) if whole[name] != alone[name]]
    return ", ".join(f"{whole[name]} {name} instead of {alone[name]}" for name in names[:3])


def is_within(path: str, unit: str) -> bool:
    return path == unit or path.startswith(f"{unit}.")


def _bytes_of(values: object) -> int:
    return sum(leaf.nbytes for leaf in pytree.tree_leaves(values) if isinstance(leaf, torch.Tensor))
