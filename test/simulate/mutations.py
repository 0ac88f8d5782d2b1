# SPDX-License-Identifier: Apache-2.0
"""Changes a planned module in one place, at random: as text for fcdp-opt, and as operations for the simulation.

A mutation is a function of a plan and a source of randomness that gives a changed plan, or None where it finds nothing
to change."""

import copy
import re

STREAMS = ["compute", "inter", "intra", "d2h", "h2d", "inter_reduce", "intra_reduce"]
COLLECTIVES = {"fcdp.all_gather", "fcdp.reduce_scatter"}
ASYNC = COLLECTIVES | {"fcdp.cache_load", "fcdp.cache_store"}


class Plan:
    """The lines of a module in generic form; of each function also pairs of an operation and its line."""

    def __init__(self, text, module):
        self.module = module
        self.lines = text.rstrip().split("\n")
        self.bodies = {}
        for name, i in self.functions():
            operations = module.functions[name]
            self.bodies[name] = list(zip(operations, self.lines[i:i + len(operations)]))
            assert all(f'"{op.name}"' in text for op, text in self.bodies[name])
        self.original = self.bodies

    def functions(self):
        """Names, each with the first line of the body after the line of its arguments."""
        for i, line in enumerate(self.lines):
            if '"func.func"' in line:
                name = re.search(r'sym_name = "([\w.]+)"', line).group(1)
                yield name, i + 1 + self.lines[i + 1].lstrip().startswith("^bb0")

    def with_body(self, name, body):
        other = copy.copy(self)
        other.bodies = dict(self.bodies, **{name: body})
        other.module = copy.copy(self.module)
        other.module.functions = {n: [op for op, _ in b] for n, b in other.bodies.items()}
        return other

    def text(self):
        lines, done = [], 0
        for name, i in self.functions():
            lines += self.lines[done:i] + [line for _, line in self.bodies[name]]
            done = i + len(self.original[name])
        return "\n".join(lines + self.lines[done:])


def changed(pair, pattern, replacement, **attrs):
    op, line = pair
    op = copy.copy(op)
    op.attrs = dict(op.attrs, **attrs)
    return op, re.sub(pattern, replacement, line, count=1)


def pick(plan, random, suits):
    """A function's name, and the index of one of its operations."""
    places = [(name, i) for name, body in plan.bodies.items() for i, (op, _) in enumerate(body) if suits(op)]
    return random.choice(places) if places else (None, None)


def replaced(plan, name, i, *pairs):
    body = plan.bodies[name]
    return plan.with_body(name, body[:i] + list(pairs) + body[i + 1:])


# Mutations that may break a plan.


def drop(*names):
    def mutate(plan, random):
        name, i = pick(plan, random, lambda op: op.name in names)
        return name and replaced(plan, name, i)
    return mutate


def is_recorded(body, value):
    """Here, not by the function before."""
    return any(op.results == [value] for op, _ in body)


def drop_live_in(plan, random):
    """A wait for work that the function before has left in flight."""
    places = [(name, i) for name, body in plan.bodies.items() for i, (op, _) in enumerate(body)
              if op.name == "fcdp.wait" and not is_recorded(body, op.operands[0])]
    return replaced(plan, *random.choice(places)) if places else None


def repeat(*names):
    def mutate(plan, random):
        name, i = pick(plan, random, lambda op: op.name in names)
        return name and replaced(plan, name, i, plan.bodies[name][i], plan.bodies[name][i])
    return mutate


def advance_record(plan, random):
    """The record misses the last operation on its stream."""
    def suits(op):
        return op.name == "fcdp.record" and op.attrs["stream"] != "compute"
    name, i = pick(plan, random, suits)
    if not name:
        return None
    body = plan.bodies[name]
    last = [j for j in range(i) if body[j][0].attrs.get("stream") == body[i][0].attrs["stream"]]
    if not last:
        return None
    return plan.with_body(name, body[:last[-1]] + [body[i]] + body[last[-1]:i] + body[i + 1:])


def wait_elsewhere(plan, random):
    name, i = pick(plan, random, lambda op: op.name == "fcdp.wait")
    if not name:
        return None
    op, _ = pair = plan.bodies[name][i]
    recorded = next((o.attrs["stream"] for o, _ in plan.bodies[name] if o.results == op.operands), None)
    stream = random.choice([s for s in STREAMS if s not in (recorded, op.attrs["stream"])])
    return replaced(plan, name, i, changed(pair, r"#fcdp<stream \w+>", f"#fcdp<stream {stream}>", stream=stream))


