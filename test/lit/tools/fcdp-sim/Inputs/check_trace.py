# SPDX-License-Identifier: Apache-2.0
"""Checks a trace against the report of the same step. Usage: check_trace.py TRACE REPORT"""

import collections
import json
import math
import sys

with open(sys.argv[1]) as file:
    events = json.load(file)["traceEvents"]
with open(sys.argv[2]) as file:
    (report,) = json.load(file)["steps"]

names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
spans = collections.defaultdict(list)
busy = collections.Counter()
stream = collections.Counter()
for event in events:
    if event["ph"] != "X":
        continue
    assert event["ts"] >= 0 and event["dur"] > 0
    activity = event["cat"].replace(" ", "_")
    spans[event["tid"]].append((event["ts"], event["dur"]))
    busy[activity] += event["dur"] / 1e6
    if names[event["tid"]] == "compute":
        stream[activity] += event["dur"] / 1e6
# Spans of a stream follow each other.
for thread in spans.values():
    thread.sort()
    for (begin, seconds), (after, _) in zip(thread, thread[1:]):
        assert begin + seconds <= after * (1 + 1e-12) + 1e-9
for sums, printed in (busy, report["busy"]), (stream, report["on_compute_stream"]):
    assert sums.keys() == printed.keys()
    for activity, seconds in sums.items():
        assert math.isclose(seconds, printed[activity], rel_tol=1e-6)

instants = {event["name"]: event["ts"] / 1e6 for event in events if event["ph"] == "i"}
assert math.isclose(instants["update ends"] - instants["step begins"], report["seconds"], rel_tol=1e-9)
counters = [event for event in events if event["ph"] == "C"]
assert [event["ts"] for event in counters] == sorted(event["ts"] for event in counters)
assert max(sum(event["args"].values()) for event in counters) == sum(report["device_memory"]["in_use"].values())
for thread in sorted(spans, key=names.get):
    labels = {event["name"] for event in events if event["ph"] == "X" and event["tid"] == thread}
    print(f"{names[thread]}: {', '.join(sorted(labels))}")
product = next(event for event in events if event["name"] == "aten.mm.default")
print(product["name"], product["args"])
