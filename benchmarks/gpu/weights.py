# SPDX-License-Identifier: Apache-2.0
"""Makes initial weights from a seed, so that the 2 GB of a billion parameters need not be copied to the machine.

Files are in the safetensors format (https://github.com/huggingface/safetensors): the length of a JSON header in 8
bytes, the header, and the values.
"""

import ctypes
import json
import os
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from model import Gpt, Llama, Shape, make, parameter_names

DTYPES = {"BF16": torch.bfloat16, "F32": torch.float32}
NAMES = {dtype: name for name, dtype in DTYPES.items()}


def write(path: Path, shape: Shape, seed: int) -> None:
    parameters = parameter_names(shape)
    header, offset = {}, 0
    for name, like in parameters.items():
        end = offset + like.numel() * like.element_size()
        header[name] = {"dtype": NAMES[like.dtype], "shape": list(like.shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    part = path.with_suffix(f".{os.getpid()}")
    with part.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for value in values(parameters, seed):
            file.write(bytes_of(value))
    # Programs that run side by side may write the same file.
    part.rename(path)


def values(parameters: dict[str, torch.Tensor], seed: int) -> Iterator[torch.Tensor]:
    """Yields the values in order. Each has a generator of its own, because one thread takes 10 s for a billion."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        yield from pool.map(
            lambda index, name: initial(name, parameters[name], torch.Generator().manual_seed(seed * 100003 + index)),
            range(len(parameters)),
            parameters,
        )


def bytes_of(tensor: torch.Tensor) -> ctypes.Array[ctypes.c_char]:
    """Returns a view of the tensor's bytes without NumPy, which may be missing. It is valid while the tensor lives."""
    assert tensor.is_contiguous() and tensor.device.type == "cpu"
    return (ctypes.c_char * tensor.nbytes).from_address(tensor.data_ptr())


def initial(name: str, like: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    if like.dim() == 1:
        one = "norm" in name and name.endswith("weight")
        return torch.full(like.shape, float(one), dtype=like.dtype)
    return torch.empty(like.shape).normal_(std=0.02, generator=generator).to(like.dtype)


def read(path: Path) -> dict[str, torch.Tensor]:
    """Maps the tensors on the CPU. Pages are read when they are used."""
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
    data = torch.from_file(str(path), size=path.stat().st_size, dtype=torch.uint8)[8 + length :]
    return {
        name: data[slice(*entry["data_offsets"])].view(DTYPES[entry["dtype"]]).view(entry["shape"])
        for name, entry in header.items()
    }


def load(shape: Shape, path: Path, device: str) -> Llama | Gpt:
    with torch.device("meta"):
        model = make(shape)
    model.to_empty(device=device)
    model.load_state_dict(read(path))
    return model
