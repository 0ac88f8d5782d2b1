# SPDX-License-Identifier: Apache-2.0
"""Changes that add an operation, an optimizer, a tier, a strategy and a wire to a copy of the tree.

Each is a copy of one that exists, under another name. A change is made beside what a pattern finds, so it follows its
original when that moves or changes.
"""

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


class Copy:
    """A copy of the tree, which records the files that change."""

    def __init__(self, root: Path, names: dict[str, str]) -> None:
        self.root = root
        self.names = names
        self.touched: set[str] = set()

    def rename(self, text: str) -> str:
        for old, new in self.names.items():
            text = text.replace(old, new)
        return text

    def change(self, path: str, pattern: str, make: Callable[[str], str]) -> None:
        """Replaces the first text that a pattern finds."""
        text = (self.root / path).read_text()
        found = re.search(pattern, text, re.MULTILINE | re.DOTALL)
        assert found, f"'{path}': expected a place that fits r'{pattern}', found none: has what is copied moved?"
        (self.root / path).write_text(text[: found.start()] + make(found[0]) + text[found.end() :])
        self.touched.add(path)

    def again(self, path: str, pattern: str) -> None:
        """Adds the text that a pattern finds once more, under the new names."""
        self.change(path, pattern, lambda found: found + self.rename(found))

    def line(self, path: str, words: str) -> None:
        """Adds the first line with these words once more, under the new names."""
        self.again(path, rf"^[^\n]*{re.escape(words)}[^\n]*\n")

    def beside(self, path: str, words: str, more: str) -> None:
        """Adds text directly after the first place of some words."""
        self.change(path, re.escape(words), lambda found: found + more)

    def next_version(self) -> None:
        def bump(found: str) -> str:
            return f"#define FCDP_ABI_VERSION {int(found.split()[2]) + 1}"

        self.change("runtime/include/fcdp/runtime.h", r"^#define FCDP_ABI_VERSION \d+", bump)


@dataclass(frozen=True)
class Addition:
    """The new thing's name, in CamelCase too, and the names of its original with those that they become."""

    name: str
    Name: str
    names: dict[str, str]
    add: Callable[[Copy], None]


def add_operation(copy: Copy) -> None:
    copy.again("dialects/Fcdp/FcdpOps.td", r"^def Fcdp_UnscaleGradientsOp : .*?^\}\n\n")
    copy.again("test/lit/Dialect/Fcdp/ops.mlir", r"^  // CHECK-NEXT: fcdp\.unscale_gradients.*?\n.*?\n")
    copy.again("runtime/plan/Plan.fbs", r"^table UnscaleGradients \{\n\}\n\n")
    copy.line("runtime/plan/Plan.fbs", "unscale_gradients: UnscaleGradients,")
    copy.next_version()
    copy.again("lib/Conversion/PlanOps.cpp", r"^  void add\(UnscaleGradientsOp\) \{.*?^  \}\n")
    copy.line("runtime/plan/PlanCheckOps.cpp", "plan::UnscaleGradientsT")
    copy.again("runtime/operators/UnscaleGradients.cpp", r"^class UnscaleGradients final.*?^\};\n\n")
    copy.again("runtime/operators/UnscaleGradients.cpp", r"^PreparedOpPtr prepare\(.*?^\}\n\n")
    copy.again("runtime/operators/UnscaleGradients.cpp", r"^std::optional<uint64_t> countBytes\(.*?^\}\n\n")
    copy.line("runtime/operators/CMakeLists.txt", "  UnscaleGradients")
    copy.line("lib/Verification/PlanRun.cpp", "(UnscaleGradientsOp)")
    copy.line("lib/Cluster/CostModel.cpp", "Cost costOf(UnscaleGradientsOp")
    copy.again("lib/Cluster/CostModel.cpp", r"^Cost Estimator::costOf\(UnscaleGradientsOp.*?^\}\n\n")


