# SPDX-License-Identifier: Apache-2.0
"""Loads a compiled step as the runtime does, and prints what it exports."""

import ctypes
import hashlib
import os
import sys

library = ctypes.CDLL(os.path.abspath(sys.argv[1]), mode=os.RTLD_NOW | os.RTLD_LOCAL)


def number(name, kind=ctypes.c_uint64):
    return kind.in_dll(library, name).value


def data(name):
    return (ctypes.c_ubyte * number(f"{name}_size")).in_dll(library, name)


print("abi", number("fcdp_abi_version", ctypes.c_uint32))
plan = data("fcdp_plan")
# FlatBuffers' identifier of the schema.
print("plan", bytes(plan)[4:8].decode(), "at", ctypes.addressof(plan) % 64)
stated = bytes((ctypes.c_char * 40).in_dll(library, "fcdp_plan_hash")).decode()
assert hashlib.sha1(bytes(plan)).hexdigest() == stated
print("the hash is that of the plan")
constants = data("fcdp_constants")
print("constants", bytes(constants).hex(), "at", ctypes.addressof(constants) % 64)
