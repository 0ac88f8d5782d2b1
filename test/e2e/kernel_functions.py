# SPDX-License-Identifier: Apache-2.0
"""Calls the functions of kernels in an object, and makes objects with one kernel of an operator."""

import ctypes
import json
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

TYPES = {torch.float32: "f32", torch.bfloat16: "bf16"}
# The levels of x86-64 for which kernels are compiled, and a flag that processors of the level have.
LEVELS = {"v3": " avx2 ", "v4": " avx512vl "}


def runnable_levels() -> list[str]:
    """The levels that this processor has."""
    flags = " " + " ".join(line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags"))
    return [level for level, flag in LEVELS.items() if flag in flags]


def step_text(operator: str, arguments: str, operands: Sequence[tuple[Sequence[int], torch.dtype]], result: torch.dtype) -> str:
    """A step with the operator and a negation, which become one kernel. Operands are %0, %1 and so on."""
    types = ["tensor<" + "".join(f"{extent}x" for extent in shape) + TYPES[dtype] + ">" for shape, dtype in operands]
    made = types[0].replace(TYPES[operands[0][1]] + ">", TYPES[result] + ">")
    lines = ["module attributes {fcdp.phase = #fcdp.phase<imported>} {"]
    lines += [f'  fcdp.input @i{i} : {type} name "i{i}"' for i, type in enumerate(types)]
    lines += ['  fcdp.parameter @w : tensor<4xf32> unit "" trainable names ["w"]', "  func.func @step() {"]
    lines += [f"    %{i} = fcdp.read_input @i{i} : {type}" for i, type in enumerate(types)]
    lines += [
        f'    %a = aten.call "{operator}"({arguments}) : ({", ".join(types)}) -> {made}',
        f'    %b = aten.call "aten.neg.default"(self = %a) : ({made}) -> {made}',
        f'    %l = aten.call "aten.sum.default"(self = %b) : ({made}) -> tensor<{TYPES[result]}>',
        "    %w = fcdp.read_parameter @w : tensor<4xf32>",
        '    %g = aten.call "aten.exp.default"(self = %w) : (tensor<4xf32>) -> tensor<4xf32>',
        "    fcdp.gradient %g of @w : tensor<4xf32>",
        f"    fcdp.loss %l : tensor<{TYPES[result]}>",
        "    return\n  }\n}\n",
    ]
    return "\n".join(lines)


EXP = """fcdp.kernel @kernel.{name} maps [identity] {{
^bb0(%x: f32):
  %0 = math.exp %x : f32
  fcdp.yield %0 : f32
}}"""
SLEEF = """
#include <dlfcn.h>
#include <immintrin.h>
int compute(const char *library, const float *in, float *out, long count) {
  void *handle = dlopen(library, RTLD_NOW);
  __m256 (*exponential)(__m256) = handle ? (__m256(*)(__m256))dlsym(handle, "Sleef_expf8_u10") : 0;
  if (!exponential)
    return 1;
  for (long i = 0; i < count; i += 8)
    _mm256_storeu_ps(out + i, exponential(_mm256_loadu_ps(in + i)));
  return 0;
}
"""


class Sleef:
    """The exponential function of libtorch's vectorized kernels."""

    def __init__(self, folder: Path) -> None:
        (folder / "sleef.c").write_text(SLEEF)
        library = folder / "sleef.so"
        subprocess.run(["clang-22", "-O1", "-mavx2", "-shared", "-fPIC", folder / "sleef.c", "-o", library], check=True)
        self._compute = ctypes.CDLL(str(library)).compute
        self._compute.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long]
        self._torch = str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so").encode()

    def exp(self, values: torch.Tensor) -> torch.Tensor:
        """Takes a multiple of 8 values."""
        out = torch.empty_like(values)
        if self._compute(self._torch, values.data_ptr(), out.data_ptr(), len(values)):
            raise RuntimeError("this libtorch does not export Sleef_expf8_u10")
        return out


def make_exp(compiler: Path, folder: Path) -> "KernelFunction":
    """The exponential function alone, which no operator has: another text for a kernel of an operator."""
    text = step_text("aten.sigmoid.default", "self = %0", [([64], torch.float32)], torch.float32)
    KernelFunction(compiler, text, folder)
    printed = subprocess.run([compiler, folder / "step.so", "--emit=plan-json"], check=True, capture_output=True).stdout
    plan = json.loads(printed)
    plan["kernels"][0]["text"] = EXP.format(name=plan["kernels"][0]["name"])
    exp = folder / "exp"
    exp.mkdir()
    return KernelFunction(compiler, json.dumps(plan), exp, "step.json", [])


class KernelFunction:
    """The function of the one kernel of an object, at a level."""

    def __init__(
        self, compiler: Path, text: str, folder: Path, name: str = "step.mlir", options: Sequence[str] = ("--fuse=exact",)
    ) -> None:
        (folder / name).write_text(text)
        step = folder / "step.so"
        subprocess.run([compiler, folder / name, *options, "-o", step], check=True, stdout=subprocess.DEVNULL)
        printed = subprocess.run([compiler, step, "--emit=kernels"], check=True, capture_output=True, text=True).stdout
        names = [line.split("@kernel.")[1].split()[0] for line in printed.splitlines() if line.startswith("fcdp.kernel")]
        assert len(names) == 1, printed
        self.text = printed
        self._name = names[0]
        self._library = ctypes.CDLL(str(step))

    def _find(self, level: str) -> Callable[..., None]:
        function = self._library[f"fcdp_kernel_{self._name}_{level}"]
        function.argtypes = [ctypes.c_void_p, ctypes.c_longlong, ctypes.c_longlong, ctypes.c_longlong]
        function.restype = None
        return function

    def run(self, level: str, operands: Sequence[torch.Tensor], out: torch.Tensor, begin: int, end: int, width: int = 0) -> None:
        """Computes elements, or rows, [begin, end) of `out`."""
        pointers = (ctypes.c_void_p * (len(operands) + 1))(*(tensor.data_ptr() for tensor in (*operands, out)))
        self._find(level)(ctypes.addressof(pointers), begin, end, width)
