# SPDX-License-Identifier: Apache-2.0
"""Prints the JSON of a plan from the standard input, an entry a line, with each operation as one object."""

import json
import sys

plan = json.load(sys.stdin)
for op in plan["ops"]:
    body, kind = op.pop("body"), op.pop("body_type")
    rest = dict(op)
    op.clear()
    op.update({"kind": kind, **rest, **body})
for key, value in plan.items():
    if isinstance(value, list) and value and isinstance(value[0], dict):
        for index, entry in enumerate(value):
            print(f"{key}[{index}]", json.dumps(entry))
    else:
        print(key, json.dumps(value))
