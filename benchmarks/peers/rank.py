# SPDX-License-Identifier: Apache-2.0
"""One rank of a job of a peer. The argument is the job in JSON. Rank 0 writes the seconds and losses of all steps."""

import importlib
import json
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from steps import build


def main(job: dict[str, Any]) -> None:
    torch.set_num_threads(1)
    job["rank"] = int(os.environ["RANK"])
    # The only interface of a host beside the loopback device.
    os.environ["GLOO_SOCKET_IFNAME"] = job["interface"]
    arrays = [np.load(path, mmap_mode="r") for path in job["inputs"]]
    trainer = importlib.import_module(job["trainer"]).prepare(build(job["model"], job["vocabulary"], job["seed"]), job)
    losses, seconds = [], []
    dist.barrier()
    for step in range(job["steps"]):
        places = range(step * job["micro_batches"], (step + 1) * job["micro_batches"])
        batches = [_row(arrays, place * job["ranks"] + job["rank"]) for place in places]
        begin = time.perf_counter()
        losses.append(trainer.step(batches))
        seconds.append(time.perf_counter() - begin)
    mean = torch.stack(losses).float()
    dist.all_reduce(mean)
    if job["rank"] == 0:
        result = {"losses": (mean / job["ranks"]).tolist(), "seconds": seconds}
        Path(job["out"]).write_text(json.dumps(result))
    dist.barrier()


def _row(arrays: list[np.ndarray], row: int) -> list[torch.Tensor]:
    return [torch.from_numpy(array[row % len(array)].copy()) for array in arrays]


if __name__ == "__main__":
    status = 0
    try:
        main(json.loads(sys.argv[1]))
    except Exception:
        traceback.print_exc()
        status = 1
    sys.stderr.flush()
    # Threads of process groups sometimes end the process with an error while it ends, and after an error they wait.
    os._exit(status)
