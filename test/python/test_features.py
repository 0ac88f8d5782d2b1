# SPDX-License-Identifier: Apache-2.0
"""Few sources name an optional feature, and those that decide how steps are planned and run name none."""

import importlib.machinery
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts/count-features"

# The most sources that may name a feature, as scripts/count-features counts them. Lower a limit when there are fewer.
LIMITS = {"wires": 44, "outer steps": 41, "variants": 39, "evaluation": 59}


@pytest.fixture(scope="module")
def features() -> ModuleType:
    loader = importlib.machinery.SourceFileLoader("count_features", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("count_features", loader))
    sys.modules[module.__name__] = module
    loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def sources(features: ModuleType) -> dict[str, str]:
    return dict(features.product())


def feature_of(features: ModuleType, name: str):
    return next(one for one in features.FEATURES if one.name == name)


@pytest.mark.parametrize("name", LIMITS)
def test_sources_that_name_a_feature(features: ModuleType, sources: dict[str, str], name: str) -> None:
    feature = feature_of(features, name)
    named = features.naming(feature, sources)
    assert sum(map(feature.owns, named)) > 2
    assert len(named) <= LIMITS[name], f"scripts/count-features --files '{name}' lists them"
    strangers = [path for path in named if features.folder_of(path) in features.NEUTRAL and not feature.owns(path)]
    assert not strangers


@pytest.mark.parametrize(
    ("path", "text", "named"),
    [
        ("a.cpp", "bucket.getGatherWire() == Wire::delta", {"wires"}),
        ("a.cpp", 'f("the wire \'coded\'");', {"wires"}),
        ("a.cpp", "bucket.getWire(); // a coded wire\n/* an outer\nvariant */", set()),
        ("a.cpp", 'print("// evaluated", std::variant<int>(), outermost);', {"evaluation"}),
        ("a.td", "let description = [{\n  outer steps\n}];\nOptionalAttr<I64Attr>:$outer", {"outer steps"}),
        ("a.td", "let summary = \"the outer variant's evaluation\";", set()),
        ("a.py", '"""An evaluation."""\nvariant = 1  # of outer_update', {"variants"}),
        ("a.h", "int64_t countFragments(ModuleOp module);", {"outer steps"}),
    ],
)
def test_what_names_a_feature(features: ModuleType, path: str, text: str, named: set[str]) -> None:
    code = features.code_of(path, text)
    assert {feature.name for feature in features.FEATURES if feature.count(code)} == named
