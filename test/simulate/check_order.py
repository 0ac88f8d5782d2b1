# SPDX-License-Identifier: Apache-2.0
"""Checks properties of every function of a scheduled or planned module, read
from standard input, that any order of issue must have."""

import re
import sys

from ir import Module

GATHERS, REDUCTIONS = ("inter", "intra"), ("inter_reduce", "intra_reduce")
STREAMS = ("compute", *GATHERS, *REDUCTIONS, "d2h", "h2d")
COMMUNICATION = {"fcdp.all_gather", "fcdp.reduce_scatter", "fcdp.cache_load", "fcdp.cache_store"}
BUFFERED = {"fcdp.all_gather", "fcdp.cache_load", "fcdp.cast_shard", "fcdp.pack", "fcdp.reduce_scatter"}
# Operators of the tests whose results are new memory.
FRESH = {"embedding", "mm", "addmm", "add", "mul", "neg", "abs", "sum", "ones_like", "embedding_dense_backward", "cat",
         "_to_copy", "clone"}


def check(condition, what, op):
    if not condition:
        sys.exit(f"{what}: {op.name} {op.results} {op.operands} {op.attrs}")


def stream_of(op):
    return op.attrs.get("stream", "compute")


def may_alias(op):
    if op.name == "aten.call":
        return op.attrs["callee"].split(".")[1] not in FRESH
    return op.name == "fcdp.view_member"


def check_function(body, arguments):
    """`known[s]` holds what stream s has waited for, by position; `arguments` are the tokens that the function
    takes."""
    producer = {value: i for i, op in enumerate(body) for value in op.results}
    known = {s: set() for s in STREAMS}
    at_record, order = dict.fromkeys(arguments, set()), {s: [] for s in known}
    reductions, released = [], {}
    for i, op in enumerate(body):
        stream = stream_of(op)
        if op.name == "fcdp.record":
            at_record[op.result()] = known[stream] | set(order[stream])
            continue
        if op.name == "fcdp.wait":
            if op.operands[0] not in arguments:
                recorded_on = stream_of(body[producer[op.operands[0]]])
                check(not (stream in GATHERS and recorded_on in REDUCTIONS), "a gather waits for a reduction", op)
            known[stream] |= at_record[op.operands[0]]
            continue
        if op.name == "fcdp.release":
            value = op.operands[0]
            check(value not in released, "released twice", op)
            released[value] = i
            for j in users(body, value) | {producer[value]}:
                check(j < i, "released before its last use", op)
                if body[j].name != "fcdp.release":
                    check(j in known[stream] | set(order[stream]), f"released before its stream waited for position {j}", op)
            continue
        for value in op.operands:
            source = body[producer[value]]
            if source.name in BUFFERED and stream_of(source) != stream:
                check(producer[value] in known[stream] or stream_of(source) == "compute" and
                      producer[value] in known[stream], f"{value} is read without a wait", op)
        if op.name in COMMUNICATION:
            check(stream != "compute", "communication on the compute stream", op)
            work = [j for j in order["compute"] if body[j].name not in ("fcdp.view_member",)
                    and not (body[j].name == "aten.call" and may_alias(body[j]))]
            check(set(work) <= known[stream], "does not wait for compute", op)
        if op.name == "fcdp.reduce_scatter":
            reductions.append(i)
            flying = [j for j in reductions if j not in known["compute"]]
            units = {re.match(r"bucket\.(\w*?)(_\d+)?(\.|$)", body[j].attrs["source"])[1] for j in flying}
            check(len(units) <= 2, "reductions of more than two units in flight", op)
        order[stream].append(i)
    late = {op.operands[0] for op in body if op.name == "fcdp.release" and stream_of(op) != "compute"}
    live_out = set().union(*(at_record[token] for token in body[-1].operands))
    for stream, positions in order.items():
        for j in positions:
            crosses = j in live_out and late & {*body[j].results, *body[j].operands}
            check(stream == "compute" or j in known["compute"] or crosses, "not joined at the end", body[j])
    for op in body:
        if op.name in BUFFERED:
            check(op.result() in released, "not released", op)
    for i, op in enumerate(body):
        if op.name == "fcdp.cache_store":
            check_store(body, i, released, producer)


def users(body, value):
    """Positions of all that use the value's memory."""
    found, values = set(), {value}
    for i, op in enumerate(body):
        if op.name != "fcdp.release" and values & set(op.operands):
            found.add(i)
            if may_alias(op):
                values |= set(op.results)
    return found


def check_store(body, i, released, producer):
    """Compute does not wait for the store of a slice before the whole that was
    gathered from it is released."""
    wholes = [op.result() for op in body if op.name == "fcdp.all_gather" and op.operands == body[i].operands]
    tokens = [body[i + 1].result()] if body[i + 1].name == "fcdp.record" else []
    for j, op in enumerate(body):
        if op.name == "fcdp.wait" and op.attrs["stream"] == "compute" and op.operands[0] in tokens:
            last = max([max(users(body, w)) for w in wholes], default=0)
            check(j > last, "compute waits for a store early", op)


def main():
    module = Module(sys.stdin.read())
    for name, body in module.functions.items():
        check_function(body, [token for token, _ in module.arguments[name]])
    print(f"{len(module.functions)} functions have the properties")


if __name__ == "__main__":
    main()
