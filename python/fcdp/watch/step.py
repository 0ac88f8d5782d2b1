# SPDX-License-Identifier: Apache-2.0
"""Runs a step of plain PyTorch, and refuses a model that does more in it than compute from inputs and weights."""

import contextlib
from collections.abc import Iterator

from torch import nn

from fcdp.attributes import Drawn, changes, global_generators, held_values, unchanged_attributes
from fcdp.call import Call
from fcdp.eager import StepResult, changing_step
from fcdp.errors import ExportError
from fcdp.torch_private import no_write_of_itself
from fcdp.watch.calls import RANDOM, SEEDS, Calls
from fcdp.watch.flags import watched_flags
from fcdp.watch.passes import refuse_carried


def watched_step(model: nn.Module, call: Call, train: bool) -> StepResult:
    """Does what eager_step does. Raises ExportError for what a compiled step would not do.

    An evaluation (`train` is false) does not depend on gradients.
    """
    before = {**global_generators(), **held_values(model, call.loss_fn)}
    calls = Calls(model)
    with no_write_of_itself(), unchanged_attributes(model, call.loss_fn):
        with _refusing(calls, train), watched_flags(model, calls), calls.watching():
            result = changing_step(model, call)
        after = {**global_generators(), **held_values(model, call.loss_fn)}
    changed = changes(before, after)
    for path in changed:
        if isinstance(before.get(path), Drawn):
            rule = RANDOM if before[path].library else SEEDS
            source = f"'{path}' ({before[path].library or 'a torch.Generator'})"
            raise ExportError(f"forward {rule.does}, from {source}: {rule.instead}")
    refuse_carried(model, call, changed)
    return result


@contextlib.contextmanager
def _refusing(calls: Calls, train: bool) -> Iterator[None]:
    """Raises ExportError for the first call that breaks a rule. It may also be why the pass failed."""
    failure: Exception | None = None
    try:
        yield
    except Exception as error:
        failure = error
    found = [finding for rule, finding in calls.findings.items() if train or not rule.of_gradients]
    if found:
        raise ExportError(str(found[0])) from failure
    if failure is not None:
        raise failure
