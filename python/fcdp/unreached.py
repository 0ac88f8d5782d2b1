# SPDX-License-Identifier: Apache-2.0
"""Parameters that the loss of the example inputs does not depend on."""

import warnings
from collections.abc import Collection, Sequence

from fcdp.errors import StepError

_GROUP = "--group="


def unreached_by_all(shapes: Sequence[Collection[str]]) -> list[str]:
    """Returns the parameters that no shape of a step reaches. `shapes` has, for each, the names that it does not reach.

    Raises StepError if a parameter is reached by one shape and not by another: where a loss does not depend on a
    parameter, PyTorch's optimizers leave it and its states alone, and a compiled step updates all that it trains.
    """
    for shape, unreached in enumerate(shapes):
        other = next((i for i, names in enumerate(shapes) if set(unreached) - set(names)), None)
        if other is not None:
            names = sorted(set(unreached) - set(shapes[other]))
            raise StepError(
                "misuse",
                f"the loss of example inputs {shape} does not depend on {_list(names)}, but the loss of example inputs {other} "
                "does: expected shapes of a step that reach the same parameters. Freeze these with requires_grad_(False), or "
                "have forward use them for all shapes (by adding 0 times their result)",
            )
    return list(shapes[0])


def warn_of_unreached(names: Collection[str]) -> None:
    """Names, in one warning, the parameters that are not trained though they could be."""
    if names:
        warnings.warn(
            f"the step does not train {_list(list(names))}: the loss of the example inputs does not depend on "
            f"{'them' if len(names) > 1 else 'it'}. PyTorch would not change what a batch does not reach either; give "
            "example inputs that reach all that is to be trained",
            stacklevel=3,
        )


def without_unreached(options: Sequence[str], names: Collection[str]) -> list[str]:
    """Leaves the parameters out of the groups that options of fcdp-compile describe, and the groups that are empty
    then.
    """
    left = []
    for option in options:
        if option.startswith(_GROUP):
            patterns, colon, settings = option.removeprefix(_GROUP).partition(":")
            kept = [pattern for pattern in patterns.split(",") if pattern not in names]
            if not kept:
                continue
            option = f"{_GROUP}{','.join(kept)}{colon}{settings}"
        left.append(option)
    return left


def _list(names: Sequence[str]) -> str:
    most = 8
    shown = ", ".join(f"'{name}'" for name in names[:most])
    return shown if len(names) <= most else f"{shown}, and {len(names) - most} more"
