# SPDX-License-Identifier: Apache-2.0
"""Checks the report of a step and of its trace, made by make_measured.py. Usage: check_measured.py REPORT"""

import json
import math
import sys

with open(sys.argv[1]) as file:
    predicted, measured = json.load(file)["steps"]
assert measured["seconds"] == predicted["seconds"]
assert measured["on_compute_stream"].keys() == predicted["on_compute_stream"].keys()
for activity, seconds in predicted["on_compute_stream"].items():
    assert math.isclose(measured["on_compute_stream"][activity], seconds, rel_tol=1e-6)
parts = [*measured["on_compute_stream"].values(), *measured["exposed"].values(), measured["bubble"]]
assert math.isclose(sum(parts), measured["seconds"], rel_tol=1e-6)
assert sum(measured["exposed"].values()) > 0
assert measured["bytes"]["step"] == {"inter": 1, "intra": 2, "h2d": 3, "d2h": 4}
assert measured["device_memory"]["bytes"] == predicted["device_memory"]["bytes"] + 1000
assert measured["host_memory"]["bytes"] == 5
seconds = measured["seconds"]
assert measured["ranks"] == {"count": 3, "shown": 1, "least": seconds / 4, "median": seconds / 2, "most": seconds}
assert "ranks" not in predicted
for key in ("strategy", "tokens", "flops", "buckets"):
    if key == "tokens":
        measured[key].pop("per_second"), predicted[key].pop("per_second")
    assert measured[key] == predicted[key], key
print(predicted["input"], "and", measured["input"])
