# SPDX-License-Identifier: Apache-2.0
"""The bytes of the device arena that are free for results of operators, operation by operation: a second opinion on
lib/Planning/Memory/ReservedMemory.cpp."""

BUFFERED = {"fcdp.add", "fcdp.all_gather", "fcdp.cache_load", "fcdp.cast_shard", "fcdp.outer_difference", "fcdp.pack",
            "fcdp.reduce_scatter"}
OPERATORS = {"aten.call", "fcdp.clip_gradients", "fcdp.loss", "fcdp.pack", "fcdp.shard_update",
             "fcdp.unscale_gradients", "fcdp.write_buffer"}
WHOLE_VIEWS = ("aten.t.", "aten.view.", "aten._unsafe_view.")
SUCCESSORS = {
    "init": ["only_microbatch", "first_microbatch"],
    "update": ["only_microbatch", "first_microbatch"],
    "first_microbatch": ["next_microbatch", "last_microbatch"],
    "next_microbatch": ["next_microbatch", "last_microbatch"],
    "only_microbatch": ["update"],
    "last_microbatch": ["update"],
}


class Function:
    """Uses and releases of the buffers of a function."""

    def __init__(self, module, name):
        self.body, self.arguments = module.functions[name], [value for value, _ in module.arguments[name]]
        self.makers = {value: i for i, op in enumerate(self.body) for value in op.results}
        self.users = {}
        for i, op in enumerate(self.body):
            for value in op.operands:
                self.users.setdefault(value, []).append(i)

    def in_place(self, i):
        """Yields, for pack i, the operations that write gradients in its memory, with the gradients' parameters."""
        op, makers = self.body[i], {}
        for value, parameter in zip(op.operands, op.attrs.get("parameters", ())):
            maker = self.makers.get(value)
            if parameter in op.attrs.get("in_place", ()):
                while self.body[maker].attrs["callee"].startswith(WHOLE_VIEWS):
                    maker = self.makers[self.body[maker].operands[0]]
                makers[maker] = parameter
        return makers

    def release(self, i):
        """Returns the place of the result of operation i, or None."""
        uses = self.users.get(self.body[i].result(), [])
        return next((u for u in uses if self.body[u].name == "fcdp.release"), None)

    def end(self, i):
        release = self.release(i)
        return len(self.body) if release is None or "stream" in self.body[release].attrs else release

    def late_release(self, i):
        release = self.release(i)
        return release if release is not None and "stream" in self.body[release].attrs else None

    def owner(self, i):
        """Whose lifetime the scratch memory of reduction i has."""
        maker = self.makers.get(self.body[i].operands[0])
        return maker if maker is not None and self.body[maker].name in BUFFERED else i

    def buffers(self):
        """Pairs of a buffer and the operation that it lives as long as, with where it begins."""
        for i, op in enumerate(self.body):
            if op.name in BUFFERED:
                yield op.attrs["buffer"], min([i, *self.in_place(i)]), i
                if "scratch" in op.attrs:
                    yield op.attrs["scratch"], i, self.owner(i)

    def live_out(self, release):
        """Returns the position of the live-out token that is recorded after `release`, or None."""
        tokens = self.body[-1].operands if self.body[-1].name == "func.return" else []
        stream = self.body[release].attrs["stream"]
        records = [(self.makers[t], k) for k, t in enumerate(tokens) if t in self.makers]
        later = [(i, k) for i, k in records if i > release and self.body[i].attrs["stream"] == stream]
        return min(later)[1] if later else None

    def awaited(self, position):
        """Returns the operation after which compute has waited for the live-in token at `position`."""
        last = len(self.body) - 1
        if position is None or position >= len(self.arguments):
            return last
        waits = [u for u in self.users.get(self.arguments[position], [])
                 if self.body[u].name == "fcdp.wait" and self.body[u].attrs["stream"] == "compute"]
        return min([last, *waits])


class FreeMemory:
    def __init__(self, module, size, views):
        self.module, self.size, self.views = module, size, views
        self.mesh = next(iter(module.of("mesh").values()))
        self.functions = {name: Function(module, name) for name in module.functions}
        states = [s for s in module.of("state").values() if s["arena"] == "device" and s["role"] != "prefetched"]
        self.begin = max((self.extent(s["buffer"])[1] for s in states), default=0)
        self.begin = (self.begin + 255) // 256 * 256
        self.reserved = {name: list(self.find_reserved(name)) for name in self.functions}

    def extent(self, buffer):
        end = buffer["offset"] + buffer["bytes"] + (self.mesh["node"] - 1) * buffer.get("node_stride", 0)
        return buffer["offset"], end + (self.mesh["local"] - 1) * buffer.get("local_stride", 0)

    def find_reserved(self, name):
        """Yields tuples of a first operation, the one after the last, and bytes."""
        function = self.functions[name]
        for buffer, begin, owner in function.buffers():
            yield begin, function.end(owner), self.extent(buffer)
        for before in self.functions:
            # Nothing is in flight where an outer update begins or ends.
            if name in SUCCESSORS.get(before, ()):
                yield from self.in_flight(self.functions[before], function)
        for state_name, state in self.module.of("state").items():
            if state["role"] == "prefetched":
                yield from self.prefetched(function, state_name, self.extent(state["buffer"]))

    def in_flight(self, before, function):
        for buffer, _, owner in before.buffers():
            release = before.late_release(owner)
            if release is not None:
                yield 0, function.awaited(before.live_out(release)) + 1, self.extent(buffer)

    def prefetched(self, function, name, extent):
        for i, op in enumerate(function.body):
            if op.name == "fcdp.read_state" and op.attrs["source"] == name:
                yield 0, self.last_use(function, op.result()), extent
            if op.attrs.get("into") == name:
                yield self.first_write(function, i, extent), len(function.body), extent

    def last_use(self, function, value):
        last = 0
        for i in function.users.get(value, []):
            op = function.body[i]
            last = max(last, i + 1)
            if op.name in BUFFERED:
                last = max(last, function.end(i))
            elif self.views(op):
                last = max(last, self.last_use(function, op.result()))
        return last

    def first_write(self, function, i, extent):
        first = i
        for value in function.body[i].operands:
            maker = function.makers.get(value)
            if maker is not None and function.body[maker].name in BUFFERED:
                if extent[0] <= function.body[maker].attrs["buffer"]["offset"] < extent[1]:
                    first = min(first, self.first_write(function, maker, extent))
        return first

    def ranges(self, name, i):
        """Returns the ranges of bytes that results may use while operation i runs."""
        if self.functions[name].body[i].name not in OPERATORS:
            return []
        free, places = self.begin, []
        for begin, end in sorted(e for first, last, e in self.reserved[name] if first <= i < last and e[0] < e[1]):
            if free < begin:
                places.append((free, begin))
            free = max(free, end)
        return places + ([(free, self.size)] if free < self.size else [])
