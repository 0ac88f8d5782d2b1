# SPDX-License-Identifier: Apache-2.0
"""Prints a manifest from the standard input, or that of a module in the LLVM dialect, an entry a line, after checking its
hash."""

import hashlib
import json
import re
import sys

text = sys.stdin.read().rstrip("\n")
if constant := re.search(r'@fcdp_manifest\("([^"]*)"\)', text):
    text = re.sub(r"\\([0-9A-F]{2})", lambda code: chr(int(code[1], 16)), constant[1])
    text = text.replace("\\\\", "\\").rstrip("\n\0")
manifest = json.loads(text)
stated = manifest.pop("hash")
blank = text.replace(stated, "0" * 40, 1)
assert blank.startswith('{"hash":"' + "0" * 40 + '"'), "the hash is not the first key"
assert hashlib.sha1(blank.encode()).hexdigest() == stated, "the hash is wrong"
for key, value in manifest.items():
    if isinstance(value, list) and value and isinstance(value[0], dict):
        for index, entry in enumerate(value):
            print(f"{key}[{index}]", json.dumps(entry))
    else:
        print(key, json.dumps(value))
