# SPDX-License-Identifier: Apache-2.0
"""Runs a step of plain PyTorch, and refuses a model that does more in it than compute from inputs and weights."""

import contextlib
from collections.abc import Iterator

from torch import nn

from fcdp.attributes import Drawn, changes, global_generators, held_values, unchanged_attributes
from fcdp.call import Call
from fcdp.eager import StepResult, changing_step, fake_mode_of
from fcdp.errors import ExportError
from fcdp.torch_private import no_write_of_itself
from fcdp.watch.calls import RANDOM, SEEDS, Calls
from fcdp.watch.flags import watched_flags
from fcdp.watch.passes import Watched, refuse_carried, watched_twice


def watched_step(model: nn.Module, call: Call, train: bool) -> StepResult:
    """Does what eager_step does. Raises ExportError for what a compiled step would not do.

    An evaluation (`train` is false) does not depend on gradients.
    """
    generators = global_generators()
    calls = Calls(model)

    @contextlib.contextmanager
    def seeing() -> Iterator[None]:
        with _refusing(calls, train), watched_flags(model, calls), calls.watching():
            yield

    with no_write_of_itself(), unchanged_attributes(model, call.loss_fn):
        if fake_mode_of(model) is None:
            held = held_values(model, call.loss_fn)
            with seeing():
                result = changing_step(model, call)
            watched = Watched(result, held, held_values(model, call.loss_fn))
        else:
            watched = watched_twice(model, call, calls, seeing)
        before, after = {**generators, **watched.before}, {**global_generators(), **watched.after}
    changed = changes(before, after)
    for path in changed:
        if isinstance(before.get(path), Drawn):
            rule = RANDOM if before[path].library else SEEDS
            source = f"'{path}' ({before[path].library or 'a torch.Generator'})"
            raise ExportError(f"forward {rule.does}, from {source}: {rule.instead}")
    if changed or not watched.is_repeated:
        refuse_carried(model, call, changed)
    return watched.result


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
