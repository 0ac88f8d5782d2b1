#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures single operations on a GPU: what a description of a cluster has, and what it leaves out. Prints a line each.

Times are medians. Rates are in floating-point operations or bytes per second; copies count the bytes that arrive.
"""

import json
import statistics
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

HOST_BYTES = 20_000_000_000
COPY_BYTES = 1 << 30
LAUNCHES = 2000


def say(name: str, **values: float) -> None:
    print(json.dumps({"name": name, **values}), flush=True)


def seconds_of(work: Callable[[], object], repeats: int = 10) -> float:
    """Returns the median of the device's seconds, by events. The first call, which chooses kernels, is not counted."""
    work()
    times = []
    for _ in range(repeats):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        work()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / 1e3)
    return statistics.median(times)


def products() -> None:
    shapes = [(8192, 8192, 8192), (8192, 2048, 2048), (8192, 5632, 2048), (8192, 2048, 5632), (8192, 32000, 2048)]
    for dtype in (torch.bfloat16, torch.float32):
        for m, n, k in shapes if dtype == torch.bfloat16 else shapes[:2]:
            a, b = (torch.randn(shape, device="cuda").to(dtype) for shape in ((m, k), (k, n)))
            seconds = seconds_of(lambda a=a, b=b: a @ b)
            say(f"product {m}x{n}x{k} {dtype}", seconds=seconds, flops=2 * m * n * k / seconds)


def products_in_graphs() -> None:
    """Products one after the other, as launches and as a graph: a graph may have nodes that a launch has not."""
    for m, n, k, transposed in ((8192, 2048, 5632, False), (5632, 2048, 8192, True), (2048, 2048, 8192, True)):
        a = torch.randn((k, m) if transposed else (m, k), device="cuda", dtype=torch.bfloat16)
        a, b = a.t() if transposed else a, torch.randn(k, n, device="cuda", dtype=torch.bfloat16)
        out = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)

        def work(a: torch.Tensor = a, b: torch.Tensor = b, out: torch.Tensor = out) -> None:
            for _ in range(50):
                torch.mm(a, b, out=out)

        launched = seconds_of(work) / 50
        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.graph(graph, stream=stream):
            work()
        say(f"product {m}x{n}x{k}{' of a transposed' if transposed else ''}", seconds=launched, in_graph=seconds_of(graph.replay) / 50)


