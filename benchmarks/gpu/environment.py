#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints what a machine with a GPU is: driver, versions, processors, memory, links and limits.

No names or addresses.
"""

import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import libraries  # noqa: E402

COMMANDS = [
    "nvidia-smi",
    "nvidia-smi topo -m",
    "nvidia-smi --query-gpu=name,compute_cap,pcie.link.gen.max,pcie.link.width.max,clocks.max.sm,clocks.max.mem,power.limit --format=csv",
    "uname -sr",
    "cat /proc/driver/nvidia/version",
    "lscpu",
    "free -g",
    "df -h / /tmp /dev/shm",
    "sh -c 'ulimit -a'",
    "cat /sys/kernel/mm/transparent_hugepage/enabled",
    "nvcc --version",
    "cmake --version",
    "ninja --version",
    "g++ --version",
    "compute-sanitizer --version",
    "sh -c 'ldconfig -p | grep -E \"libcuda|libnccl|libcudart\"'",
]


def show(command: str) -> None:
    print(f"$ {command}", flush=True)
    try:
        done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=20)
        print(done.stdout + done.stderr, flush=True)
    except subprocess.TimeoutExpired:
        print("did not end within 20 s", flush=True)


def main() -> None:
    for command in COMMANDS:
        show(command)
    for name in sorted(os.environ):
        if name.startswith(("CUDA", "NCCL", "NVIDIA", "TORCH", "LD_")):
            print(f"{name}={os.environ[name]}")
    for folder in libraries.folders():
        print(f"{folder}: {len(list(folder.glob('*.so*')))} libraries", flush=True)
    import torch

    print("torch", torch.__version__, "CUDA", torch.version.cuda, "NCCL", torch.cuda.nccl.version(), "cuDNN", torch.backends.cudnn.version())
    print(torch.cuda.get_device_properties(0), flush=True)


if __name__ == "__main__":
    main()
