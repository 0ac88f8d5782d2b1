# SPDX-License-Identifier: Apache-2.0
"""The order of the layers: what a folder includes and links is below it, and no two files need each other.

docs/architecture.md says what the folders are for.
"""

import re
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Each may use those before it. An entry is a folder, or one unit of it (a header and its source), which then has a
# place of its own. The headers of include/fcdp count as part of lib.
COMPILER = """
    dialects/Aten
    dialects/Fcdp
    lib/Support
    lib/Analysis
    lib/Import
    lib/Cluster
    lib/Simulation
    lib/Planning
    lib/Planning/Buckets
    lib/Planning/Layout
    lib/Planning/Recompute
    lib/Planning/Memory
    lib/Planning/Loss
    lib/Planning/Activations
    lib/Planning/Residency
    lib/Planning/Overlap
    lib/Verification
    lib/Transforms/Passes
    lib/Transforms/Options
    lib/Transforms/PipelineOptions
    lib/Transforms/PhasePasses
    lib/Transforms/PrivateCopy
    lib/Transforms/Verify
    lib/Transforms/Retarget
    lib/Transforms/Recompute
    lib/Transforms/Fuse
    lib/Transforms/Shard
    lib/Transforms/Decide
    lib/Transforms/Schedule
    lib/Transforms/Activations
    lib/Transforms/Memory
    lib/Transforms/ChooseRemat
    lib/Transforms/Pipeline
    lib/Conversion
    lib/Target
    lib/Report
    lib/Driver
    tools/fcdp-opt
    tools/fcdp-translate
    tools/fcdp-lsp-server
    tools/fcdp-compile
    tools/fcdp-sim
    tools/fcdp-cluster
""".split()

RUNTIME = """
    runtime/include/fcdp
    runtime/core
    runtime/streams
    runtime/codec
    runtime/files
    runtime/store
    runtime/transports
    runtime/job
    runtime/cpu
    runtime/cuda
    runtime/nccl
    runtime/plan
    runtime/policy
    runtime/weights
    runtime/checkpoint
    runtime/memory
    runtime/optimizers
    runtime/operators
    runtime/step
    runtime/device
    runtime/state
    runtime/session
    runtime/embed
    tools/probe
    tools/fcdp-run/output
    tools/fcdp-run/launch
    tools/fcdp-run/inputs
    tools/fcdp-run/profile
    tools/fcdp-run
    tools/fcdp-probe
""".split()

# The folders that these folders of the runtime include. They are fewer than the order allows, so that each can be read
# and tested without the rest: a policy needs no job, and a job needs no plan.
USES = {
    "files": "core",
    "store": "core",
    "transports": "core codec store",
    "job": "include/fcdp core files store transports",
    "policy": "core files plan",
    "weights": "core files plan",
    "checkpoint": "core files plan weights",
    "device": "core streams store job cpu cuda nccl plan memory step",
    "state": "core files store job plan policy checkpoint step",
}

# Files of the runtime that the compiler may use: the links of a rank, the placement of buffers, the rules of states,
# the layout of stored tensors, the texts that operators may take, the schema of the plan and the ABI.
SHARED = {
    "runtime/core/MessageSpec",
    "runtime/core/EnumArray",
    "runtime/core/Links",
    "runtime/core/LossWorkspace",
    "runtime/core/PackedLayout",
    "runtime/core/Packing",
    "runtime/core/PlacedBuffers",
    "runtime/core/StateRules",
    "runtime/core/StridedLayout",
    "runtime/core/TextArguments",
    "runtime/plan/Reflection",
    "runtime/plan/Plan",
    "runtime/include/fcdp/runtime",
}

# Files of lib/Analysis that the prover may share with the passes whose plans it proves, with the reason. An error in
# them could make a wrong plan and hide it. So none of them decides an order, a lifetime or a copy. The prover finds
# these by itself: it may not use Analysis/Accesses, nor MemoryTimeline, CopyPolicy and others of lib/Planning.
SHARED_WITH_PROVER = {
    "Aliases": "says which results may be views of operands, which is a property of operators",
    "Buffers": "finds accumulators for FunctionBoundaries",
    "FunctionBoundaries": "finds the event that the plan gives a token; the proof finds what is in flight by itself",
    "Identities": "follows views to the parameters of calls; the proof compares these with names that calls keep",
    "InPlaceGradients": "reads which gradients the plan writes in place; the proof checks that nothing overwrites them",
    "StepFunctions": "finds functions by their role and variant",
    "Traffic": "counts the bytes of an operation, which closed forms are compared with, and the ends of the arenas",
}

