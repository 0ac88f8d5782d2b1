# SPDX-License-Identifier: Apache-2.0
"""Prints a manifest from the standard input, an entry a line, after checking its hash."""

import hashlib
import json
import sys

text = sys.stdin.read().rstrip("\n")
manifest = json.loads(text)
stated = manifest.pop("hash")
blank = text.replace(stated, "0" * 64, 1)
assert blank.startswith('{"hash":"' + "0" * 64 + '"'), "the hash is not the first key"
assert hashlib.sha256(blank.encode()).hexdigest() == stated, "the hash is wrong"
for key, value in manifest.items():
    if isinstance(value, list) and value and isinstance(value[0], dict):
        for index, entry in enumerate(value):
            print(f"{key}[{index}]", json.dumps(entry))
    else:
        print(key, json.dumps(value))
