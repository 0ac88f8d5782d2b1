# SPDX-License-Identifier: Apache-2.0
"""The modes of a model, training and evaluation, and the warning about a model that is trained in the wrong one."""

import contextlib
import warnings
from collections.abc import Iterator

from torch import nn

_DROPOUT = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout)
_BATCH_NORM = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
_INSTANCE_NORM = (nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d)


@contextlib.contextmanager
def in_mode(model: nn.Module, training: bool) -> Iterator[None]:
    """Does what model.train(training) does, and gives every module its own mode again when the context ends."""
    modes = [(module, module.training) for module in model.modules()]
    model.train(training)
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


def warn_of_evaluation_mode(model: nn.Module) -> None:
    """Warns if a part of the model that is trained has dropout or batch statistics, and is in evaluation mode."""
    found = _inactive(model, any(parameter.requires_grad for parameter in model.parameters(recurse=False)))
    if not found:
        return
    more = f", and {len(found) - 1} more" if len(found) > 1 else ""
    warnings.warn(
        f"the model is trained in evaluation mode: {found[0]}{more}. A model of from_pretrained is in that mode: call "
        "model.train() before, or leave out what should not run",
        stacklevel=3,
    )


def _inactive(module: nn.Module, is_trained: bool, name: str = "") -> list[str]:
    """Describes what does not run in a module and those in it.

    is_trained: whether the nearest module around it that has parameters trains one.
    """
    own = list(module.parameters())
    if own:
        is_trained = any(parameter.requires_grad for parameter in own)
    found = []
    if is_trained and not module.training:
        found += [f"{what} of '{name}' is off" if name else f"{what} is off" for what in _random_parts(module)]
        if _uses_batch_statistics(module):
            found.append(f"'{name}' normalizes by its running statistics, not by those of the batch")
    for part, child in module.named_children():
        found += _inactive(child, is_trained, f"{name}.{part}" if name else part)
    return found


def _random_parts(module: nn.Module) -> list[str]:
    """Returns a module's probabilities of dropout. Attention, an LSTM and layers have them as numbers."""
    if isinstance(module, _DROPOUT):
        return [f"dropout ({module.p:g})"] if module.p > 0 else []
    if isinstance(module, nn.RReLU):
        return ["the random slope"]
    return [
        f"{name} ({value:g})"
        for name, value in vars(module).items()
        if isinstance(value, float) and "drop" in name and 0 < value <= 1
    ]


def _uses_batch_statistics(module: nn.Module) -> bool:
    return isinstance(module, _BATCH_NORM + _INSTANCE_NORM) and module.track_running_stats
