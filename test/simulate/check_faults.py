# SPDX-License-Identifier: Apache-2.0
"""Breaks a good module in one place at a time; every such module must differ
from the imported step under some policy, or stop.

Waits are dropped one by one, also those for the function before, releases
moved directly after the value's producer, buffers moved onto each other, and reductions left out or run over the wrong
axis.
"""

import argparse
import copy
import shlex
import sys
import warnings
from dataclasses import replace

from check_steps import Mismatch, Reference, compile_step, passes, run
from ir import Module, Op
from streams import Deadlock, policies


def drop_waits(function):
    for i, op in enumerate(function):
        if op.name == "fcdp.wait":
            record = next((o.attrs["stream"] for o in function if o.results == op.operands), "the function before")
            yield (f"wait {i} on {op.attrs['stream']} for {record}", function[:i] + function[i + 1:])


def drop_live_ins(function):
    """Waits for work that the function before has left in flight."""
    recorded = {value for op in function for value in op.results}
    for i, op in enumerate(function):
        if op.name == "fcdp.wait" and op.operands[0] not in recorded:
            yield f"wait {i} on {op.attrs['stream']} for the function before", function[:i] + function[i + 1:]


def move_releases(function):
    for i, op in enumerate(function):
        if op.name == "fcdp.release":
            producer = next(j for j, o in enumerate(function) if o.results == op.operands)
            moved = function[:i] + function[i + 1:]
            moved.insert(producer + 1, op)
            yield f"release {i} after {function[producer].name} {producer}", moved


def change(function, index, **attrs):
    op = function[index]
    return [*function[:index], replace(op, attrs={**op.attrs, **attrs}), *function[index + 1:]]


def break_reductions(function):
    for i, op in enumerate(function):
        if op.name == "fcdp.reduce_scatter":
            other = ["local" if op.attrs["axes"] == ["node"] else "node"]
            yield f"reduction {i} over {other}", change(function, i, axes=other)
        if op.name == "fcdp.all_gather" and "range" not in op.attrs:
            other = ["local" if op.attrs["axes"] == ["node"] else "node"]
            yield f"gather {i} of a gradient over {other}", change(function, i, axes=other)
        if op.name == "fcdp.accumulate":
            yield f"accumulate {i} left out", function[:i] + function[i + 1:]
        if op.name == "fcdp.add":
            for kept, other in (op.operands, op.operands[::-1]):
                yield f"addition {i} of {other} left out", [
                    *function[:i], Op("fcdp.cast_shard", op.results, [kept], op.attrs, op.operand_types[:1],
                                      op.result_types), *function[i + 1:]]


def drop_stores(function):
    for i, op in enumerate(function):
        if op.name == "fcdp.cache_store":
            yield f"store {i} to {op.attrs['target']} left out", function[:i] + function[i + 1:]


def move_buffers(function):
    """Each buffer takes the place of a gathered one that is live, no input of
    its. (Packs live on until a reduction is known to be done with them.)"""
    def index_of(value):
        return next(j for j, op in enumerate(function) if value in op.results)

    released = {index_of(op.operands[0]): i for i, op in enumerate(function) if op.name == "fcdp.release"}
    for i, op in enumerate(function):
        for j, other in enumerate(function[:i]):
            if "buffer" not in op.attrs or other.name != "fcdp.all_gather" or i > released[j]:
                continue
            if other.result() not in op.operands:
                offset = other.attrs["buffer"]["offset"]
                if offset != op.attrs["buffer"]["offset"]:
                    yield f"buffer of {op.name} {i} on {j}", change(
                        function, i, buffer=dict(op.attrs["buffer"], offset=offset))


KINDS = {"waits": drop_waits, "live-ins": drop_live_ins, "releases": move_releases, "reductions": break_reductions,
         "stores": drop_stores, "buffers": move_buffers}


def survives(reference, module, random_ones):
    for policy in policies(random_ones):
        try:
            run(reference, module, policy)
        except (Mismatch, Deadlock, AssertionError, KeyError, ValueError):
            return False
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("module")
    parser.add_argument("--opt", type=shlex.split, default=["fcdp-opt"], help="fcdp-opt, with options")
    parser.add_argument("--strategy", default="fcdp")
    parser.add_argument("--accumulation", default="sharded")
    parser.add_argument("--micro-batches", type=int, default=1)
    parser.add_argument("--mesh", default="2x2")
    # Work that is issued ahead waits for memory that may be unused.
    parser.add_argument("--prefetch", type=int, default=0, help="distance")
    parser.add_argument("--stage", default="planned")
    parser.add_argument("--without", help="a pass of the stage")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--random", type=int, default=6)
    parser.add_argument("--function", default="only_microbatch")
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # noise is computed with
    nodes, locals_ = map(int, args.mesh.split("x"))
    reference = Reference(compile_step(args.opt, args.module), nodes, locals_, args.micro_batches, args.accumulation)
    options = passes(args.stage, args.strategy, args.accumulation, nodes, locals_, args.micro_batches, args.prefetch,
                     # With several in flight, the last wait covers the others.
                     reductions=1)
    options = [option for option in options if option != args.without]
    good = Module(compile_step(args.opt, args.module, *options))
    if not survives(reference, good, args.random):
        sys.exit("the module as it is does not agree")
    for kind in args.kinds.split(","):
        found, missed = 0, []
        for what, function in KINDS[kind](good.functions[args.function]):
            bad = copy.copy(good)
            bad.functions = dict(good.functions, **{args.function: function})
            if survives(reference, bad, args.random):
                missed.append(what)
            else:
                found += 1
        print(f"{kind}: {found} found")
        for what in missed:
            print(f"{kind}: missed {what}")


if __name__ == "__main__":
    main()
