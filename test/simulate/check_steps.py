# SPDX-License-Identifier: Apache-2.0
"""Checks that compiled steps give what the imported step gives.

The imported step runs plainly for every rank and micro-batch, on data of its
own; gradients are summed in the canonical order. The compiled module runs on
simulated ranks under several policies. Losses, summed gradients and updated
parameters must agree bit for bit over two steps.
"""

import argparse
import itertools
import math
import shlex
import subprocess
import sys
import warnings

import numpy as np

from ir import Module, shape_of
from machine import Machine, Mismatch, sum_in_order, update, update_outer
from streams import Deadlock, policies
from tensors import bytes_of, call, message_bytes, round_to, rounded_to_few, widen

STEPS = 2
OUTER_STEPS = 5  # some rounds of outer steps
LR = 0.5


def noise(type_text, generator, limit=None):
    shape, element = shape_of(type_text)
    if element == "i64":
        return generator.integers(0, limit, shape)
    return round_to(generator.standard_normal(shape), element).reshape(shape)


class Reference:
    """The imported step, run plainly."""

    def __init__(self, text, nodes, locals_, micro_batches, accumulation, master="model", reduce="model", owners=None,
                 steps=STEPS):
        self.module = Module(text)
        self.N, self.g, self.K, self.accumulation = nodes, locals_, micro_batches, accumulation
        generator = np.random.default_rng(7)
        parameters = self.module.of("parameter")
        self.weights = {n: noise(p["type"], generator) for n, p in parameters.items()}
        self.inputs = [[[{n: noise(i["type"], generator, i.get("limit")) for n, i in self.module.of("input").items()}
                         for _ in range(self.N * self.g)] for _ in range(self.K)] for _ in range(steps)]
        self.steps = steps
        self.losses, self.gradients, self.after = [], [], []
        elements = {n: shape_of(p["type"])[1] for n, p in parameters.items()}
        self.masters = {n: widen(self.weights[n], element).astype(np.float32) for n, element in elements.items()
                        if master == "f32" and element in ("bf16", "f16") and parameters[n].get("trainable")}
        self.masters_after = []
        self.reduce = reduce
        # By parameter, the node that owns each element, if reductions leave something out of what others send to it.
        self.owners = owners or {}
        self.residuals = {n: [np.zeros(owner.shape, np.float32) for _ in range(self.N)] for n, owner in self.owners.items()}
        self.run_steps()

    def run_steps(self):
        weights = self.weights
        for step in range(self.steps):
            weights = self.run_step(step, weights)

    def groups(self, step):
        """Ranks that train together, with their gradients, and their parameters after the step."""
        yield range(self.N * self.g), self.gradients[step], self.after[step], self.masters_after[step]

    def outer_updates(self, step):
        """The outer updates that follow a step, in order."""
        return []

    def run_step(self, step, weights):
        made, elements = [], {}
        for k in range(self.K):
            made.append([])
            for rank in range(self.N * self.g):
                loss, (gradients, elements) = self.run_rank(weights, self.inputs[step][k][rank])
                self.losses.append((step, k, rank, loss))
                made[-1].append(gradients)
        total = {name: self.sum([[self.packed(values[name], element) for values in ranks] for ranks in made],
                                self.reduced_in(element), name)
                 for name, element in elements.items()}
        self.gradients.append(total)
        scale = np.float32(1 / (self.N * self.g * self.K))
        weights = dict(weights)
        for name, gradient in total.items():
            element = shape_of(self.module.of("parameter")[name]["type"])[1]
            if name in self.masters:
                self.masters[name] = update(self.masters[name], gradient, scale, LR, "f32")
                weights[name] = round_to(self.masters[name], element)
            else:
                weights[name] = update(weights[name], gradient, scale, LR, element)
        self.after.append(weights)
        self.masters_after.append(dict(self.masters))
        return weights

    def reduced_in(self, element):
        return element if self.reduce == "model" else self.reduce

    def packed(self, gradient, element):
        to = self.reduced_in(element)
        return gradient if element == to else round_to(widen(gradient, element), to)

    def sent(self, nodes, element, name):
        """Returns the values that the owner of each element gets from the nodes."""
        if name not in self.owners:
            return nodes
        received = []
        for node, (values, residual) in enumerate(zip(nodes, self.residuals[name])):
            wanted = values + residual
            few = widen(round_to(rounded_to_few(wanted), element), element).astype(np.float32)
            is_own = self.owners[name] == node
            residual[...] = np.where(is_own, 0, wanted - few)
            received.append(np.where(is_own, values, few).astype(np.float32))
        return received

    def sum(self, values, element, name):
        """Returns the sum of values[k][rank] in the order of the accumulation mode. A sum in f32 that is reduced
        further is rounded then: the wire has the type of the reduction."""
        values = [[widen(v, element).astype(np.float32) for v in ranks] for ranks in values]

        def rounded(sums):
            return [widen(round_to(x, element), element).astype(np.float32) for x in sums]

        def within_nodes(ranks):
            return [sum_in_order(ranks[n * self.g:(n + 1) * self.g]) for n in range(self.N)]

        def reduce(ranks):
            nodes = within_nodes(ranks)
            return sum_in_order(self.sent(rounded(nodes) if self.N > 1 and self.g > 1 else nodes, element, name))

        if self.accumulation == "full" and self.K > 1:
            return reduce(rounded([sum_in_order(list(ks)) for ks in zip(*values)]))
        if self.accumulation in ("node", "node_host") and self.K > 1 and self.N > 1:
            nodes = [sum_in_order(list(ks)) for ks in zip(*map(within_nodes, values))]
            return sum_in_order(self.sent(rounded(nodes), element, name))
        return sum_in_order([reduce(ranks) for ranks in values])

    def run_rank(self, weights, inputs):
        env, gradients, elements, loss = {}, {}, {}, None
        for op in self.module.functions["step"]:
            if op.name == "fcdp.read_parameter":
                env[op.result()] = weights[op.attrs["source"]]
            elif op.name == "fcdp.read_input":
                env[op.result()] = inputs[op.attrs["source"]]
            elif op.name == "aten.call":
                env.update(zip(op.results, call(op, env.__getitem__)))
            elif op.name == "fcdp.loss":
                loss = env[op.operands[0]].tobytes()
            elif op.name == "fcdp.gradient":
                gradients[op.attrs["parameter"]] = env[op.operands[0]]
                elements[op.attrs["parameter"]] = shape_of(op.operand_types[0])[1]
        return loss, (gradients, elements)


