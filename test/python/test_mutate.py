# SPDX-License-Identifier: Apache-2.0
"""scripts/mutate: the list of faults fits the sources, and a fault becomes a choice at run time."""

import importlib.machinery
import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def mutate() -> ModuleType:
    path = str(ROOT / "scripts/mutate")
    loader = importlib.machinery.SourceFileLoader("mutate", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("mutate", loader))
    sys.modules["mutate"] = module  # for its dataclasses
    loader.exec_module(module)
    return module


def fault(mutate: ModuleType, file: str, right: str, wrong: str, **more: Any) -> Any:
    return mutate.Fault("name", file, right, wrong, [], **more)


def test_every_fault_fits_the_sources(mutate: ModuleType) -> None:
    faults, wider = mutate.read_faults(mutate.FAULTS)
    mutate.check(faults)
    assert len(faults) >= 60
    assert all(mutate.wider_of(one, wider) for one in faults)
    for suite in [suite for one in faults for suite in one.nearest] + [suite for suites in wider.values() for suite in suites]:
        kind, *rest = suite.split()
        assert kind in ("unit", "lit", "pytest") and rest, suite
        assert all((ROOT / part).exists() for part in rest if part.startswith("test/")), suite


def test_a_text_that_is_gone_is_named(mutate: ModuleType) -> None:
    with pytest.raises(mutate.MutateError, match="fault 'name': expected its text once in scripts/setup, got it 0 times"):
        mutate.check([fault(mutate, "scripts/setup", "no such text", "")])


def test_faults_of_python_are_chosen_at_run_time(mutate: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "def f(a, b):\n    if a < b and b:\n        a += 1\n    return a\n"
    faults = [
        fault(mutate, "x.py", "if «a < b» and", "a <= b"),
        mutate.Fault("other", "x.py", "        a += 1", "        a += 2", [], "statement"),
    ]
    both = mutate.mutated("x.py", source, faults)
    results = {}
    for chosen in ("", "name", "other"):
        monkeypatch.setenv("FCDP_MUTANT", chosen)
        space: dict[str, Any] = {}
        exec(both, space)
        results[chosen] = [space["f"](1, 2), space["f"](1, 1)]
    assert results == {"": [2, 1], "name": [2, 2], "other": [3, 1]}


def test_faults_of_cpp(mutate: ModuleType) -> None:
    source = '// SPDX\n#include "a.h"\nbool f() { return a < b; }\n'
    both = mutate.mutated("lib/A/A.cpp", source, [fault(mutate, "lib/A/A.cpp", "a < b", "a <= b")])
    assert both == (
        '// SPDX\n#include "../../FcdpMutant.h"\n#include "a.h"\n'
        'bool f() { return (FCDP_MUTANT("name") ? (a <= b) : (a < b)); }\n'
    )


def test_a_test_must_pass_without_the_fault(mutate: ModuleType, tmp_path: Path) -> None:
    """`unit` runs a program of the copy, which here fails as the environment says."""
    program = tmp_path / "build/bin/some_test"
    program.parent.mkdir(parents=True)
    program.write_text(
        "#!/bin/sh\ncase \"$FCDP_MUTANT\" in\nfound) echo '[  FAILED  ] Some.Test'; exit 1;;\n"
        "crash) echo '[ RUN      ] Some.Crash'; kill -SEGV $$;;\nhang) echo '[ RUN      ] Some.Hang'; sleep 100;;\nesac\n"
        "if [ -e broken ]; then echo '[  FAILED  ] Other.Test'; exit 1; fi\n"
    )
    program.chmod(0o755)
    suites = mutate.Suites(tmp_path, tmp_path / "log", limit=2)
    assert suites.notices("unit some_test", "found") == "Some.Test"
    assert suites.notices("unit some_test", "none") is None
    assert suites.notices("unit some_test", "crash") == "Some.Crash (ended with -11)"
    assert suites.notices("unit some_test", "hang") == "Some.Hang (time-out)"
    (tmp_path / "broken").touch()
    with pytest.raises(mutate.MutateError, match="Other.Test fails without a fault, too"):
        suites.notices("unit some_test", "none")
    assert "FCDP_MUTANT" not in os.environ
