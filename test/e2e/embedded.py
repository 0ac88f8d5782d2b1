# SPDX-License-Identifier: Apache-2.0
"""One rank of a job that embeds a step by its C interface: trains, and saves or restores the state by name.

Runs the steps FIRST to LAST - 1 and prints each mean loss on rank 0, and then that of an evaluation. The state comes
from a .pt2 file, or from a folder that an earlier run has saved. Files of inputs have the names of the inputs.
"""

import argparse
import ctypes
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
        ("loss_scale", ctypes.c_char_p),
        ("padding", ctypes.c_char_p),
        ("deterministic", ctypes.c_int),
        ("reductions_by", ctypes.c_int),
        ("state_path", ctypes.c_char_p),
    )


class Figures(ctypes.Structure):
    _fields_ = (
        ("loss", ctypes.c_double),
        ("seconds", ctypes.c_double),
        ("bytes", ctypes.c_uint64 * 7),
        ("learning_rate", ctypes.c_double),
        ("skipped_steps", ctypes.c_uint64),
        ("gradient_norm", ctypes.c_double),
        ("loss_scale", ctypes.c_double),
    )


def view(array: np.ndarray, info: TensorInfo) -> Tensor:
    assert array.flags.c_contiguous and array.nbytes == info.bytes
    return Tensor(array.ctypes.data, info.dtype, info.num_dims, info.shape)


class Session:
    def __init__(self, step: str, loss_scale: str | None) -> None:
        path = Path(__file__).resolve().parents[2] / "build/lib/libfcdp.so"
        self.library = ctypes.CDLL(str(path))
        self.library.fcdp_last_error.restype = ctypes.c_char_p
        for name in ("inputs", "states", "eval_inputs"):
            getattr(self.library, f"fcdp_session_num_{name}").restype = ctypes.c_size_t
        self.handle = ctypes.c_void_p()
        options = Options(threads=1, loss_scale=loss_scale.encode() if loss_scale else None)
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

    def views(self, what: str, inputs: dict[str, np.ndarray], batches: range) -> list[Tensor]:
        """The inputs of this rank's batches, counted over the whole run."""
        tensors = []
        for batch in batches:
            row = batch * self.number("num_ranks") + self.number("rank")
            for info in self.infos(what):
                array = inputs[info.name.decode()]
                tensors.append(view(array[row % len(array), ...], info))
        return tensors

    def step(self, index: int, inputs: dict[str, np.ndarray]) -> Figures:
        count = self.number("num_micro_batches")
        tensors = self.views("input", inputs, range(index * count, (index + 1) * count))
        self.call("run", (Tensor * len(tensors))(*tensors), ctypes.c_size_t(len(tensors)))
        self.call("read", None, None)
        figures = Figures()
        self.call("combine", ctypes.byref(figures))
        return figures

    def evaluate(self, inputs: dict[str, np.ndarray]) -> Figures:
        count = min(map(len, inputs.values())) // self.number("num_ranks")
        tensors = self.views("eval_input", inputs, range(count))
        figures = Figures()
        sizes = (ctypes.c_size_t(len(tensors)), ctypes.c_size_t(count))
        self.call("evaluate", (Tensor * len(tensors))(*tensors), *sizes, ctypes.byref(figures))
        return figures


def load_inputs(paths: list[Path]) -> dict[str, np.ndarray]:
    return {path.stem: np.ascontiguousarray(np.load(path)) for path in paths}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("step")
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int)
    parser.add_argument("source", type=Path)
    parser.add_argument("inputs", type=Path, nargs="*")
    parser.add_argument("--save-to", type=Path)
    parser.add_argument("--eval-input", type=Path, action="append")
    parser.add_argument("--loss-scale")
    args = parser.parse_args()
    session = Session(args.step, args.loss_scale)
    if args.source.is_dir():
        session.restore(args.source)
    else:
        session.call("load_weights", str(args.source).encode())
    inputs = load_inputs(args.inputs)
    found = [session.step(index, inputs) for index in range(args.first, args.last)]
    if args.eval_input:
        found.append(session.evaluate(load_inputs(args.eval_input)))
    if session.number("rank") == 0:
        for figures in found:
            print(repr(figures.loss), repr(figures.loss_scale), flush=True)
    if args.save_to:
        session.save(args.save_to)
    session.call("close")
    session.library.fcdp_session_destroy(session.handle)


if __name__ == "__main__":
    main()