# Files of lib that may name a single collective. All others ask CollectiveOpInterface, so that they need no change for
# another collective of a known kind.
NAME_COLLECTIVES = {
    "lib/Transforms/Shard": "makes collectives",
    "lib/Planning/Layout": "replaces collectives of parameters by collectives of buckets",
    "lib/Transforms/Decide": "rewrites collectives, and sets their codes",
    "lib/Analysis/BucketRanges": "reads the range of a copy, which only gathers have",
    "lib/Conversion/PlanOps": "fills a table for each operation",
}

INCLUDE_FOLDERS = ["", "include", "runtime", "runtime/include", "lib/Transforms", "tools", "tools/fcdp-run"]


def unit_of(path):
    """A header, its source and what they keep to themselves (SessionImpl.h) are one unit: lib/Analysis/Aliases."""
    path = re.sub(r"^include/fcdp/", "lib/", str(path))
    return path[: path.rindex(".")].removesuffix("Impl")


def layer_of(unit, layers):
    """The entry of `layers` that `unit` belongs to, the longest that fits; None if there is none."""
    while unit and unit not in layers:
        unit = unit.rpartition("/")[0]
    return unit or None


def sources():
    for top in ("dialects", "include", "lib", "runtime", "tools"):
        for path in sorted((ROOT / top).rglob("*")):
            if path.suffix in (".cpp", ".h", ".cu"):
                yield path.relative_to(ROOT)


def find_includes():
    """unit -> units that it includes, without itself."""
    files = set(map(str, sources()))
    graph = defaultdict(set)
    for file in files:
        graph[unit_of(file)]
        for name in re.findall(r'^#include "([^"]+)"', (ROOT / file).read_text(), re.M):
            candidates = [str(Path(file).parent / name)] + [f"{folder}/{name}".lstrip("/") for folder in INCLUDE_FOLDERS]
            for candidate in candidates:
                if candidate in files:
                    graph[unit_of(file)].add(unit_of(candidate))
                    break
    return {unit: used - {unit} for unit, used in graph.items()}


INCLUDES = find_includes()


def find_cycle(graph):
    """The nodes of one cycle, in order; empty if there is none."""
    done, path = set(), []

    def visit(node):
        if node in path:
            return path[path.index(node) :]
        if node in done:
            return []
        path.append(node)
        for other in sorted(graph.get(node, ())):
            if cycle := visit(other):
                return cycle
        path.pop()
        done.add(node)
        return []

    for node in sorted(graph):
        if cycle := visit(node):
            return cycle
    return []


def violations(graph, layers, shared=frozenset()):
    found = []
    for unit, used in sorted(graph.items()):
        layer = layer_of(unit, layers)
        if layer is None:
            continue
        for other in sorted(used - shared):
            below = layer_of(other, layers)
            if below is None or layers.index(below) > layers.index(layer):
                found.append(f"{unit} uses {other}, which is not below it")
    return found


def test_every_unit_has_a_layer():
    assert len(INCLUDES) > 200
    lost = [unit for unit in INCLUDES if not layer_of(unit, COMPILER) and not layer_of(unit, RUNTIME)]
    assert not lost


def test_compiler_includes_only_downwards():
    assert not violations(INCLUDES, COMPILER, SHARED)


def test_runtime_includes_only_downwards():
    assert not violations(INCLUDES, RUNTIME)


@pytest.mark.parametrize("folder", USES)
def test_folders_of_the_runtime_use_only_what_the_table_says(folder):
    own = f"runtime/{folder}"
    used = {layer_of(other, RUNTIME) for unit, all in INCLUDES.items() if layer_of(unit, RUNTIME) == own for other in all}
    assert used - {own} == {f"runtime/{name}" for name in USES[folder].split()}


def test_no_two_units_include_each_other():
    assert not find_cycle(INCLUDES)


