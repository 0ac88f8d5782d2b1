# SPDX-License-Identifier: Apache-2.0
"""The order of events on simulated ranks: what each stream still has to do, which streams can go on, and the policy
that picks one of them."""

import random

from ir import Op

STREAMS = ["compute", "inter", "intra", "d2h", "h2d", "inter_reduce", "intra_reduce"]
COLLECTIVES = {"fcdp.all_gather", "fcdp.reduce_scatter"}
BEGIN, END = Op("begin", [], [], {}), Op("end", [], [], {})


class Deadlock(Exception):
    pass


class Policy:
    """Picks one of the streams that can go on: by stream first, and by rank in an order of its own per stream; or at
    random."""

    def __init__(self, seed, streams=None):
        self.random = random.Random(seed)
        self.streams = streams

    def order(self, keys):
        """Pairs of a rank and a stream, the one to prefer first."""
        if self.streams is None:
            return keys
        return sorted(keys, key=lambda key: (self.streams.index(key[1]), self.random.random()))

    def pick(self, ready):
        """One of the positions in the order."""
        return self.random.choice(tuple(ready)) if self.streams is None else min(ready)


def policies(random_ones):
    """Each stream first and each last, and some random policies."""
    for first in STREAMS:
        rest = [s for s in STREAMS if s != first]
        yield Policy(1, [first, *rest])
        yield Policy(2, [*rest, first])
    yield from (Policy(seed) for seed in range(random_ones))


class Queues:
    """The remaining work of each stream of each rank, in calls of functions. An item is a call, the position of an
    operation in its function, and the operation."""

    def __init__(self, keys, calls, group):
        """`keys` are pairs of a rank and a stream; `group(rank, op)` gives the ranks of a collective."""
        self.keys, self.group = keys, group
        self.places = {key: place for place, key in enumerate(keys)}
        items = {stream: [item for call in calls for item in items_of(call, stream)] for stream in STREAMS}
        self.items = [items[stream] for _, stream in keys]
        self.at = [0] * len(keys)
        self.ready = set()  # places of streams that can go on
        self.waiting = {}  # places of streams, by what they wait for: a call, a rank and an event
        for place in range(len(keys)):
            self.look(place)

    def head(self, place):
        items, at = self.items[place], self.at[place]
        return items[at] if at < len(items) else None

    def look(self, place):
        """Records whether a stream can continue with its next item and, for a collective, whether its partners can."""
        item = self.head(place)
        if item is None:
            return
        rank, stream = self.keys[place]
        call, _, op = item
        if op.name == "fcdp.wait":
            waited, event = call.waited[op.operands[0]]
            if (rank, event) not in waited.events:
                self.waiting.setdefault((waited, rank, event), []).append(place)
                return
        elif op.name in COLLECTIVES:
            partners = [self.places[r, stream] for r in self.group(rank, op)]
            if all(self.head(partner) is item for partner in partners):
                self.ready.update(partners)
            return
        self.ready.add(place)

    def advance(self, ranks, stream):
        """The ranks are done with the next item of the stream."""
        for rank in ranks:
            place = self.places[rank, stream]
            call, _, op = self.head(place)
            self.at[place] += 1
            self.ready.discard(place)
            self.look(place)
            if op.name == "fcdp.record":
                self.ready.update(self.waiting.pop((call, rank, call.recorded[op.result()]), ()))

    def stuck(self):
        """Returns the next item of each stream that is not at its end."""
        return {key: self.head(place)[2].name for place, key in enumerate(self.keys) if self.head(place)}


def items_of(call, stream):
    items = [(call, number, op) for number, op in enumerate(call.body) if op.attrs.get("stream", "compute") == stream]
    return [(call, -1, BEGIN), *items, (call, len(call.body), END)] if stream == "compute" else items
