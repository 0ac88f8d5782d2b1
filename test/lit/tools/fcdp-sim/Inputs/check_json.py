# SPDX-License-Identifier: Apache-2.0
"""Checks the values in fcdp-sim's JSON against the documented meaning of their keys."""

import json
import math
import sys

(report,) = json.load(sys.stdin)["steps"]
stream = sum(report["on_compute_stream"].values())
exposed = sum(report["exposed"].values())
assert math.isclose(stream + exposed + report["bubble"], report["seconds"], rel_tol=1e-9)
assert report["low"] < report["seconds"] < report["high"]
# A range is the spread of the inputs and that of the model, which is 0.11 if it is not given.
effects = [[math.log(seconds / report["seconds"]) for seconds in pair] for pair in report["scenarios"].values()]
high = 1.2816 * math.hypot(0.11, *(max(0, *pair) for pair in effects))
assert math.isclose(report["high"], report["seconds"] * math.exp(high), rel_tol=1e-9)
planning = [report["scenarios"][name] for name in ("products", "inter", "intra", "copies") if name in report["scenarios"]]
mean = report["seconds"] + sum(sum(pair) / 2 - report["seconds"] for pair in planning)
assert "inter" in report["scenarios"] and math.isclose(report["mean"], mean, rel_tol=1e-9)
assert "compared" not in report
assert max(report["bounds"].values()) <= report["seconds"]
tokens = report["tokens"]
world = report["nodes"] * report["ranks_per_node"]
assert tokens["per_step"] == tokens["per_micro_batch"] * world * report["micro_batches"]
assert math.isclose(tokens["per_second"] * report["seconds"], tokens["per_step"])
assert 0 < report["flops"]["mfu"] == report["flops"]["hfu"] < 1
for memory in report["device_memory"], report["host_memory"]:
    assert sum(memory["in_use"].values()) <= memory["bytes"]
    assert memory["fits"] == (memory["bytes"] <= memory["capacity"])
device = report["device_memory"]
assert device["bytes"] == device["arena"] + device["inputs"]
assert device["reserved"] == {}
assert device["at"]["line"] > 0 and device["at"]["function"].endswith("_microbatch")
assert sum(bucket["bytes"] for bucket in report["buckets"]) == report["storage"]["bytes"]
for bucket in report["buckets"]:
    seconds = {name: choice["seconds"] for name, choice in bucket["choices"].items()}
    assert seconds["full"] == 0 < seconds["node"] < seconds["host"] < seconds["drop"]
    assert bucket["residency"] == "host" and "strategy fcdp" in bucket["why"]
print(report["bytes"]["step"])
