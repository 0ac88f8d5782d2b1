# SPDX-License-Identifier: Apache-2.0
"""Finds the programs of benchmarks/netns, one of which has the name of this folder's."""

import importlib.util
import sys

from steps import ROOT

FOLDER = ROOT / "benchmarks" / "netns"
sys.path.append(str(FOLDER))

from hosts import DEVICE, report_wrong, require_hosts  # noqa: E402, F401

_spec = importlib.util.spec_from_file_location("netns_run", FOLDER / "run.py")
assert _spec and _spec.loader
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)
run_ranks = _module.run
