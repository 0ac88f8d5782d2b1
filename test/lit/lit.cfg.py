# SPDX-License-Identifier: Apache-2.0
import os
import platform
import shutil
import subprocess
import sys

import lit.formats
from lit.llvm import llvm_config
from lit.llvm.subst import FindTool, ToolSubst

sys.path.insert(0, os.path.dirname(__file__))
# lit sends tests to its processes, which is why the class has a module.
from roundtrip import FcdpOptTest  # noqa: E402

config.name = "fcdp"
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.fcdp_obj_root, "test", "lit")

# A variable that is not global ends at the next CHECK-LABEL.
config.environment["FILECHECK_OPTS"] = "-enable-var-scope"
# LLVM's allocator poisons memory in our code and not in libMLIR, which a
# sanitized build would report.
config.environment.setdefault("ASAN_OPTIONS", "allow_user_poisoning=0")

for directory in (config.llvm_tools_dir, config.fcdp_tools_dir):
    llvm_config.with_environment("PATH", directory, append_path=True)

# The fault that scripts/mutate has chosen.
llvm_config.with_system_environment("FCDP_MUTANT")

# Exports, and the checks of generated documents, run in the project's own
# environment where there is one.
venv_python = os.path.join(config.fcdp_src_root, ".venv", "bin", "python")
has_venv = os.path.exists(venv_python)
python = venv_python if has_venv else "python3"
config.substitutions.append(("%python", python))
# Changes lines of a file (edit.py --help).
config.substitutions.append(("%edit", f"{python} -S -E {os.path.join(config.test_source_root, 'edit.py')}"))


def is_set(parameter):
    return lit_config.params.get(parameter, "0") not in ("", "0")


# `--param verify-roundtrip=1` runs the suite with every module written as text
# and as bytecode and read again. `--param compile-only=1` runs no steps on
# simulated ranks: they would be the same steps again.
compiles_only = is_set("verify-roundtrip") or is_set("compile-only")
if compiles_only:
    config.available_features.add("compile-only")

# It leaves out tests that do not run fcdp-opt, because they would do the same again.
only_fcdp_opt = is_set("verify-roundtrip")
config.test_format = (FcdpOptTest if only_fcdp_opt else lit.formats.ShTest)(execute_external=False)
# Programs of test/simulate, which run steps on simulated ranks. Tests that use them need numpy.
for program in ("check-steps", "check-faults", "check-order", "check-mutants"):
    path = os.path.join(config.fcdp_src_root, "test", "simulate", program.replace("-", "_") + ".py")
    options = "" if program == "check-order" else ' --opt "fcdp-opt"'
    options += " --compile-only" if program == "check-steps" and compiles_only else ""
    config.substitutions.append((f"%{program}", f"{python} {path}{options}"))
config.substitutions.append(("%fcdp_src_root", config.fcdp_src_root))
config.substitutions.append(("%fcdp_obj_root", config.fcdp_obj_root))

fcdp_opt_arguments = ["--verify-roundtrip"] if is_set("verify-roundtrip") else []

llvm_config.add_tool_substitutions(
    [
        ToolSubst("fcdp-opt", FindTool("fcdp-opt"), extra_args=fcdp_opt_arguments, unresolved="fatal"),
        ToolSubst("FileCheck", FindTool("FileCheck"), unresolved="fatal"),
        ToolSubst("not", FindTool("not"), unresolved="fatal"),
    ],
    [config.fcdp_tools_dir, config.llvm_tools_dir],
)

# A tool that this build does not have: its tests say REQUIRES and its name.
for tool in ("fcdp-translate", "fcdp-compile", "fcdp-lsp-server", "fcdp-sim", "fcdp-cluster"):
    if os.path.exists(os.path.join(config.fcdp_tools_dir, tool)):
        config.available_features.add(tool)

# Kernels are compiled for these processors only.
if platform.machine() == "x86_64":
    config.available_features.add("x86-host")

for package in ("numpy", "torch"):
    # Looks for the package without importing it, which takes seconds for torch.
    find = f"import importlib.util, sys; sys.exit(importlib.util.find_spec('{package}') is None)"
    if subprocess.run([python, "-c", find]).returncode == 0:
        config.available_features.add(package)
# Draws the page of fcdp-sim; `scripts/setup --browser` installs one.
browsers = (shutil.which(name) for name in ("chromium-headless-shell", "chromium", "google-chrome"))
if browser := next(filter(None, browsers), None):
    config.available_features.add("browser")
    config.substitutions.append(("%browser", browser))
