# SPDX-License-Identifier: Apache-2.0
"""One rank of a job that embeds a step by its C interface: trains, and saves or restores the state by name.

usage: embedded.py STEP FIRST LAST WEIGHTS-OR-STATE SAVE-TO INPUT.npy... (named for the inputs)

Runs the steps FIRST to LAST - 1 and prints each mean loss on rank 0. The state comes from a .pt2 file, or from a folder that
an earlier run has saved.
"""

import ctypes
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

DTYPES = (np.float16, None, np.float32, np.float64, np.int8, np.int16, np.int32, np.int64, np.uint8, np.bool_)
ROLES = ("value", "exp_avg", "exp_avg_sq", "momentum_buffer")
MISUSE = 11


class Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("dtype", ctypes.c_int),
        ("num_dims", ctypes.c_uint32),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
    )


class TensorInfo(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("dtype", ctypes.c_int),
        ("num_dims", ctypes.c_uint32),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("bytes", ctypes.c_uint64),
    )

    def empty(self) -> np.ndarray:
        dtype = DTYPES[self.dtype]
        assert dtype is not None
        return np.empty(self.shape[: self.num_dims], dtype)


class Options(ctypes.Structure):
    _fields_ = (
        ("launch", ctypes.c_void_p),
        ("number", ctypes.c_uint32),
        ("timeout_seconds", ctypes.c_double),
        ("threads", ctypes.c_int32),
        ("seed", ctypes.c_uint64),
        ("cuda_graphs", ctypes.c_int),
        ("network_interface", ctypes.c_char_p),
        ("on_nonfinite", ctypes.c_int),
    )


class Figures(ctypes.Structure):
    _fields_ = (
        ("loss", ctypes.c_double),
        ("seconds", ctypes.c_double),
        ("bytes", ctypes.c_uint64 * 7),
        ("learning_rate", ctypes.c_double),
        ("skipped_steps", ctypes.c_uint64),
    )


def view(array: np.ndarray, info: TensorInfo) -> Tensor:
    assert array.flags.c_contiguous and array.nbytes == info.bytes
    return Tensor(array.ctypes.data, info.dtype, info.num_dims, info.shape)


class Session:
    def __init__(self, step: str) -> None:
        path = Path(__file__).resolve().parents[2] / "build/lib/libfcdp.so"
        self.library = ctypes.CDLL(str(path))
        self.library.fcdp_last_error.restype = ctypes.c_char_p
        for name in ("inputs", "states"):
            getattr(self.library, f"fcdp_session_num_{name}").restype = ctypes.c_size_t
        self.handle = ctypes.c_void_p()
        options = Options(threads=1)
        self.check(self.library.fcdp_session_open(step.encode(), ctypes.byref(options), ctypes.byref(self.handle)))

    def check(self, status: int) -> None:
        if status != 0:
            raise RuntimeError(f"status {status}: {self.library.fcdp_last_error().decode()}")

    def call(self, name: str, *arguments: object) -> None:
        self.check(getattr(self.library, f"fcdp_session_{name}")(self.handle, *arguments))

    def number(self, name: str) -> int:
        return getattr(self.library, f"fcdp_session_{name}")(self.handle)

    def infos(self, what: str) -> Iterator[TensorInfo]:
        for i in range(self.number(f"num_{what}s")):
            info = TensorInfo()
            self.call(what, ctypes.c_size_t(i), ctypes.byref(info))
            yield info

    def save(self, folder: Path) -> None:
        for i, info in enumerate(self.infos("state")):
            for number, role in enumerate(ROLES):
                out = info.empty()
                arguments = (self.handle, info.name, number, ctypes.c_void_p(out.ctypes.data), ctypes.c_size_t(out.nbytes))
                status = self.library.fcdp_session_get_state(*arguments)
                if status == MISUSE:
                    continue  # the step has no such state
                self.check(status)
                if self.number("rank") == 0:
                    np.save(folder / f"{i}-{role}.npy", out)
            count = ctypes.c_int64()
            self.call("get_update_count", info.name, ctypes.byref(count))
            if self.number("rank") == 0:
                np.save(folder / f"{i}-count.npy", count.value)

    def restore(self, folder: Path) -> None:
        for i, info in enumerate(self.infos("state")):
            for number, role in enumerate(ROLES):
                if (path := folder / f"{i}-{role}.npy").exists():
                    value = np.load(path)
                    self.call("set_state", info.name, number, ctypes.byref(view(value, info)))
            if (count := int(np.load(folder / f"{i}-count.npy"))) > 0:
                self.call("set_update_count", info.name, ctypes.c_int64(count))

    def step(self, index: int, inputs: dict[str, np.ndarray]) -> float:
        rank, ranks, batches = (self.number(name) for name in ("rank", "num_ranks", "num_micro_batches"))
        rows, tensors = [], []
        for batch in range(batches):
            for info in self.infos("input"):
                array = inputs[info.name.decode()]
                rows.append(np.ascontiguousarray(array[((index * batches + batch) * ranks + rank) % len(array)]))
                tensors.append(view(rows[-1], info))
        self.call("run", (Tensor * len(tensors))(*tensors), ctypes.c_size_t(len(tensors)))
        self.call("read", None, None)
        figures = Figures()
        self.call("combine", ctypes.byref(figures))
        return figures.loss


def main(step: str, first: str, last: str, source: str, save_to: str, *paths: str) -> None:
    session = Session(step)
    if Path(source).is_dir():
        session.restore(Path(source))
    else:
        session.call("load_weights", source.encode())
    inputs = {Path(path).stem: np.load(path) for path in paths}
    for index in range(int(first), int(last)):
        loss = session.step(index, inputs)
        if session.number("rank") == 0:
            print(repr(loss), flush=True)
    session.save(Path(save_to))
    session.call("close")
    session.library.fcdp_session_destroy(session.handle)


if __name__ == "__main__":
    main(*sys.argv[1:])
