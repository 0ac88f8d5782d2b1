# SPDX-License-Identifier: Apache-2.0
"""Makes a trace as fcdp-run writes it of one that fcdp-sim has written. Usage: make_measured.py TRACE REPORT OUT

In the gaps of compute it waits for `inter`. Spans for which fcdp-run is not called are left out, as it leaves them out.
Rank 1 took longest and began 2 s after rank 0, whose spans have no duration.
"""

import json
import sys

with open(sys.argv[1]) as file:
    events = json.load(file)["traceEvents"]
with open(sys.argv[2]) as file:
    (report,) = json.load(file)["steps"]

begin = next(event["ts"] for event in events if event["name"] == "step begins")
spans = [event for event in events if event["ph"] == "X" and event["ts"] >= begin]
for span in spans:
    span["ts"] -= begin
compute = sorted((span for span in spans if span["tid"] == 0), key=lambda span: span["ts"])
time, waits = 0, []
for span in compute:
    if span["ts"] > time:
        arguments = {"function": span["args"]["function"], "for": "inter"}
        waits.append({"ph": "X", "pid": 0, "tid": 0, "name": "wait", "cat": "wait", "ts": time, "dur": span["ts"] - time, "args": arguments})
    time = span["ts"] + span["dur"]
figures = {
    "step": 3, "loss": None, "seconds": report["seconds"], "inter_bytes_sent": 1, "intra_bytes_sent": 2, "h2d_bytes": 3, "d2h_bytes": 4,
    "device_peak_bytes": report["device_memory"]["bytes"] + 1000, "host_cache_bytes": 5, "control_bytes": 0, "system_allocations": 0, "rank_seconds": [report["seconds"] / 2, report["seconds"], report["seconds"] / 4],
}  # fmt: skip
names = [event for event in events if event["ph"] == "M"]
spans.sort(key=lambda span: span["ts"])
other = [{**span, "dur": 0.0} for span in spans + waits]
for event in spans + waits:
    event.update(pid=1, ts=event["ts"] + 2e6)
begins = [{"ph": "i", "pid": 1, "tid": 0, "name": "step begins", "s": "p", "ts": 2e6}]
with open(sys.argv[3], "w") as file:
    lines = ",\n".join(json.dumps(event) for event in names + other + spans + waits + begins)
    file.write(f'{{"displayTimeUnit": "ms",\n"traceEvents": [\n{lines}],\n"otherData": {json.dumps(figures)}}}\n')
