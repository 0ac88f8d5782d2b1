# SPDX-License-Identifier: Apache-2.0
"""Tensors of ATen in numpy: storage types, and the operators that tests use.

Equal inputs give equal bits, whatever their strides and addresses are.
"""

import functools

import numpy as np

from ir import shape_of

DTYPES = {
    "f16": np.float16,
    "bf16": np.uint16,  # the bits
    "f32": np.float32,
    "f64": np.float64,
    "i64": np.int64,
    "i1": np.bool_,
}


def rounded_to_few(values):
    """Rounds float32 values as a message of few bits does, each by itself, so that layouts do not matter."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + np.uint32(1 << 20)) & np.uint32(0xFFE00000)).view(np.float32)


def message_bytes(wire, values):
    """A header of 64 bytes, and for each block 2 bytes and its codes, rounded up to 64."""
    block, codes = {"int8": (256, 256), "int4": (128, 64)}[wire]
    return -(-(64 + -(-values // block) * (2 + codes)) // 64) * 64 if values else 0


@functools.cache
def bytes_of(element):
    return np.dtype(DTYPES[element]).itemsize


def widen(array, element):
    """Values to compute with: bits of bf16 become f32."""
    if element != "bf16":
        return array
    return (array.astype(np.uint32) << 16).view(np.float32)


def round_to(values, element):
    """Rounds to nearest even, once."""
    if element != "bf16":
        return values.astype(DTYPES[element])
    bits = np.ascontiguousarray(values.astype(np.float32)).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def view_as(array, shape):
    result = array.view()
    result.shape = shape  # fails where a copy would be needed
    return result


def matmul(a, b):
    return (a[:, :, None] * b[None, :, :]).sum(axis=1)


def embedding_backward(gradient, indices, count):
    result = np.zeros((count, gradient.shape[-1]), gradient.dtype)
    for index, row in zip(indices.reshape(-1), gradient.reshape(-1, gradient.shape[-1])):
        result[index] += row
    return result


def split(array, size, dim=0):
    return [np.take(array, [], axis=dim)] if not array.size else [
        array[(slice(None),) * dim + (slice(i, i + size),)] for i in range(0, array.shape[dim], size)
    ]


# Their results are their operand's memory.
VIEWS = {
    "aten.t": lambda a: a.T,
    "aten.view": lambda a, size: view_as(a, size),
    "aten._unsafe_view": lambda a, size: view_as(a, size),
    "aten.expand": lambda a, size: np.broadcast_to(a, size),
    "aten.permute": lambda a, dims: a.transpose(dims),
    "aten.transpose": lambda a, dim0, dim1: a.swapaxes(dim0, dim1),
    "aten.select": lambda a, dim, index: a[(slice(None),) * dim + (slice(index, index + 1),)].squeeze(dim),
    "aten.split": lambda a, split_size, dim=0: split(a, split_size, dim),
    "aten.unbind": lambda a, dim=0: [x.squeeze(dim) for x in split(a, 1, dim)],
    # Not in the compiler's table, so that it may alias its operand; it does.
    "custom.alias": lambda a: a[...],
}

FRESH = {
    "aten.mm": matmul,
    "aten.addmm": lambda self, mat1, mat2: self + matmul(mat1, mat2),
    "aten.add": lambda a, b: a + b,
    "aten.sub": lambda a, b: a - b,
    "aten.mul": lambda a, b: a * b,
    "aten.neg": lambda a: -a,
    "aten.abs": np.abs,
    "aten.clone": np.copy,
    "aten._to_copy": lambda a, **kwargs: a,
    "aten.ones_like": np.ones_like,
    "aten.sum": lambda a, dim=None: np.sum(np.ascontiguousarray(a), axis=None if dim is None else tuple(dim)),
    "aten.embedding": lambda weight, indices: weight[indices],
    "aten.embedding_dense_backward": lambda grad_output, indices, num_weights: embedding_backward(
        grad_output, indices, num_weights
    ),
    "aten.cat": lambda tensors, dim=0: np.concatenate(tensors, dim),
}


class Kernel:
    """An `aten.call`, made ready to run any number of times."""

    def __init__(self, op):
        name = op.attrs["callee"].rsplit(".", 1)[0]
        self.is_view = name in VIEWS
        self.function = (VIEWS if self.is_view else FRESH)[name]
        self.operands = op.operands
        self.operand_elements = [shape_of(t)[1] for t in op.operand_types]
        self.result_elements = [shape_of(t)[1] for t in op.result_types]
        self.positional, self.keywords = [], {}
        for key, value in zip(op.attrs["argNames"], op.attrs["args"]):
            if isinstance(value, tuple):  # an operand's index, or a list of them
                self.positional.append(value[1])
            elif key != "dtype":
                self.keywords[key] = value

    def run(self, load):
        """The results, as arrays of storage types; `load` gives the array of a value."""
        def tensor(index):
            array = load(self.operands[index])
            if self.is_view:
                return array
            return np.ascontiguousarray(widen(array, self.operand_elements[index])).reshape(array.shape)

        arguments = [[tensor(i) for i in a] if isinstance(a, list) else tensor(a) for a in self.positional]
        results = self.function(*arguments, **self.keywords)
        if not isinstance(results, list):
            results = [results]
        if self.is_view:
            return results
        return [round_to(np.asarray(r), element) for r, element in zip(results, self.result_elements)]


def call(op, load):
    """Runs an `aten.call`; `load` gives the array of a value."""
    if op.kernel is None:
        op.kernel = Kernel(op)
    return op.kernel.run(load)