def prover_uses(graph):
    """The units of lib/Analysis and lib/Planning that the prover uses, by itself or through others of these."""
    found, todo = set(), [unit for unit in graph if unit.startswith("lib/Verification/")]
    while todo:
        for other in graph.get(todo.pop(), ()):
            if other.startswith(("lib/Analysis/", "lib/Planning/")) and other not in found:
                found.add(other)
                todo.append(other)
    return found


def test_prover_does_not_read_tiers():
    assert not [unit for unit, used in INCLUDES.items() if unit.startswith("lib/Verification/") and "dialects/Fcdp/Tiers" in used]


def test_prover_shares_only_what_the_list_says():
    assert prover_uses(INCLUDES) == {f"lib/Analysis/{name}" for name in SHARED_WITH_PROVER}


# --- libraries ---


def cmake_links():
    """library -> (its folder, libraries that it links), as the CMake files have it."""
    folders, links = {}, defaultdict(set)
    for path in sorted(ROOT.glob("*/**/CMakeLists.txt")):
        folder = path.parent.relative_to(ROOT)
        if folder.parts[0] not in ("dialects", "lib", "runtime", "tools"):
            continue
        text = re.sub(r"#.*", "", path.read_text())
        for name in re.findall(r"add_(?:mlir_library|mlir_dialect_library|library|llvm_executable|executable)\((\w[\w-]*)", text):
            folders[name] = str(folder)
        for name, body in re.findall(r"(?:add_mlir_\w*library|target_link_libraries)\((\S+)(.*?)\)", text, re.S):
            links[name] |= set(re.findall(r"\b(?:Fcdp\w+|fcdp_\w+)\b", body))
    return {name: (folder, links[name] - {name}) for name, folder in folders.items()}


LINKS = cmake_links()


def test_links_are_found():
    assert LINKS["FcdpTransforms"][0] == "lib/Transforms" and "FcdpVerification" in LINKS["FcdpTransforms"][1]
    assert "FcdpImport" not in LINKS["FcdpTransforms"][1]


@pytest.mark.parametrize("layers", [COMPILER, RUNTIME], ids=["compiler", "runtime"])
def test_libraries_link_only_downwards(layers):
    wrong = []
    for name, (folder, used) in LINKS.items():
        # A library of several layers counts as the highest of them.
        own = [layers.index(layer) for layer in layers if layer == folder or layer.startswith(folder + "/")]
        own += [layers.index(layer)] if (layer := layer_of(folder, layers)) else []
        for other in used & LINKS.keys():
            below = layer_of(LINKS[other][0], layers)
            if own and below and layers.index(below) > max(own):
                wrong.append(f"{name} ({folder}) links {other} ({LINKS[other][0]})")
    assert not wrong


def test_no_two_libraries_link_each_other():
    assert not find_cycle({name: used & LINKS.keys() for name, (_, used) in LINKS.items()})


def test_compiler_links_no_runtime_and_runtime_no_mlir():
    for name, (folder, used) in LINKS.items():
        if folder.startswith(("lib/", "dialects/")):
            assert not any(other.startswith("fcdp_") for other in used - {"fcdp_plan_schema", "fcdp_plan_header"}), name
        if folder.startswith("runtime/"):
            assert not any(other.startswith("Fcdp") for other in used), name


# --- the checks themselves ---


def test_a_use_upwards_is_found():
    graph = {"lib/Analysis/Aliases": {"lib/Transforms/Passes"}}
    assert violations(graph, COMPILER) == ["lib/Analysis/Aliases uses lib/Transforms/Passes, which is not below it"]


def test_only_rewrites_name_a_collective():
    naming = {unit_of(file) for file in sources() if re.search(r"\b(AllGather|ReduceScatter)Op\b", (ROOT / file).read_text())}
    found = {layer_of(unit, NAME_COLLECTIVES) or unit for unit in naming if unit.startswith("lib/")}
    assert found == set(NAME_COLLECTIVES)


def test_a_use_by_the_prover_is_found():
    graph = {"lib/Verification/PlanRun": {"lib/Analysis/Aliases"}, "lib/Analysis/Aliases": {"lib/Analysis/Accesses"}}
    assert prover_uses(graph) == {"lib/Analysis/Aliases", "lib/Analysis/Accesses"}


def test_a_cycle_is_found():
    assert find_cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c"]