def add_optimizer(copy: Copy) -> None:
    copy.again("dialects/Fcdp/FcdpOptimizers.td", r"^def Fcdp_LionAttr : .*?^\}\n\n")
    copy.again("runtime/plan/Plan.fbs", r"^table Lion \(.*?^\}\n\n")
    copy.line("runtime/plan/Plan.fbs", "lion: Lion,")
    copy.next_version()
    shutil.copy(copy.root / "runtime/optimizers/Lion.cpp", copy.root / "runtime/optimizers/Tiger.cpp")
    copy.change("runtime/optimizers/Tiger.cpp", r".*", copy.rename)
    copy.line("runtime/optimizers/CMakeLists.txt", "Lion.cpp")
    copy.again("python/fcdp/optimizers.py", r"^class Lion\(.*?\n\n\n")
    copy.line("docs/optimizers.md", "| `lion` |")
    copy.line("test/lit/Dialect/Fcdp/attributes.mlir", "// CHECK-SAME: #fcdp.lion<")
    copy.line("test/lit/Dialect/Fcdp/attributes.mlir", "  #fcdp.lion<")
    case = r"^// -----\n\n[^\n]*\nfunc\.func private @lion_c1_lr[^\n]*\n\n"
    copy.again("test/lit/Dialect/Fcdp/invalid-attributes.mlir", case)
    copy.line("test/lit/Transforms/Shard/optimizer.mlir", "optimizer=lion\"")
    copy.line("test/lit/Transforms/Shard/optimizer.mlir", "// LION: #fcdp.lion<")
    copy.again("test/python/test_reference.py", r"^def test_lion_is_that_of_the_paper.*?\n\n\n")


def add_tier(copy: Copy) -> None:
    copy.change("dialects/Fcdp/FcdpAttrs.td", r'I32EnumAttrCase<"drop", (\d+)>', add_case("drop", "peer"))
    copy.beside("dialects/Fcdp/FcdpSymbols.td", "`residency` and `carry` are `full` or `drop`", " or `peer`")
    copy.again("dialects/Fcdp/Tiers.h", r"^    \{Residency::drop,.*?\},\n")
    copy.change("lib/Transforms/Options/Strategy.cpp", r'"mics",\s*\{Residency::drop', copy.rename)
    copy.beside("lib/Verification/ClosedForms.cpp", "residency == Residency::host", " || residency == Residency::peer")
    copy.beside("include/fcdp/Transforms/DecidePasses.td", "nearest residency that it can have: `drop`", " or `peer`")
    copy.beside("docs/glossary.md", "it is gathered again", ", or `peer`")
    copy.beside("docs/strategies.md", "`drop`: nowhere", ", or `peer`")
    copy.beside("test/compiler/CopyPolicyTest.cpp", "Residency::host, Residency::drop", ", Residency::peer")
    copy.again("test/compiler/ResidencyPlanningTest.cpp", r"^  EXPECT_NEAR\(seconds\(Residency::drop\)[^\n]*\n")
    for start in ("// CHECK-SAME: ", "func.func private @decisions"):
        pattern = rf"^{re.escape(start)}[^\n]*#fcdp<residency drop>"
        copy.change("test/lit/Dialect/Fcdp/attributes.mlir", pattern, lambda found: found + ", #fcdp<residency peer>")
    copy.line("test/lit/Transforms/Decide/decide.mlir", "residency drop")


