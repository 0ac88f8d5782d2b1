# SPDX-License-Identifier: Apache-2.0
"""Programs are not linked with libcudart, which is loaded, so that nothing may call its functions by name."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

BUILD = Path(os.environ.get("FCDP_HOME", Path(__file__).resolve().parents[2] / "build"))


def test_the_part_for_libtorch_cuda_calls_no_function_of_libcudart() -> None:
    objects = list(BUILD.glob("runtime/device/CMakeFiles/fcdp_torch_cuda.dir/**/*.o"))
    nm = shutil.which("nm") or shutil.which("llvm-nm-22")
    if not objects or not nm:
        pytest.skip("fcdp is built without the CUDA backend" if nm else "no nm in PATH")
    undefined = subprocess.run([nm, "--undefined-only", *objects], capture_output=True, text=True, check=True).stdout
    assert " U " in undefined
    assert re.findall(r" U (cuda[A-Z]\w*)$", undefined, re.MULTILINE) == []
