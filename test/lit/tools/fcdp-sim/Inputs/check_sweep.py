# SPDX-License-Identifier: Apache-2.0
"""Compares a point of a sweep with a run of its own. Usage: check_sweep.py SWEEP REPORT"""

import json
import sys

with open(sys.argv[1]) as file:
    points = json.load(file)["sweep"]["points"]
with open(sys.argv[2]) as file:
    (report,) = json.load(file)["steps"]
assert [(point["nodes"], point["micro_batches"]) for point in points] == [(2, 1), (2, 3), (4, 1), (4, 3)]
point = points[-1]
assert point["seconds"] == report["seconds"]
assert point["tokens_per_second"] == report["tokens"]["per_second"]
assert point["mfu"] == report["flops"]["mfu"]
assert point["device_bytes"] == report["device_memory"]["bytes"]
assert point["host_bytes"] == report["host_memory"]["bytes"]
assert point["fits"] == (report["device_memory"]["fits"] and report["host_memory"]["fits"])
exposed = report["exposed"]
assert point["exposed_inter"] == exposed.get("inter_gather", 0) + exposed.get("inter_reduce", 0)
