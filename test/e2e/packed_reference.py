# SPDX-License-Identifier: Apache-2.0
"""Packs and unpacks matrices by the formulas of docs/frozen.md, in NumPy: float32, one rounding for each operation.

`python packed_reference.py` prints test/runtime/core/PackedVectors.inc.
"""

import numpy as np

f32 = np.float32
NF4 = np.array(
    [0xBF800000, 0xBF3239B1, 0xBF066B30, 0xBECA32A0, 0xBE91A24D, 0xBE3D353F, 0xBDBA7871, 0]
    + [0x3DA2FAFF, 0x3E24CAE3, 0x3E7C04DD, 0x3EAD033A, 0x3EE1A4B8, 0x3F1007AB, 0x3F3913B3, 0x3F800000],
    np.uint32,
).view(f32)
MIDPOINTS = (NF4[:-1] + NF4[1:]) / f32(2)
BLOCK = 64


def blocks_of(values: np.ndarray, size: int = BLOCK) -> np.ndarray:
    """Rows of `size` values, the last one filled with zeros."""
    return np.append(values, np.zeros(-len(values) % size, values.dtype)).reshape(-1, size)


def pack_nf4(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the code of each value, and the scale of each block."""
    values = matrix.astype(f32).ravel()
    blocks = blocks_of(values)
    absmax = np.abs(blocks).max(1)
    clamped = np.maximum(absmax, f32(1e-38))
    scaled = blocks * (f32(1) / clamped)[:, None]
    if len(values) % BLOCK:
        scaled[-1], absmax[-1] = blocks[-1] / clamped[-1], clamped[-1]
    return np.searchsorted(MIDPOINTS, scaled.ravel()[: len(values)], side="left").astype(np.uint8), absmax


def unpack_nf4(codes: np.ndarray, absmax: np.ndarray) -> np.ndarray:
    return NF4[codes] * np.repeat(absmax, BLOCK)[: len(codes)]


def join_codes(codes: np.ndarray) -> np.ndarray:
    """Two codes a byte, the first one in the high half; 7, which is zero, for a missing one."""
    codes = np.append(codes, np.full(len(codes) % 2, 7, np.uint8))
    return codes[::2] << 4 | codes[1::2]


def pack_int8(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the codes, and the scale of each row."""
    values = matrix.astype(np.float16).astype(f32)
    absmax = np.abs(values).max(1)
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = np.where(absmax > 0, (f32(1) / absmax) * f32(127), f32(0))
    return np.rint(values * factor[:, None]).astype(np.int8), absmax


def unpack_int8(codes: np.ndarray, absmax: np.ndarray) -> np.ndarray:
    return codes * (absmax * f32(1 / 127))[:, None]


def round_trip(matrix: np.ndarray, packing: str) -> np.ndarray:
    """Returns the values that a packed matrix has, in float32."""
    if packing == "nf4":
        return unpack_nf4(*pack_nf4(matrix)).reshape(matrix.shape)
    return unpack_int8(*pack_int8(matrix))


def layout(codes: list[np.ndarray], scales: np.ndarray) -> bytes:
    """The bytes of runtime/core/PackedLayout.h: each block has its scale and its codes, to a multiple of 4 bytes."""
    parts = (scale.tobytes() + code.tobytes() for scale, code in zip(scales.astype(f32), codes))
    return b"".join(part + bytes(-len(part) % 4) for part in parts)


def main() -> None:
    rng = np.random.default_rng(1)
    # Two blocks with ties and zeros, and a third that is not full and ends with one code in a byte.
    nf4 = np.concatenate([rng.standard_normal(64) * 0.02, np.resize(np.append(MIDPOINTS, f32(1)), 32), np.zeros(32), rng.standard_normal(33)])
    nf4 = nf4.astype(f32)
    int8 = np.append(rng.standard_normal((2, 10)), np.zeros((1, 10)), axis=0).astype(f32)

    def show(name: str, kind: str, values: list[str]) -> None:
        print(f"constexpr {kind} {name}[] = {{")
        for first in range(0, len(values), 8):
            print("    " + ", ".join(values[first : first + 8]) + ",")
        print("};")

    def bits(array: np.ndarray) -> list[str]:
        return [f"0x{bit:08x}" for bit in array.astype(f32).ravel().view(np.uint32)]

    print("// SPDX-License-Identifier: Apache-2.0\n// Written by test/e2e/packed_reference.py.")
    codes, scales = pack_nf4(nf4)
    packed = layout([join_codes(codes[first : first + BLOCK]) for first in range(0, len(codes), BLOCK)], scales)
    show("kNf4Input", "uint32_t", bits(nf4))
    show("kNf4Packed", "uint8_t", [str(byte) for byte in packed])
    show("kNf4Unpacked", "uint32_t", bits(unpack_nf4(codes, scales)))
    rows, scales = pack_int8(int8)
    show("kInt8Input", "uint32_t", bits(int8))
    show("kInt8Packed", "uint8_t", [str(byte) for byte in layout(list(rows), scales)])
    show("kInt8Unpacked", "uint32_t", bits(unpack_int8(rows, scales)))


if __name__ == "__main__":
    main()
