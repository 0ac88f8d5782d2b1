# SPDX-License-Identifier: Apache-2.0
"""Runs Python programs as ranks: each in a process that forks from one which has imported PyTorch.

Importing PyTorch and what an export needs takes longer than most ranks compute. A program sees what it would in an
interpreter of its own, except that libraries have read their variables (OMP_NUM_THREADS) in the environment of this
process, that all ranks hash strings alike, and that the modules below are loaded. test_loop.py has ranks in
interpreters of their own.
"""

import ctypes
import gc
import multiprocessing
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

CONTEXT = multiprocessing.get_context("forkserver")
# Modules that an export or a checkpoint needs. None of them starts a thread that is there when the server forks.
CONTEXT.set_forkserver_preload(
    [
        "fcdp",
        "torch._dynamo",
        "torch._functorch.aot_autograd",
        "torch._inductor.ir",
        "torch.distributed.checkpoint.state_dict",
        "torch.distributed.fsdp",
    ]
)


@dataclass(frozen=True)
class Printed:
    """The texts that a rank wrote to its standard output and its standard error."""

    out: str
    error: str


def run_ranks(
    script: Path,
    arguments: Sequence[object],
    environments: Sequence[Mapping[str, str]],
    timeout: float = 180,
    exit_code: int = 0,
) -> list[Printed]:
    """Runs a program beside itself, once for each environment, which replaces that of this process.

    Raises AssertionError, with what all ranks have printed, unless each of them ends with `exit_code` within `timeout`
    seconds.
    """
    argv = [str(script), *map(str, arguments)]
    with tempfile.TemporaryDirectory() as folder:
        files = [(Path(folder, f"{rank}.out"), Path(folder, f"{rank}.error")) for rank in range(len(environments))]
        for file in sum(files, ()):
            file.touch()
        ranks = [
            CONTEXT.Process(target=_run, args=(argv, dict(environment), *map(str, paths)))
            for environment, paths in zip(environments, files)
        ]
        try:
            for rank in ranks:
                rank.start()
            deadline = time.monotonic() + timeout
            for rank in ranks:
                rank.join(max(0.0, deadline - time.monotonic()))
            codes = [rank.exitcode for rank in ranks]
        finally:
            for rank in ranks:
                if rank.pid is not None and rank.exitcode is None:
                    rank.kill()
                    rank.join()
        printed = [Printed(*(path.read_text(errors="replace") for path in paths)) for paths in files]
    what = f"expected exit codes {exit_code} within {timeout} s, got {codes} (None: killed then)"
    assert codes == [exit_code] * len(ranks), "\n".join([what, *argv, *(f"{p.out}{p.error}" for p in printed)])
    return printed


def _run(argv: list[str], environment: dict[str, str], out: str, error: str) -> None:
    """Becomes what `python ARGV...` is. Does not return."""
    import numpy as np
    import torch

    # Objects that the collector does not visit stay in memory that is shared.
    gc.freeze()
    for number, path in enumerate((os.devnull, out, error)):
        os.dup2(os.open(path, os.O_RDWR), number)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv[:] = argv
    sys.path.insert(0, os.path.dirname(argv[0]))
    # New random states, as an interpreter begins with. The module random has one already.
    np.random.seed()
    torch.default_generator.seed()
    main = sys.modules["__main__"] = ModuleType("__main__")
    main.__file__ = argv[0]
    code: object = 0
    try:
        exec(compile(Path(argv[0]).read_bytes(), argv[0], "exec"), main.__dict__)
    except SystemExit as end:
        code = end.code or 0
        if not isinstance(code, int):
            print(code, file=sys.stderr)
            code = 1
    except BaseException:
        sys.last_type, sys.last_value, sys.last_traceback = sys.exc_info()
        traceback.print_exc()
        code = 1
    # multiprocessing would leave out the functions of atexit and the destructors of libraries.
    ctypes.pythonapi.Py_Exit(code)
