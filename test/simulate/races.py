# SPDX-License-Identifier: Apache-2.0
"""Looks for races and for values released too early in a planned module, byte by byte on each rank: a second opinion on
`--fcdp-verify-plan`, which knows intervals on one rank."""

import numpy as np

from free_memory import FreeMemory, Function
from machine import is_synchronized

STREAMS = {name: i for i, name in enumerate(["compute", "inter", "intra", "d2h", "h2d", "inter_reduce", "intra_reduce"])}
BUFFERED = {"fcdp.add", "fcdp.all_gather", "fcdp.cache_load", "fcdp.cast_shard", "fcdp.outer_difference", "fcdp.pack",
            "fcdp.reduce_scatter"}
VALUE_ELEMENTS = 16  # of each value of random_steps.py, in f32
VIEWS = {"aten.t", "aten.view", "aten.expand", "aten.permute", "aten.transpose"}


class Race(Exception):
    pass


class Bytes:
    """The times of the last write and read, by byte and stream."""

    def __init__(self, count):
        self.written = np.zeros((len(STREAMS), count), np.int32)
        self.read = np.zeros((len(STREAMS), count), np.int32)

    def access(self, place, writes, stream, known, time):
        begin, end = place
        if begin == end:
            return
        last = self.written[:, begin:end].max(axis=1)
        if writes:
            last = np.maximum(last, self.read[:, begin:end].max(axis=1))
        if (last > known).any():
            raise Race(f"bytes {begin} to {end}, operation {time}")
        (self.written if writes else self.read)[stream, begin:end] = time


def is_view(op):
    return op.name == "fcdp.view_member" or (
        op.name == "aten.call" and op.attrs["callee"].rsplit(".", 1)[0] in VIEWS)


class Accesses:
    """The accesses of a function's operations on one rank: lists of (arena, bytes, writes)."""

    def __init__(self, module, name, node, local):
        self.module, self.node, self.local = module, node, local
        self.by_role = {(s["bucket"], s["role"]): s for s in module.of("state").values()}
        self.places = {}
        self.of = [self.find(op) for op in module.functions[name]]
        self.add_in_place(Function(module, name))

    def add_in_place(self, function):
        """The in-place writes of operators to buckets."""
        for i, pack in enumerate(function.body):
            if pack.name != "fcdp.pack":
                continue
            for maker, parameter in function.in_place(i).items():
                arena, (begin, _) = self.place(pack.attrs["buffer"])
                begin += 4 * dict(self.module.of("bucket")[pack.attrs["bucket"]]["members"])[parameter]
                self.of[maker].append((arena, (begin, begin + 4 * VALUE_ELEMENTS), True))

    def place(self, buffer):
        begin = buffer["offset"] + self.node * buffer.get("node_stride", 0) + self.local * buffer.get("local_stride", 0)
        return buffer["arena"], (begin, begin + buffer["bytes"])

    def state(self, state):
        return self.place(state["buffer"])

    def find(self, op):
        reads = [p for v in op.operands for p in self.places.get(v, [])]
        writes = []
        if op.name in ("fcdp.read_shard", "fcdp.read_state"):
            source = op.attrs["source"]
            state = self.by_role[source, "shard"] if op.name.endswith("shard") else self.module.of("state")[source]
            self.places[op.result()] = [self.state(state)]
            return []
        if is_view(op):
            self.places[op.result()] = reads
            return []
        if op.name in ("fcdp.record", "fcdp.wait", "fcdp.release"):
            return []
        if op.name in BUFFERED:
            whole = self.place(op.attrs["buffer"])
            self.places[op.result()] = [whole]
            writes.append(whole)
            if op.name == "fcdp.all_gather" and self.is_own_part(op, reads[0], whole):
                writes = self.without(whole, reads[0])
            if "scratch" in op.attrs:
                writes.append(self.place(op.attrs["scratch"]))
        if "delta" in op.attrs:
            reads.append(self.state(self.module.of("state")[op.attrs["delta"]]))
        if "residual" in op.attrs:
            place = self.state(self.module.of("state")[op.attrs["residual"]])
            reads.append(place)
            writes.append(place)
        if op.name == "fcdp.accumulate":
            target = op.attrs["target"]
            state = self.module.of("state").get(target) or self.by_role[target, "grad"]
            place = self.state(state)
            if op.attrs["mode"] == "overwrite" and reads == [place]:
                return []  # it is there
            writes.append(place)
            if op.attrs["mode"] == "add":
                reads.append(place)
        if op.name == "fcdp.cache_store":
            writes.append(self.state(self.module.of("state")[op.attrs["target"]]))
        if op.name == "fcdp.cache_load":
            reads.append(self.state(self.module.of("state")[op.attrs["source"]]))
        if op.name == "fcdp.shard_update":
            states = self.states_of(op.attrs["target"], ("shard", "grad"))
            reads += states
            writes += states
        if op.name == "fcdp.outer_difference":
            reads += self.states_of(op.attrs["source"], ("shard", "outer"))
        if op.name == "fcdp.outer_update":
            states = self.states_of(op.attrs["target"], ("shard", "outer", "outer_momentum"))
            reads += states
            writes += states
        return [(*p, False) for p in reads] + [(*p, True) for p in writes]

    def states_of(self, target, roles):
        return [self.state(s) for (bucket, role), s in self.by_role.items() if bucket == target and role in roles]

    def is_own_part(self, op, part, whole):
        mesh = next(iter(self.module.of("mesh").values()))
        rank, ranks = 0, 1  # over both axes, in order of ownership
        for axis, position in (("local", self.local), ("node", self.node)):
            if axis in op.attrs["axes"]:
                rank, ranks = rank * mesh[axis] + position, ranks * mesh[axis]
        size = part[1][1] - part[1][0]
        return (part[0] == whole[0] and part[1][0] == whole[1][0] + rank * size
                and size * ranks == whole[1][1] - whole[1][0])

    @staticmethod
    def without(whole, part):
        arena, (begin, end) = whole
        return [(arena, place) for place in ((begin, part[1][0]), (part[1][1], end)) if place[0] < place[1]]


