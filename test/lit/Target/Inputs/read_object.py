# SPDX-License-Identifier: Apache-2.0
"""Loads a compiled step as the runtime does, and prints what it exports."""

import ctypes
import json
import os
import sys

# Nothing is called, so the runtime's entry points need not be there.
library = ctypes.CDLL(os.path.abspath(sys.argv[1]), mode=os.RTLD_LAZY | os.RTLD_LOCAL)


def number(name, kind=ctypes.c_uint64):
    return kind.in_dll(library, name).value


def data(name):
    return (ctypes.c_ubyte * number(f"{name}_size")).in_dll(library, name)


print("abi", number("fcdp_abi_version", ctypes.c_uint32))
manifest = json.loads(bytes(data("fcdp_manifest")))
print("functions", [name for name in manifest["functions"] if hasattr(library, f"fcdp_{name}")])
constants = data("fcdp_constants")
print("constants", bytes(constants).hex(), "at", ctypes.addressof(constants) % 64)