def run_elsewhere(plan, random):
    name, i = pick(plan, random, lambda op: "stream" in op.attrs and op.name not in ("fcdp.record", "fcdp.wait"))
    if not name:
        return None
    stream = random.choice([s for s in STREAMS[1:] if s != plan.bodies[name][i][0].attrs["stream"]])
    pair = changed(plan.bodies[name][i], r"#fcdp<stream \w+>", f"#fcdp<stream {stream}>", stream=stream)
    return replaced(plan, name, i, pair)


def place(pair, key, offset):
    buffer = dict(pair[0].attrs[key], offset=offset)
    return changed(pair, key + r" = (#fcdp.buffer<arena = \w+, offset =) \d+", rf"{key} = \1 {offset}", **{key: buffer})


def move_buffer(plan, random):
    """On another buffer of its function, or on a state."""
    key = random.choice(["buffer", "buffer", "scratch"])
    name, i = pick(plan, random, lambda op: key in op.attrs)
    if not name:
        return None
    others = [op.attrs[k]["offset"] for op, _ in plan.bodies[name] for k in ("buffer", "scratch") if k in op.attrs]
    others += [s["buffer"]["offset"] for s in plan.module.of("state").values() if s["arena"] == "device"]
    pair = plan.bodies[name][i]
    others = [offset for offset in others if offset != pair[0].attrs[key]["offset"]]
    return replaced(plan, name, i, place(pair, key, random.choice(others))) if others else None


def change_mode(plan, random):
    name, i = pick(plan, random, lambda op: op.name == "fcdp.accumulate")
    if not name:
        return None
    mode = "add" if plan.bodies[name][i][0].attrs["mode"] == "overwrite" else "overwrite"
    pair = changed(plan.bodies[name][i], r"#fcdp<accumulate_mode \w+>", f"#fcdp<accumulate_mode {mode}>", mode=mode)
    return replaced(plan, name, i, pair)


def change_axis(plan, random):
    name, i = pick(plan, random, lambda op: op.name in COLLECTIVES)
    if not name:
        return None
    axis = "local" if plan.bodies[name][i][0].attrs["axes"] == ["node"] else "node"
    return replaced(plan, name, i, changed(plan.bodies[name][i], r"axes = \[[^]]*\]", f"axes = [#fcdp<axis {axis}>]",
                                           axes=[axis]))


def change_cache(plan, random):
    """A load from, or a store to, another bucket's cache."""
    caches = {n: s for n, s in plan.module.of("state").items() if s["arena"] == "host"}
    name, i = pick(plan, random, lambda op: op.name in ("fcdp.cache_load", "fcdp.cache_store"))
    if not name:
        return None
    pair = plan.bodies[name][i]
    key = "source" if pair[0].name == "fcdp.cache_load" else "target"
    own = pair[0].attrs[key]
    others = [n for n, s in caches.items() if n != own and s["type"] == caches[own]["type"]]
    if not others:
        return None
    other = random.choice(others)
    return replaced(plan, name, i, changed(pair, rf"{key} = @[\w.]+", f"{key} = @{other}", **{key: other}))


def change_reference(plan, random):
    """A coded gather that refers to another bucket's slice."""
    name, i = pick(plan, random, lambda op: "delta" in op.attrs)
    if not name:
        return None
    pair = plan.bodies[name][i]
    states, own = plan.module.of("state"), pair[0].attrs["delta"]
    others = [n for n, s in states.items() if n != own and s["type"] == states[own]["type"]]
    if not others:
        return None
    other = random.choice(others)
    return replaced(plan, name, i, changed(pair, r"delta = @[\w.]+", f"delta = @{other}", delta=other))


def change_operand(plan, random):
    """Another earlier value of the same type, made by one of our operations."""
    def suits(op):
        return op.operands and op.name in ASYNC | {"fcdp.accumulate", "fcdp.add", "fcdp.cast_shard", "fcdp.outer_update",
                                                   "fcdp.view_member"}
    name, i = pick(plan, random, suits)
    if not name:
        return None
    op, line = plan.bodies[name][i]
    released = {o.operands[0] for o, _ in plan.bodies[name][:i] if o.name == "fcdp.release"}
    others = [v for o, _ in plan.bodies[name][:i] for v, t in zip(o.results, o.result_types)
              if t == op.operand_types[0] and v not in (op.operands[0], *released)
              and (o.name in ASYNC or o.name.startswith("fcdp.read_")
                   or o.name in ("fcdp.add", "fcdp.pack", "fcdp.cast_shard", "fcdp.outer_difference"))]
    if not others:
        return None
    value, op = random.choice(others), copy.copy(op)
    old, op.operands = op.operands[0], [value, *op.operands[1:]]
    return replaced(plan, name, i, (op, re.sub(re.escape(old) + r"(?=[,)])", value, line, count=1)))


