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
#include <stdint.h>
#include <string.h>
int compute(const char *library, const float *in, float *out, long count) {
  void *handle = dlopen(library, RTLD_NOW);
  __m256 (*exponential)(__m256) = handle ? (__m256(*)(__m256))dlsym(handle, "Sleef_expf8_u10") : 0;
  if (!exponential)
    return 1;
  for (long i = 0; i < count; i += 8)
    _mm256_storeu_ps(out + i, exponential(_mm256_loadu_ps(in + i)));
  return 0;
}
/* Returns the number of all values for which a kernel gives other bits, where any NaN equals any other. */
long compare(const char *library, void (*kernel)(void *const *, long long, long long, long long)) {
  enum { part = 4096 };
  static float in[part], ours[part], theirs[part];
  void *tensors[] = {in, ours};
  long differ = 0;
  for (uint64_t begin = 0; begin < UINT64_C(1) << 32; begin += part) {
    for (uint32_t i = 0; i < part; ++i) {
      uint32_t bits = (uint32_t)begin + i;
      memcpy(in + i, &bits, sizeof bits);
    }
    kernel(tensors, 0, part, 0);
    if (compute(library, in, theirs, part))
      return -1;
    if (memcmp(ours, theirs, sizeof ours))
      for (int i = 0; i < part; ++i)
        differ += memcmp(ours + i, theirs + i, sizeof(float)) && !(ours[i] != ours[i] && theirs[i] != theirs[i]);
  }
  return differ;
}
"""


class Sleef:
    """The exponential function of libtorch's vectorized kernels."""

    def __init__(self, folder: Path) -> None:
        (folder / "sleef.c").write_text(SLEEF)
        library = folder / "sleef.so"
        subprocess.run(["clang-22", "-O1", "-mavx2", "-shared", "-fPIC", folder / "sleef.c", "-o", library], check=True)
        self._library = ctypes.CDLL(str(library))
        self._compute = self._library.compute
        self._compute.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long]
        self._torch = str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so").encode()

    def exp(self, values: torch.Tensor) -> torch.Tensor:
        """Takes a multiple of 8 values."""
        out = torch.empty_like(values)
        if self._compute(self._torch, values.data_ptr(), out.data_ptr(), len(values)):
            raise RuntimeError("this libtorch does not export Sleef_expf8_u10")
        return out

    def count_differences(self, function: "KernelFunction", level: str) -> int:
        """The number of all 2^32 values for which a kernel of exp gives other bits."""
        compare = self._library.compare
        compare.argtypes, compare.restype = [ctypes.c_char_p, ctypes.c_void_p], ctypes.c_long
        return compare(self._torch, ctypes.cast(function.find(level), ctypes.c_void_p))


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

    def find(self, level: str) -> Callable[..., None]:
        function = self._library[f"fcdp_kernel_{self._name}_{level}"]
        function.argtypes = [ctypes.c_void_p, ctypes.c_longlong, ctypes.c_longlong, ctypes.c_longlong]
        function.restype = None
        return function

    def run(self, level: str, operands: Sequence[torch.Tensor], out: torch.Tensor, begin: int, end: int, width: int = 0) -> None:
        """Computes elements, or rows, [begin, end) of `out`."""
        pointers = (ctypes.c_void_p * (len(operands) + 1))(*(tensor.data_ptr() for tensor in (*operands, out)))
        self.find(level)(ctypes.addressof(pointers), begin, end, width)
