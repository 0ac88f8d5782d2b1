# SPDX-License-Identifier: Apache-2.0
"""Prints a module without the waits of a stream for others: drop_waits.py FILE OTHER[,OTHER] STREAM"""

import re
import sys
from pathlib import Path

path, others, stream = sys.argv[1:]
recorded: dict[str, str] = {}
inside, dropped = False, 0
for line in Path(path).read_text().splitlines():
    if found := re.search(r"func\.func @(\w+)", line):
        inside = found[1] == "only_microbatch"
        recorded = {}
    if found := re.search(r"(%\S+) = fcdp\.record on (\w+)", line):
        recorded[found[1]] = found[2]
    wait = re.search(rf"fcdp\.wait (%\S+) on {stream}$", line.rstrip())
    if inside and wait and recorded.get(wait[1]) in others.split(","):
        dropped += 1
        continue
    print(line)
if not dropped:
    sys.exit("drop_waits.py: error: there is no such wait")