class OuterReference(Reference):
    """The same with outer steps: each node trains by itself, on the data of its ranks. `module` says how they are
    synchronized."""

    def __init__(self, text, module, nodes, locals_, micro_batches, accumulation, master="model", reduce="model",
                 steps=OUTER_STEPS):
        self.settings = module.attrs["fcdp.outer"]
        self.fragments = {parameter: bucket["outer"] for bucket in module.of("bucket").values() if "outer" in bucket
                          for parameter, _ in bucket["members"]}
        self.types = {op.attrs["source"]: shape_of(op.result_types[0])[1] for body in module.functions.values()
                      for op in body if op.name == "fcdp.outer_difference"}
        self.sent_in = {parameter: self.types[name] for name, bucket in module.of("bucket").items() if "outer" in bucket
                        for parameter, _ in bucket["members"]}
        self.nodes = [Reference(text, 1, locals_, micro_batches, accumulation, master, reduce, steps=0)
                      for _ in range(nodes)]
        super().__init__(text, nodes, locals_, micro_batches, accumulation, master, reduce, owners_of(module), steps)

    def run_steps(self):
        parameters = self.module.of("parameter")
        self.elements = {name: shape_of(parameters[name]["type"])[1] for name in self.fragments}
        self.outer = {name: widen(self.weights[name], element).astype(np.float32) for name, element in self.elements.items()}
        has_momentum = self.settings["momentum"] != 0
        self.momenta = {name: np.zeros_like(values) if has_momentum else None for name, values in self.outer.items()}
        self.behind = []
        for n, node in enumerate(self.nodes):
            node.inputs = [[ranks[n * self.g:(n + 1) * self.g] for ranks in batches] for batches in self.inputs]
        weights = [node.weights for node in self.nodes]
        for step in range(self.steps):
            weights = [node.run_step(step, values) for node, values in zip(self.nodes, weights)]
            due = self.due(step)
            for name in self.fragments:
                if self.fragments[name] in due:
                    self.synchronize(name, weights)
            self.behind.append([(dict(values), dict(node.masters)) for node, values in zip(self.nodes, weights)])
        self.losses = [(step, k, n * self.g + rank, loss) for n, node in enumerate(self.nodes)
                       for step, k, rank, loss in node.losses]

    def due(self, step):
        """The fragments that are synchronized after a step, which are counted from 1 on for that."""
        every, count = self.settings["every"], self.settings["fragments"]
        since = {p: step + 1 - p * every // count for p in range(count)}
        return [p for p, steps in since.items() if steps >= 0 and steps % every == 0]

    def outer_updates(self, step):
        several = self.settings["fragments"] > 1
        return [f"outer_update.{p}" if several else "outer_update" for p in self.due(step)]

    def synchronize(self, name, weights):
        element, sent_in = self.elements[name], self.sent_in[name]

        def on_the_wire(values):
            return widen(round_to(values, sent_in), sent_in).astype(np.float32)

        own = [node.masters.get(name, widen(values[name], element)) for node, values in zip(self.nodes, weights)]
        differences = [on_the_wire(self.outer[name] - values.astype(np.float32)) for values in own]
        total = on_the_wire(sum_in_order(self.sent(differences, sent_in, name)))
        self.outer[name] = update_outer(self.outer[name], self.momenta[name], total, 1 / self.N, self.settings)
        for n, node in enumerate(self.nodes):
            weights[n] = dict(weights[n], **{name: round_to(self.outer[name], element)})
            if name in node.masters:
                node.masters[name] = self.outer[name]

    def groups(self, step):
        for n, node in enumerate(self.nodes):
            yield self.ranks_of(n), node.gradients[step], node.after[step], node.masters_after[step]

    def groups_behind(self, step):
        """The same after the outer updates that follow the step, which need no gradients."""
        for n, (weights, masters) in enumerate(self.behind[step]):
            yield self.ranks_of(n), None, weights, masters

    def ranks_of(self, node):
        return range(node * self.g, (node + 1) * self.g)


def roles(micro_batches):
    if micro_batches == 1:
        return ["only_microbatch"]
    return ["first_microbatch", *["next_microbatch"] * (micro_batches - 2), "last_microbatch"]


def owners_of(module):
    """By parameter whose reductions round, the node that owns each element."""
    mesh = next(iter(module.of("mesh").values()))
    shapes = {name: shape_of(p["type"])[0] for name, p in module.of("parameter").items()}
    found = {}
    for bucket in module.of("bucket").values():
        if bucket.get("reduce_wire") not in ("int8", "int4"):
            continue
        # A slice of each rank of a node has a part for each node.
        slice_ = bucket["elements"] // mesh["local"]
        owner = np.arange(bucket["elements"]) % slice_ // (slice_ // mesh["node"])
        for parameter, offset in bucket["members"]:
            shape = shapes[parameter]
            found[parameter] = owner[offset:offset + math.prod(shape)].reshape(shape)
    return found


def differ(what, expected, actual):
    if expected.tobytes() != np.ascontiguousarray(actual).tobytes():
        raise Mismatch(f"{what} differs:\nexpected {expected.reshape(-1)[:8]}\ngot      {actual.reshape(-1)[:8]}")


def compare_buckets(machine, call, reference, step, group):
    ranks, gradients, after, masters_after = group

    def whole(name, role):
        sharding = machine.module.of("bucket")[name]["sharding"]
        return machine.whole({r: call.after[r][name, role] for r in ranks}, sharding)

    for name, bucket in machine.module.of("bucket").items():
        padding = np.ones(bucket["elements"], bool)
        gradient = whole(name, "grad") if bucket.get("trainable") and gradients is not None else None
        shard = whole(name, "shard")
        master = whole(name, "master") if "master" in bucket else None
        for parameter, offset in bucket["members"]:
            expected = after[parameter].reshape(-1)
            padding[offset:offset + expected.size] = False
            differ(f"step {step}: {parameter}", expected, shard[offset:offset + expected.size])
            if gradient is not None:
                expected = gradients[parameter].reshape(-1)
                differ(f"step {step}: gradient of {parameter}", expected, gradient[offset:offset + expected.size])
            if (master is not None) != (parameter in masters_after):
                raise Mismatch(f"{parameter} has a master where none is expected, or none where one is")
            if master is not None:
                expected = masters_after[parameter].reshape(-1)
                differ(f"step {step}: master of {parameter}", expected, master[offset:offset + expected.size])
        if shard[padding].any():
            raise Mismatch(f"step {step}: padding of {name} is not zero")


def compare_parameters(machine, call, reference):
    """Before there are buckets: gradients only, of the first step."""
    for name, expected in reference.gradients[0].items():
        actual = machine.whole({r: gradients[name] for r, gradients in call.gradients.items()})[:expected.size]
        differ(f"gradient of {name}", expected.reshape(-1), actual)


def run(reference, module, policy):
    """Runs the steps and compares; raises Mismatch or Deadlock. Gives the bytes
    between nodes of each step."""
    machine = Machine(module, reference.weights)
    bucketed = bool(module.of("bucket")) or not module.of("parameter")
    nothing = [{}] * len(machine.ranks)
    steps = range(reference.steps if bucketed else 1)
    calls = [("init", nothing)]
    for step in steps:
        calls += [(role, reference.inputs[step][k]) for k, role in enumerate(roles(reference.K))]
        calls += [("update", nothing)] if bucketed else []
        calls += [(name, nothing) for name in reference.outer_updates(step)]
    done = machine.run(calls, policy)[1:]
    sent = []
    for step in steps:
        count = reference.K + bucketed
        outer = done[count:count + len(reference.outer_updates(step))]
        of_step, done = done[:count], done[count + len(outer):]
        losses = [(step, k, r, x) for k, call in enumerate(of_step) for r, x in call.losses.items()]
        if sorted(losses) != sorted(x for x in reference.losses if x[0] == step):
            raise Mismatch(f"step {step}: losses differ")
        if bucketed:
            for group in reference.groups(step):
                compare_buckets(machine, of_step[-1], reference, step, group)
            for group in reference.groups_behind(step) if outer else ():
                compare_buckets(machine, outer[-1], reference, step, group)
        else:
            compare_parameters(machine, of_step[-1], reference)
        sent.append(sum(call.bytes_between_nodes for call in of_step + outer) // machine.N)
    return machine, sent


def compile_step(opt, path, *options):
    command = [*opt, path, *options, "--mlir-print-op-generic"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return done.stdout


# The passes from the imported module to each stage at which it can be run.
STAGES = {
    "sharded-parameters": ["--fcdp-shard={shard}", "--fcdp-narrow-gathers"],
    "sharded-buckets": ["--fcdp-shard={shard}", "--fcdp-narrow-gathers", "--fcdp-bucket=sharding={sharding} {bucket}"],
    "sharded": ["--fcdp-shard={shard}", "--fcdp-narrow-gathers", "--fcdp-bucket=sharding={sharding} {bucket}",
                "--fcdp-decide=strategy={strategy} accumulate={accumulation} prefetch={prefetch} reductions={reductions} "
                "collectives={collectives}", "--fcdp-outer-steps=outer={outer}", "--fcdp-decide-wires=wire={wire} reduce-wire={reduce_wire}", "--fcdp-two-level",
                "--fcdp-accumulate", "--fcdp-cache", "--fcdp-code-wires"],
}
STAGES["scheduled"] = [*STAGES["sharded"], "--fcdp-prefetch", "--fcdp-prefetch-across", "--fcdp-delay-sums", "--fcdp-schedule"]
STAGES["planned"] = [*STAGES["scheduled"], "--fcdp-make-gradients-in-place", "--fcdp-plan-memory",
                     "--fcdp-verify-planned"]


SHARDING = {"ddp": "none", "hsdp": "node", "mics": "node"}
"""The sharding of strategies that do not shard states over all ranks."""


def passes(stage, strategy, accumulation, nodes, locals_, micro_batches, prefetch=1, remat="none", bucket="",
           reductions=2, collectives="two-level", wire="raw", reduce_wire="raw", outer="", wrap="unit"):
    shard = (f"nodes={nodes} ranks-per-node={locals_} micro-batches={micro_batches} "
             f"optimizer=sgd,lr={LR} wrap={wrap}")
    values = {"shard": shard, "strategy": strategy, "sharding": SHARDING.get(strategy, "world"),
              "accumulation": accumulation, "prefetch": prefetch, "bucket": bucket,
              "reductions": reductions, "collectives": collectives, "wire": wire, "reduce_wire": reduce_wire,
              "outer": outer}
    first = [f"--fcdp-decide-remat=remat={remat}", "--fcdp-remat"]
    return first + [option.format(**values) for option in STAGES[stage]]


def check_bytes(machine, sent, strategy, accumulation, collectives, reduce="model"):
    """Compares the bytes that leave a node in a step with the closed forms of the design. Flat collectives
    send as many times more as a node has ranks."""
    flat = machine.g if collectives == "flat" else 1
    gathers = flat if strategy in ("zero1", "zero2", "zero3", "ddp") else 1
    reductions = flat if accumulation in ("sharded", "full") else 1
    module, N, K = machine.module, machine.N, int(machine.module.attrs["fcdp.micro_batches"])
    function = module.functions[roles(K)[0]]
    uses = {}
    for op in function:
        if op.name == "fcdp.all_gather" and "range" in op.attrs and ("local" if machine.g > 1 else "node") in op.attrs["axes"]:
            uses.setdefault(op.attrs["source"], set()).add(op.attrs["range"])
        elif op.name == "fcdp.cache_load" and machine.g == 1:
            bucket = module.of("state")[op.attrs["source"]]["bucket"]
            uses.setdefault(bucket, set()).add(("load", op.result()))
    reduced = {op.attrs["bucket"]: shape_of(op.result_types[0])[1] for op in function if op.name == "fcdp.pack"}
    if reduce != "model" and set(reduced.values()) != {reduce}:
        raise Mismatch(f"gradients are reduced in {set(reduced.values())}, expected {reduce}")
    expected = 0
    for name, bucket in module.of("bucket").items():
        wg = bucket["elements"] * bytes_of(bucket["wire"])
        u = len(uses.get(name, ()))
        if strategy == "zero3":
            expected += K * u * wg * gathers
        elif bucket.get("trainable") and u and strategy not in SHARDING:
            expected += wg * gathers
        if name in reduced:
            # A reduced gradient is gathered again in f32 if nodes own the same part.
            sums = {"ddp": 4 * reductions, "hsdp": 4, "mics": 4}.get(strategy, 0)
            wr = bucket["elements"] * (bytes_of(reduced[name]) * reductions + sums)
            if (wire := bucket.get("reduce_wire", "raw")) in ("int8", "int4") and N > 1:
                parts = N * machine.g
                saved = bucket["elements"] * bytes_of(reduced[name]) - parts * message_bytes(wire, bucket["elements"] // parts)
                wr -= saved
            expected += (K if accumulation == "sharded" else 1) * wr
    if any(bytes_ != expected * (N - 1) // N for bytes_ in sent):
        raise Mismatch(f"{sent} bytes leave a node, expected {expected * (N - 1) // N}")


def check_outer_bytes(machine, sent, reference):
    """Between nodes only outer steps send something: each rank its part of the sums, and the sum of its own part."""
    for step, bytes_ in enumerate(sent):
        expected, due = 0, reference.due(step)
        for name, bucket in machine.module.of("bucket").items():
            if bucket.get("outer") not in due:
                continue
            part = bucket["elements"] // machine.g // machine.N
            width, wire = bytes_of(reference.types[name]), bucket.get("reduce_wire", "raw")
            reduced = message_bytes(wire, part) if wire in ("int8", "int4") else part * width
            expected += machine.g * (machine.N - 1) * (reduced + part * width)
        if bytes_ != expected:
            raise Mismatch(f"step {step}: {bytes_} bytes leave a node, expected {expected}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("module")
    parser.add_argument("--opt", type=shlex.split, default=["fcdp-opt"], help="fcdp-opt, with options")
    parser.add_argument("--meshes", default="1x1,1x2,2x1,2x2,3x2")
    parser.add_argument("--micro-batches", default="1,3")
    parser.add_argument("--strategies", default="zero3,fcdp")
    parser.add_argument("--prefetch", default="1", help="distance")
    parser.add_argument("--remat", default="none", help="operations that the backward pass computes again")
    parser.add_argument("--wrap", default="unit", help="which parameters are gathered together")
    parser.add_argument("--bucket", default="", help="options of --fcdp-bucket")
    parser.add_argument("--master", default="model", help="type in which the optimizer works")
    parser.add_argument("--reduce-dtype", default="model", help="type in which gradients are reduced")
    parser.add_argument("--collectives", default="two-level")
    parser.add_argument("--wire", default="raw", help="form in which gathers send values between nodes")
    parser.add_argument("--reduce-wire", default="raw", help="form in which reductions send values between nodes")
    parser.add_argument("--outer", default="", help="outer steps, as the compiler's option has them")
    parser.add_argument("--accumulations", default="sharded")
    parser.add_argument("--stages", default=",".join(STAGES))
    parser.add_argument("--random", type=int, default=2, help="random policies beside the fixed ones")
    parser.add_argument("--policies", type=int, help="how many of all policies each module runs under, in turn (default all)")
    parser.add_argument("--compile-only", action="store_true", help="compile all modules and run none")
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # noise is computed with
    plain = compile_step(args.opt, args.module)
    compiled = runs = 0
    bucket = f"{args.bucket} master={args.master} reduce-dtype={args.reduce_dtype}"
    turn = list(policies(args.random))
    for mesh, K in itertools.product(args.meshes.split(","), map(int, args.micro_batches.split(","))):
        nodes, locals_ = map(int, mesh.split("x"))
        references = {mode: Reference(plain, nodes, locals_, K, mode, args.master, args.reduce_dtype)
                      for mode in args.accumulations.split(",")}
        for stage, strategy, mode in itertools.product(args.stages.split(","), args.strategies.split(","), references):
            if stage in ("sharded-parameters", "sharded-buckets") and strategy != args.strategies.split(",")[0]:
                continue
            reference = references[mode]
            module = Module(compile_step(args.opt, args.module, *passes(stage, strategy, mode, nodes, locals_, K,
                                                                                   args.prefetch, args.remat, bucket,
                                                                                   collectives=args.collectives, wire=args.wire,
                                                                                   reduce_wire=args.reduce_wire,
                                                                                   outer=args.outer, wrap=args.wrap)))
            if args.outer:
                reference = OuterReference(plain, module, nodes, locals_, K, mode, args.master, args.reduce_dtype)
            elif args.reduce_wire in ("int8", "int4"):
                reference = Reference(plain, nodes, locals_, K, mode, args.master, args.reduce_dtype, owners_of(module))
            compiled += 1
            if args.compile_only:
                continue
            count = 1 if stage.startswith("sharded") else args.policies or len(turn)
            for policy in turn[:count]:
                try:
                    machine, sent = run(reference, module, policy)
                    if args.outer:
                        check_outer_bytes(machine, sent, reference)
                    elif stage in ("sharded", "scheduled", "planned"):
                        check_bytes(machine, sent, strategy, mode, args.collectives, args.reduce_dtype)
                except (Mismatch, Deadlock) as error:
                    sys.exit(f"{mesh}, {K} micro-batches, {strategy}, {mode}, {stage}, streams {policy.streams}: {error}")
                runs += 1
            turn = turn[count:] + turn[:count]
    print(f"{compiled} modules compiled" if args.compile_only else f"{runs} runs agree")


if __name__ == "__main__":
    main()