def move_update(plan, random):
    """An update in a micro-batch."""
    name, i = pick(plan, random, lambda op: op.name == "fcdp.shard_update")
    others = [n for n in plan.bodies if n not in ("init", "update")]
    if not name:
        return None
    other = random.choice(others)
    at = random.randrange(len(plan.bodies[other]))
    moved = replaced(plan, name, i)
    return moved.with_body(other, plan.bodies[other][:at] + [plan.bodies[name][i]] + plan.bodies[other][at:])


def release_early(plan, random):
    """Moves a release directly after the producer of the value."""
    name, i = pick(plan, random, lambda op: op.name == "fcdp.release")
    if not name:
        return None
    body = plan.bodies[name]
    value = body[i][0].operands[0]
    # It must follow all operations that use the value by name.
    j = max(k for k in range(i) if value in (*body[k][0].results, *body[k][0].operands))
    if j + 1 == i:
        return None
    return plan.with_body(name, body[:j + 1] + [body[i]] + body[j + 1:i] + body[i + 1:])


def change_member(plan, random):
    """A view of another parameter of the same bucket and type."""
    name, i = pick(plan, random, lambda op: op.name == "fcdp.view_member")
    if not name:
        return None
    pair = plan.bodies[name][i]
    own, bucket = pair[0].attrs["parameter"], pair[0].attrs["bucket"]
    parameters = plan.module.of("parameter")
    others = [member[0] for member in plan.module.of("bucket")[bucket]["members"]
              if member[0] != own and parameters[member[0]]["type"] == parameters[own]["type"]]
    if not others:
        return None
    other = random.choice(others)
    return replaced(plan, name, i, changed(pair, r"parameter = @[\w.]+", f"parameter = @{other}", parameter=other))


def swap_gradients(plan, random):
    """Two gradients of equal types change places in their bucket."""
    name, i = pick(plan, random, lambda op: op.name == "fcdp.pack" and len(op.operands) > 1)
    if not name:
        return None
    (op, line), types = plan.bodies[name][i], plan.bodies[name][i][0].operand_types
    pairs = [(j, k) for k in range(len(types)) for j in range(k)
             if types[j] == types[k] and op.operands[j] != op.operands[k]]
    if not pairs:
        return None
    j, k = random.choice(pairs)
    parameters = list(op.attrs["parameters"])
    parameters[j], parameters[k] = parameters[k], parameters[j]
    text = f"parameters = [{', '.join('@' + p for p in parameters)}]"
    return replaced(plan, name, i, changed((op, line), r"parameters = \[[^]]*\]", text, parameters=parameters))


def change_scale(plan, random):
    """Sums gradients or differences in place of taking their mean, or halves the mean."""
    name, i = pick(plan, random, lambda op: op.name in ("fcdp.shard_update", "fcdp.outer_update"))
    if not name:
        return None
    pair = plan.bodies[name][i]
    scale = random.choice([1.0, pair[0].attrs["scale"] / 2])
    if scale == pair[0].attrs["scale"]:
        return None
    return replaced(plan, name, i, changed(pair, r"scale = [\d.eE+-]+", f"scale = {scale:e}", scale=scale))


BREAKING = {
    "a wait is missing": drop("fcdp.wait"),
    "a wait for the function before is missing": drop_live_in,
    "a record comes early": advance_record,
    "another stream waits": wait_elsewhere,
    "an operation is on another stream": run_elsewhere,
    "a buffer is elsewhere": move_buffer,
    "a sum, update or store is missing": drop("fcdp.accumulate", "fcdp.shard_update", "fcdp.cache_store", "fcdp.outer_update"),
    "a sum or update is there twice": repeat("fcdp.accumulate", "fcdp.shard_update", "fcdp.outer_update"),
    "a sum starts or goes on": change_mode,
    "a collective is over the other axis": change_axis,
    "a cache is another bucket's": change_cache,
    "a coded gather refers to another slice": change_reference,
    "an operand is another value": change_operand,
    "an update is in a micro-batch": move_update,
    "a release is missing": drop("fcdp.release"),
    "a release comes early": release_early,
    "a member is another parameter's": change_member,
    "two gradients are swapped": swap_gradients,
    "an update's scale is another": change_scale,
}

# Mutations of what a plan says, which are wrong whatever the ranks compute. They change text alone.


def edit(suits, change):
    """Changes one of the lines that suit, or drops it where `change` gives nothing."""
    def mutate(plan, random):
        lines = plan.text().split("\n")
        places = [i for i, line in enumerate(lines) if suits(line)]
        if not places:
            return None
        i = random.choice(places)
        return "\n".join([*lines[:i], *change(lines[i]), *lines[i + 1:]])
    return mutate


