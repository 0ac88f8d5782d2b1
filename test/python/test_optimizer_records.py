# SPDX-License-Identifier: Apache-2.0
"""The compiler's records of optimizers are those of the classes in Python, with the same defaults."""

import inspect

import pytest
import torch

from fcdp.loop.optimizer import optimizer_options
from fcdp.optimizer_records import OPTIMIZERS, STATE_ROLES
from fcdp.optimizers import CLASSES

RECORDS = pytest.mark.parametrize("record", OPTIMIZERS, ids=lambda record: record.name)


@RECORDS
def test_defaults_are_those_of_the_class(record):
    known = inspect.signature(CLASSES[record.name]).parameters
    for setting in record.settings:
        default = known[setting.tuple or setting.name].default
        if setting.tuple:
            default = default[record.tuples[setting.tuple].index(setting.name)]
        assert (setting.default if default is None else default) == setting.default, setting.name


@RECORDS
def test_an_optimizer_becomes_text_with_all_its_settings(record):
    model = torch.nn.Linear(8, 4, bias=False)
    made = CLASSES[record.name](model.parameters())
    given = made if record.updates_all else [made, torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))])]
    if not record.updates_all:
        model.bias = given[1].param_groups[0]["params"][0]
    text = optimizer_options(given, model)[0].removeprefix("--optimizer=").partition("+")[0]
    name, *settings = text.split(",")
    parsed = dict(setting.split("=") for setting in settings)
    assert name == record.name
    assert parsed.keys() == {setting.name for setting in record.settings if setting.default is not None}
    for setting in record.settings:
        if setting.kind == "word":
            assert parsed[setting.name] == setting.default
        elif setting.default is not None:
            assert float(parsed[setting.name]) == setting.default


def test_states_have_roles():
    assert {state for record in OPTIMIZERS for state in record.states} == set(STATE_ROLES)
