# SPDX-License-Identifier: Apache-2.0
"""Makes seeds of plans: make_plan_seeds.py FOLDER JSON..., from what fcdp-compile --emit=plan-json prints.

Buffers lose their constants, because the fuzzer has none.
"""

import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

SCHEMA = Path(__file__).parents[2] / "runtime/plan/Plan.fbs"


def make_seed(source, folder):
    plan = json.loads(source.read_text())
    plan["constants_hash"] = hashlib.sha1(b"").hexdigest()
    for buffer in plan.get("buffers", []):
        buffer["persistent"] = True
        buffer.pop("constant_offset", None)
    with tempfile.TemporaryDirectory() as temporary:
        text = Path(temporary) / source.name
        text.write_text(json.dumps(plan))
        subprocess.run(["flatc", "--binary", "-o", folder, SCHEMA, text], check=True)


for name in sys.argv[2:]:
    make_seed(Path(name), sys.argv[1])
