# SPDX-License-Identifier: Apache-2.0
"""Breaks plans of random steps in one place at a time, and changes others in ways that do no harm.

Whether a plan is broken is decided apart from the compiler: it has a race, or a value that is released too early, byte
by byte on some rank, or simulated ranks do not give what the imported step gives. `--fcdp-verify-plan` must refuse each
of those with a message and accept the harmless ones.
"""

import argparse
import bisect
import collections
import functools
import itertools
import multiprocessing
import os
import random
import re
import shlex
import subprocess
import sys
import tempfile
import warnings

from check_steps import Mismatch, OuterReference, Reference, owners_of, run
from ir import Module
from machine import Machine
from mutations import BREAKING, HARMLESS, STATED, Plan
from races import find_race
from random_steps import Step
from streams import Deadlock, Policy

OUTER_SHARE = 0.2
"""The part of the plans that have outer steps."""

# From the first function of the first step on, each pair of neighbours in legal runs.
CALLS = {
    1: ["init", "only_microbatch", "update", "only_microbatch", "update"],
    3: ["init", "first_microbatch", "next_microbatch", "next_microbatch", "last_microbatch", "update",
        "first_microbatch", "last_microbatch", "update"],
}


# The same with outer steps, of which one comes after every second step.
OUTER_STEPS = 3
OUTER_CALLS = {
    1: ["init", *["only_microbatch", "update"] * 2, "outer_update", "only_microbatch", "update"],
    3: ["init", *["first_microbatch", "next_microbatch", "next_microbatch", "last_microbatch", "update"] * 2, "outer_update",
        "first_microbatch", "last_microbatch", "update"],
}


# Streams go on from one function to the next, so its begin on one of them is nothing to the others.
Machine.do_begin = lambda *_: None


