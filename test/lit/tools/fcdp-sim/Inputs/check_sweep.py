# SPDX-License-Identifier: Apache-2.0
"""Compares the last point of a sweep with a run of its own. Usage: check_sweep.py REPORT <SWEEP"""

import json
import sys

points = json.load(sys.stdin)["sweep"]["points"]
with open(sys.argv[1]) as file:
    (report,) = json.load(file)["steps"]
print([(point["nodes"], point["micro_batches"]) for point in points])
point = points[-1]
assert point["strategy"] == report["strategy"]
assert point["seconds"] == report["seconds"]
assert point["tokens_per_second"] == report["tokens"]["per_second"]
assert (point["low"], point["high"]) == (report["low"], report["high"])
assert point["mfu"] == report["flops"]["mfu"]
assert point["device_bytes"] == report["device_memory"]["bytes"]
assert point["host_bytes"] == report["host_memory"]["bytes"]
needed = report["device_memory"]["bytes"] <= point["memory"] and report["host_memory"]["fits"]
assert point["fits"] == needed
exposed = report["exposed"]
assert point["exposed_inter"] == exposed.get("inter_gather", 0) + exposed.get("inter_reduce", 0)