def end_of(module, arena):
    mesh = next(iter(module.of("mesh").values()))
    buffers = [s["buffer"] for s in module.of("state").values()]
    buffers += [op.attrs[key] for body in module.functions.values() for op in body
                for key in ("buffer", "scratch") if key in op.attrs]
    return max((b["offset"] + b["bytes"] + (mesh["node"] - 1) * b.get("node_stride", 0)
                + (mesh["local"] - 1) * b.get("local_stride", 0) for b in buffers if b["arena"] == arena), default=0)


class Checker:
    def __init__(self, module):
        self.module = module
        self.found = {}
        self.sizes = {arena: end_of(module, arena) for arena in ("device", "host")}
        self.free_memory = FreeMemory(module, self.sizes["device"], is_view)

    def accesses(self, name, node, local):
        key = name, node, local
        if key not in self.found:
            self.found[key] = Accesses(self.module, name, node, local).of
        return self.found[key]

    def check(self, calls, node, local):
        """Raises Race for a race, or a value released before its stream has waited for all that access it."""
        arenas = {arena: Bytes(size) for arena, size in self.sizes.items()}
        known = np.zeros((len(STREAMS), len(STREAMS)), np.int32)
        events, time = {}, 0
        for name in calls:
            body, used = self.module.functions[name], {}
            if is_synchronized(name):
                known[:] = known.diagonal()
            records = dict(self.module.arguments[name])
            views = {}
            for i, (op, accesses) in enumerate(zip(body, self.accesses(name, node, local))):
                time += 1
                stream = STREAMS[op.attrs.get("stream", "compute")]
                if op.name == "fcdp.record":
                    records[op.result()] = op.attrs["event"]
                    events[op.attrs["event"]] = known[stream].copy()
                elif op.name == "fcdp.wait":
                    if records[op.operands[0]] not in events:
                        raise Race("a wait for nothing")
                    known[stream] = np.maximum(known[stream], events[records[op.operands[0]]])
                elif op.name == "fcdp.release":
                    for other, when in used.pop(op.operands[0]):
                        if known[stream][other] < when:
                            raise Race(f"{op.operands[0]} is released early")
                else:
                    self.note_uses(op, views, used, stream, time, bool(accesses))
                known[stream][stream] = time
                for place in self.free_memory.ranges(name, i):
                    arenas["device"].access(place, True, stream, known[stream], time)
                for arena, place, writes in accesses:
                    arenas[arena].access(place, writes, stream, known[stream], time)
            if used:
                raise Race(f"{next(iter(used))} is not released")
            if is_synchronized(name):
                known[:] = known.diagonal()

    @staticmethod
    def note_uses(op, views, used, stream, time, runs):
        roots = {r for v in op.operands for r in views.get(v, ())}
        if is_view(op):
            views[op.result()] = roots
            return
        if op.name in BUFFERED:
            views[op.result()] = {op.result()}
            used[op.result()] = [(stream, time)]
        for root in roots:
            if root not in used:
                raise Race(f"{root} is used after its release")
            if runs:
                used[root].append((stream, time))


def find_race(module, calls):
    """Returns what is wrong with a module that runs these functions, or nothing."""
    checker = Checker(module)
    mesh = next(iter(module.of("mesh").values()))
    try:
        for node, local in sorted({(0, 0), (mesh["node"] - 1, mesh["local"] - 1)}):
            checker.check(calls, node, local)
    except (Race, KeyError) as error:
        return f"{type(error).__name__} {error}"
    return ""
