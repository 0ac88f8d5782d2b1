# SPDX-License-Identifier: Apache-2.0
"""Finds this machine's CUDA libraries, without importing PyTorch, which takes seconds."""

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path

TOOLKIT = Path("/usr/local/cuda")


def torch_folder() -> Path:
    found = importlib.util.find_spec("torch")
    if found is None or found.origin is None:
        raise RuntimeError("this Python has no torch")
    return Path(found.origin).parent


def folders() -> Iterator[Path]:
    """Yields the folders of libtorch, of the CUDA libraries that PyTorch's packages bring, and of the toolkit."""
    torch = torch_folder()
    yield torch / "lib"
    yield from sorted(torch.parent.glob("nvidia/*/lib"))
    yield from filter(Path.is_dir, (TOOLKIT / "lib64", TOOLKIT / "extras/CUPTI/lib64"))


def environment() -> dict[str, str]:
    """Returns the variables of a program that is built for another machine's folders, or links no libtorch that would
    bring libcudart and NCCL.
    """
    before = os.environ.get("LD_LIBRARY_PATH")
    paths = [*map(str, folders()), *([before] if before else [])]
    return {"LD_LIBRARY_PATH": ":".join(paths)}