def count_again(line):
    """Another number of micro-batches, which the family of functions or the scale is not of."""
    return [re.sub(r"(fcdp\.micro_batches = )(\d+)", lambda found: f"{found[1]}{int(found[2]) % 4 + 1}", line)]


STATED = {
    "clipping is missing": edit(lambda line: '"fcdp.clip_gradients"' in line, lambda line: []),
    "the module clips to another norm": edit(lambda line: "fcdp.clip_norm = " in line,
                                             lambda line: [re.sub(r"fcdp\.clip_norm = [\d.eE+-]+",
                                                                  "fcdp.clip_norm = 7.0e+00", line)]),
    "an optimizer's state is missing": edit(lambda line: '"fcdp.state"' in line and "momentum" in line, lambda line: []),
    "a loss is there twice": edit(lambda line: '"fcdp.loss"' in line, lambda line: [line, line]),
    "the module has other micro-batches": edit(lambda line: "fcdp.micro_batches = " in line, count_again),
}

# Mutations that must not.


def fresh_event(plan):
    return 1 + max([op.attrs["event"] for body in plan.bodies.values() for op, _ in body if op.name == "fcdp.record"],
                   default=0)


def add_wait(plan, random):
    name, i = pick(plan, random, lambda op: op.name == "fcdp.record")
    if not name:
        return None
    body = plan.bodies[name]
    op = body[i][0]
    stream = random.choice([s for s in STREAMS if s != op.attrs["stream"]])
    wait = copy.copy(op)
    wait.name, wait.results, wait.operands, wait.attrs = "fcdp.wait", [], op.results, {"stream": stream}
    line = f'"fcdp.wait"({op.result()}) <{{stream = #fcdp<stream {stream}>}}> : (!fcdp.token) -> ()'
    at = random.randrange(i + 1, len(body))
    return plan.with_body(name, body[:at] + [(wait, line)] + body[at:])


def add_record(plan, random):
    name = random.choice([n for n, body in plan.bodies.items() if len(body) > 1])
    stream, event = random.choice(STREAMS), fresh_event(plan)
    pattern = next((op for b in plan.bodies.values() for op, _ in b if op.name == "fcdp.record"), None)
    if not pattern:
        return None
    record = copy.copy(pattern)
    record.results, record.attrs = ["%extra"], {"stream": stream, "event": event}
    line = (f'%extra = "fcdp.record"() <{{event = {event} : i64, stream = #fcdp<stream {stream}>}}> : () -> !fcdp.token')
    body = plan.bodies[name]
    at = random.randrange(len(body))
    return plan.with_body(name, body[:at] + [(record, line)] + body[at:])


def release_late(plan, random):
    name, i = pick(plan, random, lambda op: op.name == "fcdp.release")
    if not name:
        return None
    body = plan.bodies[name]
    at = random.randrange(i + 1, len(body))
    return plan.with_body(name, body[:i] + body[i + 1:at] + [body[i]] + body[at:])


def swap(plan, random):
    """Neighbours of which the second does not need the first."""
    places = [(name, i) for name, body in plan.bodies.items() for i in range(len(body) - 2)
              if not set(body[i][0].results) & set(body[i + 1][0].operands)
              and not (body[i + 1][0].name == "fcdp.release" and body[i + 1][0].operands[0] in body[i][0].operands)]
    if not places:
        return None
    name, i = random.choice(places)
    body = plan.bodies[name]
    return plan.with_body(name, body[:i] + [body[i + 1], body[i]] + body[i + 2:])


def number_anew(plan, random):
    crossing = {v for body in plan.bodies.values() for op, _ in body if op.name == "func.return" for v in op.operands}
    name, i = pick(plan, random, lambda op: op.name == "fcdp.record" and op.result() not in crossing)
    if not name:
        return None
    event = fresh_event(plan) + random.randrange(5)
    pair = changed(plan.bodies[name][i], r"event = \d+", f"event = {event}", event=event)
    return replaced(plan, name, i, pair)


def move_away(plan, random):
    """A buffer that contains no other buffer gets memory of its own."""
    def suits(op):
        return op.name in ("fcdp.pack", "fcdp.reduce_scatter")
    name, i = pick(plan, random, suits)
    if not name:
        return None
    key = "scratch" if plan.bodies[name][i][0].name == "fcdp.reduce_scatter" else "buffer"
    states = {s["buffer"]["offset"] for s in plan.module.of("state").values()}
    if plan.bodies[name][i][0].attrs[key]["offset"] in states:
        return None
    return replaced(plan, name, i, place(plan.bodies[name][i], key, 65536))


HARMLESS = {
    "an extra wait": add_wait,
    "an extra record": add_record,
    "a later release": release_late,
    "two neighbours change places": swap,
    "another event": number_anew,
    "a buffer has memory of its own": move_away,
}
