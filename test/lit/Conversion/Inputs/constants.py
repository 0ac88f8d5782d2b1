# SPDX-License-Identifier: Apache-2.0
"""Writes an archive with the values of every-op.mlir's constants; uses Import/Inputs/archive.py."""

import struct
import sys

from archive import BOOL, F64, meta, step

model = step()
values = {"mask": (BOOL, [5], bytes([1, 0, 1, 1, 0])), "scale": (F64, [2], struct.pack("<2d", 1.5, -2))}
entries = {}
for index, (name, (dtype, shape, value)) in enumerate(values.items()):
    path = f"tensor_{index}"
    model.config["constants"][name] = {"path_name": path, "is_param": False, "use_pickle": False, "tensor_meta": meta(shape, dtype)}
    entries[f"data/constants/{path}"] = value
model.save(sys.argv[1], entries=entries)
