# SPDX-License-Identifier: Apache-2.0
"""The machine code of the CUDA backend's kernels: chunks are loaded as vectors, several before the first addition."""

import os
import re
import subprocess
import sysconfig
from pathlib import Path

import pytest

IMAGE = Path(os.environ.get("FCDP_HOME", Path(__file__).resolve().parents[2] / "build")) / "runtime/cuda/Kernels.fatbin"
# The folder of the wheels nvidia-cuda-cuobjdump and nvidia-cuda-nvdisasm.
TOOLS = Path(sysconfig.get_path("purelib")) / "nvidia/cu13/bin"
TYPES = ("f16", "bf16", "f32", "f64")
# kLoadsInFlight of SumChunks.h, and the two operands of an addition in place.
LOADS = {f"fcdp_sum_{given}_{result}": 4 for given in TYPES for result in TYPES} | {"fcdp_add": 2}
ROUNDED = [f"{code}_{given}" for code in ("int8", "int4") for given in TYPES[:3]]
# A warp finds the greatest magnitude of its block, and rotates blocks of int4.
WARPS = {f"fcdp_quantize_{kind}" for kind in ROUNDED}
WARPS |= {f"fcdp_sum_{kind}_{result}" for kind in ROUNDED if "int4" in kind for result in TYPES[:3]}
OTHERS = {f"fcdp_sum_{kind}_{result}" for kind in ROUNDED if "int8" in kind for result in TYPES[:3]} | {"fcdp_clear"}
OTHERS |= {f"fcdp_unpack_{codes}_{result}" for codes in ("nf4", "int8") for result in TYPES[:3]}


def disassemble(architecture: str) -> dict[str, list[str]]:
    """Returns the instructions of each kernel."""
    if not IMAGE.exists():
        pytest.skip(f"no kernels were built: {IMAGE} is not there")
    listing = subprocess.run(
        [TOOLS / "cuobjdump", "-sass", "-arch", architecture, IMAGE],
        env={**os.environ, "NVDISASM_PATH": str(TOOLS)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    functions = re.split(r"^\s*Function : ", listing, flags=re.MULTILINE)[1:]
    return {
        function.split("\n", 1)[0]: re.findall(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\d+\s+)?([A-Z][\w.]*)", function)
        for function in functions
    }


@pytest.mark.parametrize("architecture", ["sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"])
def test_vectors_are_loaded_before_the_first_addition(architecture: str) -> None:
    kernels = disassemble(architecture)
    assert kernels.keys() == LOADS.keys() | WARPS | OTHERS
    for name, instructions in kernels.items():
        # Arrays that are indexed by a loop which is not unrolled are in local memory.
        assert not [instruction for instruction in instructions if re.match(r"(LDL|STL)\b", instruction)], name
        exchanges = [instruction for instruction in instructions if instruction.startswith("SHFL.BFLY")]
        assert bool(exchanges) == (name in WARPS), name
    for name in LOADS:
        instructions = kernels[name]
        addition = next(i for i, instruction in enumerate(instructions) if re.match(r"[FD]ADD\b", instruction))
        loads = [instruction for instruction in instructions[:addition] if instruction.startswith("LDG")]
        assert len(loads) == LOADS[name] and all(".128" in load for load in loads), (name, loads)
