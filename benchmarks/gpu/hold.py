#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Takes the GPU's memory but for the given number of bytes, and keeps it until standard input ends."""

import sys

import torch

if __name__ == "__main__":
    leave = int(sys.argv[1])
    torch.zeros(1, device="cuda")  # has the context made, which takes memory too
    free, _ = torch.cuda.mem_get_info()
    if free <= leave:
        sys.exit(f"hold: error: expected more than {leave} free bytes, got {free}")
    held = torch.empty(free - leave, dtype=torch.uint8, device="cuda")
    print(held.numel(), flush=True)
    sys.stdin.read()