def opt(args, text, *options):
    done = subprocess.run([*args.opt, "-", *options], input=text, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{options}: {done.stderr[:2000]}\n{text}")
    return done.stdout


def make_plan(args, source):
    return make_outer_plan(args, source) if source.random() < OUTER_SHARE else make_synchronous_plan(args, source)


def make_outer_plan(args, source):
    nodes, locals_ = source.choice([(2, 2), (2, 2), (2, 1)])
    K, strategy = source.choice([1, 3]), source.choice(["hsdp", "mics"])
    mode = source.choice(["sharded", "full"]) if K > 1 else "sharded"
    settings = (f"2,wire={source.choice(['raw', 'int8'])},dtype={source.choice(['bf16', 'f32'])},"
                f"momentum={source.choice(['0', '0.9'])}")
    options = (f"nodes={nodes} ranks-per-node={locals_} strategy={strategy} accumulate={mode} micro-batches={K} "
               f"prefetch={source.randint(0, 2)} outer={settings} optimizer=sgd,lr=0.5")
    while "trainable" not in (text := Step(source).text()):
        pass
    imported = opt(args, text, "--mlir-print-op-generic")
    planned = opt(args, imported, f"--fcdp-pipeline={options}", "--mlir-print-op-generic")
    module = Module(planned)
    reference = OuterReference(imported, module, nodes, locals_, K, mode, steps=OUTER_STEPS)
    return options, Plan(planned, module), reference, OUTER_CALLS[K]


def make_synchronous_plan(args, source):
    nodes, locals_ = source.choice([(2, 2), (2, 2), (2, 2), (1, 2), (2, 1)])
    K = source.choice([1, 3])
    strategy = source.choice(["zero1", "zero2", "zero3", "ddp", "hsdp", "hpz", "fcdp", "fcdp"])
    mode = source.choice(["sharded", "node", "node_host", "full"]) if K > 1 else "sharded"
    # Only what is kept in host memory may be gathered by differences.
    wire = source.choice(["raw", "delta", "delta"]) if strategy == "fcdp" and nodes > 1 else "raw"
    options = (f"nodes={nodes} ranks-per-node={locals_} strategy={strategy} accumulate={mode} micro-batches={K} "
               f"prefetch={source.randint(0, 2)} collectives={source.choice(['two-level', 'two-level', 'flat'])} "
               f"wire={wire} reduce-wire={source.choice(['raw', 'raw', 'int8'])} optimizer=sgd,lr=0.5")
    # Differences are of values of 16 bits.
    step = Step(source, narrow=0.75 if wire == "delta" else 0.25)
    imported = opt(args, step.text(), "--mlir-print-op-generic")
    planned = opt(args, imported, f"--fcdp-pipeline={options}", "--mlir-print-op-generic")
    module = Module(planned)
    reference = Reference(imported, nodes, locals_, K, mode, owners=owners_of(module))
    return options, Plan(planned, module), reference, CALLS[K]


def find_fault(plan, reference, calls):
    """Returns what is wrong with a plan, or nothing."""
    if fault := find_race(plan.module, calls):
        return fault
    try:
        run(reference, plan.module, Policy(1, ["inter", "intra", "inter_reduce", "intra_reduce", "d2h", "h2d", "compute"]))
    except (Mismatch, Deadlock, AssertionError, ValueError) as error:
        return f"{type(error).__name__} {error}"
    return ""


def judge_plan(args, number):
    """Mutants of one plan: tuples of a kind, what is wrong with the mutant, its text, and the messages of fcdp-opt."""
    warnings.simplefilter("ignore")  # noise is computed with
    source, mutants = random.Random(f"{args.seed} {number}"), []
    options, plan, reference, calls = make_plan(args, source)
    if fault := find_fault(plan, reference, calls):
        raise RuntimeError(f"{options}: the plan itself is broken: {fault}\n{plan.text()}")
    for kinds, count in ((BREAKING, args.breaking), (HARMLESS, args.harmless)):
        for _ in range(count):
            kind = source.choice(list(kinds))
            mutant = kinds[kind](plan, source)
            if mutant:
                fault = find_fault(mutant, reference, calls)
                # Not all that changes a plan breaks it, but then it may still not be what the plan says.
                if fault or kinds is HARMLESS or kind.startswith("a wait"):
                    mutants.append((f"{kind} ({options})", fault, mutant.text()))
    mutants += state_otherwise(args, source)
    refused = refuse(args, mutants)
    return [(*mutant, refused.get(i, [])) for i, mutant in enumerate(mutants)]


def state_otherwise(args, source):
    """Mutants of a plan with all that a plan can state: clipping, and an optimizer with a state."""
    options = f"nodes=2 ranks-per-node=2 strategy=fcdp micro-batches={source.choice([1, 3])} clip-norm=0.5 optimizer=sgd,momentum=0.9"
    imported = opt(args, Step(source).text(), "--mlir-print-op-generic")
    planned = opt(args, imported, f"--fcdp-pipeline={options}", "--mlir-print-op-generic")
    plan = Plan(planned, Module(planned))
    texts = {kind: mutate(plan, source) for kind, mutate in STATED.items()}
    return [(f"{kind} ({options})", "it states something else than it does", text) for kind, text in texts.items() if text]


def refuse(args, mutants):
    """Returns the messages of the mutants that fcdp-opt refuses, by index."""
    separator = "\n// -----\n"
    texts = [text for _, _, text in mutants]
    starts, line = [], 1
    for text in texts:
        starts.append(line)
        line += text.count("\n") + separator.count("\n")
    with tempfile.NamedTemporaryFile("w", suffix=".mlir") as file:
        file.write(separator.join(texts))
        file.flush()
        done = subprocess.run([*args.opt, file.name, "--split-input-file", "--fcdp-verify-plan", "-o", os.devnull],
                              capture_output=True, text=True)
    messages = collections.defaultdict(list)
    pattern = rf"(?:within split at )?{re.escape(file.name)}:(\d+)(?: offset :(\d+))?(?::\d+)?: error: (.*)"
    for begin, offset, what in re.findall(pattern, done.stderr):
        at = int(begin) + int(offset or 0)
        messages[bisect.bisect_right(starts, at) - 1].append(what)
    return messages


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--opt", type=shlex.split, default=["fcdp-opt"], help="fcdp-opt, with options")
    parser.add_argument("--plans", type=int, default=30)
    parser.add_argument("--breaking", type=int, default=46, help="tries per plan")
    parser.add_argument("--harmless", type=int, default=12, help="tries per plan")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", action="store_true", help="print messages, and how often each came")
    args = parser.parse_args()
    with multiprocessing.Pool() as pool:
        made = pool.map(functools.partial(judge_plan, args), range(args.plans), chunksize=1)
    counts, wrong, messages = collections.Counter(), [], collections.Counter()
    for kind, fault, text, refusals in itertools.chain.from_iterable(made):
        counts[bool(fault)] += 1
        if bool(fault) != bool(refusals):
            wrong.append((kind, fault, refusals, text))
        for what in refusals:
            messages[re.sub(r"'[^']*'|@[\w.]+|\d+", "_", what)] += 1
    if args.show:
        for what, count in messages.most_common():
            print(f"{count:6} {what}")
    for kind, fault, messages, text in wrong[:3]:
        print(f"{kind}: {f'accepted, but it is broken: {fault}' if fault else messages}\n{text}")
    for (kind, broken), count in collections.Counter((k.split(" (")[0], bool(f)) for k, f, _, _ in wrong).items():
        print(f"wrong about {kind}: {count} {'accepted' if broken else 'refused'}")
    print(f"{counts[True]} broken plans and {counts[False]} harmless changes, {len(wrong)} judged wrong")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