def attention() -> None:
    """Causal attention of 4 x 32 heads of 64 over 2,048 tokens, and of 2 x 32 heads of 128."""
    for batch, head in ((4, 64), (2, 128)):
        q, k, v = (torch.randn(batch, 32, 2048, head, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
        gradient = torch.randn_like(q)
        for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION, SDPBackend.EFFICIENT_ATTENTION):
            try:
                with sdpa_kernel(backend):
                    forward = seconds_of(lambda q=q, k=k, v=v: F.scaled_dot_product_attention(q, k, v, is_causal=True))
                    out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
                    backward = seconds_of(lambda out=out, g=gradient, i=(q, k, v): torch.autograd.grad(out, i, g, retain_graph=True))
                say(f"attention {batch}x32x2048x{head} {backend.name}", forward_seconds=forward, backward_seconds=backward)
            except RuntimeError as error:
                print(f"attention {backend.name}: {str(error).splitlines()[0]}", flush=True)


def grouped_attention() -> None:
    """Attention of 32 query heads over 4 key heads, as cuDNN has it, against 32 key heads that are copies."""
    q = torch.randn(4, 32, 2048, 64, device="cuda", dtype=torch.bfloat16)
    k, v = (torch.randn(4, 4, 2048, 64, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    cudnn = torch.ops.aten._scaled_dot_product_cudnn_attention

    def forward(k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return cudnn(q, k, v, None, True, 0.0, True)[0]

    grouped, apart = forward(k, v), forward(k.repeat_interleave(8, 1), v.repeat_interleave(8, 1))
    difference = (grouped - apart).float().abs().max().item()
    say("cuDNN attention of groups", forward_seconds=seconds_of(lambda: forward(k, v)), difference=difference)
    results = cudnn(q, k, v, None, True, 0.0, True)
    print([(tuple(one.shape), str(one.dtype), str(one.device)) if isinstance(one, torch.Tensor) else one for one in results], flush=True)


def memory_bound() -> None:
    x = torch.randn(8192, 2048, device="cuda", dtype=torch.bfloat16)
    weight = torch.ones(2048, device="cuda", dtype=torch.bfloat16)
    say("rms_norm 8192x2048, fused", seconds=seconds_of(lambda: torch.rms_norm(x, (2048,), weight)))
    say("layer_norm 8192x2048", seconds=seconds_of(lambda: F.layer_norm(x, (2048,), weight, weight)))
    big = torch.randn(1 << 29, device="cuda", dtype=torch.bfloat16)
    out = torch.empty_like(big)
    seconds = seconds_of(lambda: out.copy_(big))
    say("copy on the device of 1 GiB", seconds=seconds, bytes_per_s=2 * big.nbytes / seconds)
    seconds = seconds_of(lambda: torch.add(big, big, out=out))
    say("addition of 1 GiB", seconds=seconds, bytes_per_s=2 * big.nbytes / seconds)
    logits = torch.randn(8192, 32000, device="cuda")
    say("log_softmax 8192x32000 f32", seconds=seconds_of(lambda: torch.log_softmax(logits, -1)))


def launches() -> None:
    """Returns the host's time of an operation, and the device's between two small kernels."""
    x = torch.zeros(1, device="cuda")
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(LAUNCHES):
        x.add_(1)
    host = time.perf_counter() - begin
    torch.cuda.synchronize()
    say("launch of add_", host_seconds=host / LAUNCHES, seconds=(time.perf_counter() - begin) / LAUNCHES)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for _ in range(LAUNCHES):
                x.add_(1)
    say("add_ in a graph", seconds=seconds_of(graph.replay) / LAUNCHES)


def copies() -> None:
    host, back = (torch.empty(COPY_BYTES, dtype=torch.uint8, pin_memory=True) for _ in range(2))
    device, other = (torch.empty(COPY_BYTES, dtype=torch.uint8, device="cuda") for _ in range(2))
    to_device, to_host = torch.cuda.Stream(), torch.cuda.Stream()

    def down() -> None:
        device.copy_(host, non_blocking=True)

    def up() -> None:
        back.copy_(other, non_blocking=True)

    def both() -> None:
        for stream in (to_device, to_host):
            stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(to_device):
            down()
        with torch.cuda.stream(to_host):
            up()
        for stream in (to_device, to_host):
            torch.cuda.current_stream().wait_stream(stream)

    say("copy to the device", bytes_per_s=COPY_BYTES / seconds_of(down))
    say("copy to the host", bytes_per_s=COPY_BYTES / seconds_of(up))
    say("copies both ways, each", bytes_per_s=COPY_BYTES / seconds_of(both))


def registration() -> None:
    begin = time.perf_counter()
    memory = torch.zeros(HOST_BYTES, dtype=torch.uint8)
    zeroed = time.perf_counter() - begin
    begin = time.perf_counter()
    status = torch.cuda.cudart().cudaHostRegister(memory.data_ptr(), memory.numel(), 0)
    seconds = time.perf_counter() - begin
    say("cudaHostRegister of 20 GB", status=int(status), seconds=seconds, zeroing_seconds=zeroed, bytes_per_s=HOST_BYTES / seconds)
    if int(status) == 0:
        begin = time.perf_counter()
        torch.cuda.cudart().cudaHostUnregister(memory.data_ptr())
        say("cudaHostUnregister of 20 GB", seconds=time.perf_counter() - begin)


if __name__ == "__main__":
    for part in (products, products_in_graphs, attention, grouped_attention, memory_bound, launches, copies, registration):
        try:
            part()
        except RuntimeError as error:
            print(f"{part.__name__}: {error}", flush=True)