def add_strategy(copy: Copy) -> None:
    copy.line("lib/Transforms/Options/Strategy.cpp", '{"hpz",')
    copy.beside("include/fcdp/Transforms/PipelineOptions.td", "'hpz' a slice on every device, ", "'swift' too, ")
    copy.line("include/fcdp/Transforms/DecidePasses.td", "| `hpz` |")
    copy.line("docs/strategies.md", "| `hpz` |")
    copy.beside("docs/status.md", "`hpz`", ", `swift`")
    copy.beside("test/lit/Transforms/Decide/decide.mlir", "'hpz'", ", 'swift'")
    copy.beside("test/lit/tools/fcdp-compile/options.test", "'hpz'", ", 'swift'")
    copy.beside("test/lit/Transforms/execute-choices.test", "--strategies zero3,hpz", ",swift")
    copy.beside("test/e2e/closed_forms.py", 'KEEPS_SLICES = ("hpz"', ', "swift"')
    copy.beside("test/e2e/test_strategies.py", '("hpz", "")', ', ("swift", "")')


def add_wire(copy: Copy) -> None:
    copy.change("dialects/Fcdp/FcdpAttrs.td", r'I32EnumAttrCase<"int4", (\d+)>', add_case("int4", "int6"))
    copy.beside("dialects/Fcdp/FcdpOps.td", "`coded`, `int8` or `int4`", " or `int6`")
    copy.beside("dialects/Fcdp/FcdpSymbols.td", "With `int8` or `int4`", " or `int6`")
    copy.beside("dialects/Fcdp/Wires.cpp", "wire == Wire::int4", " || wire == Wire::int6")
    copy.beside("dialects/Fcdp/Wires.cpp", "'int8' or 'int4'", " or 'int6'")
    copy.beside("include/fcdp/Transforms/Options/WireSpec.h", "int8 or int4", " or int6")
    copy.beside("include/fcdp/Transforms/Options/WireSpec.h", "`int8` or `int4`", " or `int6`")
    copy.line("lib/Transforms/Options/WireSpec.cpp", '.Case("int4", Wire::int4)')
    copy.beside("include/fcdp/Transforms/PipelineOptions.td", "'int8' or 'int4'", " or 'int6'")
    copy.beside("runtime/plan/Plan.fbs", "enum Wire : ubyte { raw, delta, coded, int8, int4", ", int6")
    copy.next_version()
    copy.line("runtime/plan/PlanMessages.cpp", "case plan::Wire::int4:")
    copy.beside("runtime/plan/PlanMessages.cpp", "'int8' or 'int4'", " or 'int6'")
    copy.again("runtime/operators/MessageOps.cpp", r"^  case plan::Wire::int4:\n[^\n]*\n")
    copy.beside("docs/wires.md", "| `--reduce-wire=int8`, `int4`", ", `int6`")
    copy.beside("docs/outer-steps.md", "`coded`, `int8` or `int4`", " or `int6`")
    copy.again("test/lit/Dialect/Fcdp/invalid-quantised.mlir", r"^[^\n]*got 'int4'[^\n]*\n[^\n]*\n\n// -----\n\n")
    copy.beside("test/lit/Transforms/Decide/decide-wires.mlir", "'int8' or 'int4'", " or 'int6'")
    copy.line("test/e2e/test_quantised_wires.py", 'replace(PLAIN, reduce_wire="int4")')



def add_case(old: str, new: str) -> Callable[[str], str]:
    """Adds a case to an enum of the dialect, with the next number."""

    def make(case: str) -> str:
        number = re.search(r"\d+>$", case)
        assert number
        return f"{case},\n  {case[: number.start()].replace(old, new)}{int(number[0][:-1]) + 1}>"

    return make


ADDITIONS = {
    "Add an operation": Addition(
        "rescale_gradients",
        "RescaleGradients",
        {"UnscaleGradients": "RescaleGradients", "unscale_gradients": "rescale_gradients"},
        add_operation,
    ),
    "Add an optimizer": Addition("tiger", "Tiger", {"Lion": "Tiger", "lion": "tiger"}, add_optimizer),
    "Add a tier": Addition("peer", "", {"drop": "peer"}, add_tier),
    "Add a strategy": Addition("swift", "", {"hpz": "swift"}, add_strategy),
    "Add a wire": Addition("int6", "", {"int4": "int6"}, add_wire),
}
