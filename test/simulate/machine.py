# SPDX-License-Identifier: Apache-2.0
"""Runs the functions of a sharded, scheduled or planned module on simulated
ranks.

Every rank has seven streams. Whatever the waits allow may happen: a policy
picks the next step among all that could be taken. In the scheduled phase
released memory is overwritten with noise; in the planned phase values live at
their places in one array of bytes per rank, noise wherever no state is.
Collectives and copies take two steps, so that others can come between.
"""

import math

import numpy as np

from ir import shape_of
from streams import COLLECTIVES, STREAMS, Deadlock, Queues
from tensors import DTYPES, bytes_of, call, message_bytes, round_to, rounded_to_few, widen

BUFFERED = {"fcdp.add", "fcdp.all_gather", "fcdp.cache_load", "fcdp.cast_shard", "fcdp.outer_difference", "fcdp.pack",
            "fcdp.reduce_scatter"}
VIEWS = {"aten.t.default", "aten.view.default", "aten._unsafe_view.default"}
COPIES = {"fcdp.cache_store", "fcdp.cache_load"}
NOISE_BYTES = 1 << 20


class Mismatch(Exception):
    pass


def is_synchronized(function):
    """Whether nothing is in flight where the function begins and where it ends."""
    return function.startswith("outer_update")


class Rank:
    def __init__(self, node, local):
        self.node, self.local = node, local
        self.env = {}
        self.gathers = {}  # how often each bucket has been gathered by differences


class Call:
    """One call of a function, on all ranks."""

    def __init__(self, machine, before, function, inputs):
        self.body = machine.module.functions[function]
        self.inputs = inputs
        self.is_synchronized = is_synchronized(function)
        has_live_ins = before and machine.planned and not self.is_synchronized
        self.live_ins = late_buffers(before.body) if has_live_ins else []
        self.events, self.started = set(), set()
        self.losses, self.bytes_between_nodes = {}, 0
        self.after, self.gradients = {}, {}
        self.recorded = {op.result(): op.attrs.get("event", op.result())
                         for op in self.body if op.name == "fcdp.record"}
        # The function call and the event of each token. The token of an argument belongs to the call before.
        self.waited = {token: (self, event) for token, event in self.recorded.items()}
        self.results = self.body[-1].operands
        for i, (token, event) in enumerate(machine.module.arguments[function]):
            self.waited[token] = (before, before.recorded[before.results[i]] if event is None else event)
        self.in_place = self.find_in_place()
        self.resident = {op.result() for op in self.body if "into" in op.attrs}
        self.types = {v: t for op in self.body for v, t in zip(op.results, op.result_types)}
        self.env = [{op.result(): machine.buffer_of(rank, op) for op in self.body if op.name in BUFFERED}
                    for rank in machine.ranks]
        if machine.planned:
            self.place_states(machine)

    def place_states(self, machine):
        """A read of a state only names its place; it takes no time on a stream."""
        for rank, env in zip(machine.ranks, self.env):
            for op in self.body:
                if op.name == "fcdp.read_shard":
                    env[op.result()] = rank.by_role[op.attrs["source"], "shard"]
                elif op.name == "fcdp.read_state":
                    env[op.result()] = rank.states[op.attrs["source"]]

    def find_in_place(self):
        """Returns the pack and the parameter of gradients that calls write in place, by the calls' results."""
        made_by = {value: op for op in self.body for value in op.results}
        found = {}
        for pack in self.body:
            for value, parameter in zip(pack.operands, pack.attrs.get("parameters", ())):
                if parameter in pack.attrs.get("in_place", ()):
                    while made_by[value].attrs["callee"] in VIEWS:
                        value = made_by[value].operands[0]
                    found[value] = pack, parameter
        return found


def late_buffers(body):
    """Places and types of what may be in use when the function ends: it is released on a stream of its own."""
    late = {op.operands[0] for op in body if op.name == "fcdp.release" and "stream" in op.attrs}
    found = [(op.attrs["buffer"], op.result_types[0]) for op in body if late & set(op.results)]
    return found + [(op.attrs["scratch"], op.operand_types[0]) for op in body
                    if "scratch" in op.attrs and late & {*op.results, *op.operands}]


class Machine:
    def __init__(self, module, weights, seed=0):
        self.module = module
        self.mesh = next(iter(module.of("mesh").values()))
        self.N, self.g = self.mesh["node"], self.mesh["local"]
        self.ranks = [Rank(n, l) for n in range(self.N) for l in range(self.g)]
        self.groups = {}  # of a collective's ranks, by one of them and the axes
        self.places = {}  # arrays, by rank, buffer and type
        self.noise = np.random.default_rng(seed).integers(0, 256, NOISE_BYTES, dtype=np.uint8)
        self.noise_used = 0
        self.planned = module.phase == "planned"
        self.device_end = self.host_end = self.state_end = 0
        if self.planned:
            self.measure()
        for rank in self.ranks:
            rank.memory = self.noisy(self.device_end)
        self.host = [self.noisy(self.host_end) for _ in range(self.N)]
        self.states = [{} for _ in self.ranks]
        for index, rank in enumerate(self.ranks):
            for name, state in module.of("state").items():
                self.states[index][name] = self.make_state(rank, state)
            rank.states = self.states[index]
            rank.by_role = {(s["bucket"], s["role"]): self.states[index][n] for n, s in module.of("state").items()}
        self.load(weights)

    # Memory.

    def noisy(self, count):
        """Other bytes each time; drawn once, because small draws take longer than copies."""
        self.noise_used = (self.noise_used + 4099) % NOISE_BYTES
        end = self.noise_used + count
        if end > NOISE_BYTES:
            return np.resize(np.roll(self.noise, -self.noise_used), count)
        return self.noise[self.noise_used:end].copy()

    def measure(self):
        """Bytes of the arenas, from the places that the plan gives."""
        def end(buffer):
            return (buffer["offset"] + buffer["bytes"] + (self.N - 1) * buffer.get("node_stride", 0)
                    + (self.g - 1) * buffer.get("local_stride", 0))

        for state in self.module.of("state").values():
            if state["arena"] == "host":
                self.host_end = max(self.host_end, end(state["buffer"]))
            else:
                self.state_end = max(self.state_end, end(state["buffer"]))
        self.device_end = self.state_end
        for function in self.module.functions.values():
            for op in function:
                for key in ("buffer", "scratch"):
                    if key in op.attrs:
                        self.device_end = max(self.device_end, end(op.attrs[key]))

    def place(self, rank, buffer, type_text):
        key = id(rank), id(buffer), type_text
        if key not in self.places:
            self.places[key] = self.view_of(rank, buffer, type_text)
        return self.places[key]

    def view_of(self, rank, buffer, type_text):
        shape, element = shape_of(type_text)
        start = (buffer["offset"] + rank.node * buffer.get("node_stride", 0)
                 + rank.local * buffer.get("local_stride", 0))
        memory = self.host[rank.node] if buffer["arena"] == "host" else rank.memory
        size = math.prod(shape) * bytes_of(element)
        assert size <= buffer["bytes"] and start + size <= len(memory)
        if start % bytes_of(element):
            raise ValueError("a buffer is misaligned for its element type")
        return memory[start:start + size].view(DTYPES[element]).reshape(shape)

    def fresh(self, type_text):
        shape, element = shape_of(type_text)
        size = math.prod(shape)
        if type_text.startswith("!fcdp.shard"):
            shape = [size := -(-size // len(self.ranks))]
        return self.noisy(size * bytes_of(element)).view(DTYPES[element]).reshape(shape)

    def make_state(self, rank, state):
        if self.planned:
            return self.place(rank, state["buffer"], state["type"])
        return self.fresh(state["type"])

    def buffer_of(self, rank, op):
        if self.planned:
            return self.place(rank, op.attrs["buffer"], op.result_types[0])
        if "into" in op.attrs:
            return rank.states[op.attrs["into"]]
        return self.fresh(op.result_types[0])

    def owned(self, rank, sharding="world"):
        """The number of the part that a rank owns."""
        return {"world": rank.local * self.N + rank.node, "node": rank.local, "none": 0}[sharding]

    def load(self, weights):
        """Cuts weights into shards; optimizer state starts as zeros."""
        self.parameters = {name: weights[name].copy() for name in self.module.of("parameter")}
        for name, bucket in self.module.of("bucket").items():
            flat = np.zeros(bucket["elements"], DTYPES[bucket["storage"]])
            for parameter, offset in bucket["members"]:
                flat[offset:offset + weights[parameter].size] = weights[parameter].reshape(-1)
            for rank in self.ranks:
                part = rank.by_role[name, "shard"]
                part[:] = flat[self.owned(rank, bucket["sharding"]) * part.size:][:part.size]
                if "master" in bucket:
                    rank.by_role[name, "master"][:] = widen(part, bucket["storage"])
                if "outer" in bucket:
                    rank.by_role[name, "outer"][:] = widen(part, bucket["storage"])
        for rank in self.ranks:
            rank.gradients = {}
            for (_, role), state in rank.by_role.items():
                if role in ("residual", "outer_momentum"):
                    state[:] = 0

    def whole(self, parts, sharding="world"):
        """Puts together what each rank has, by its number. All that own a part must have the same."""
        distinct = {}
        for r, part in sorted(parts.items(), key=lambda item: self.owned(self.ranks[item[0]], sharding)):
            same = distinct.setdefault(self.owned(self.ranks[r], sharding), part)
            if same.tobytes() != part.tobytes():
                raise Mismatch(f"ranks differ in what they own alike:\n{same[:8]}\n{part[:8]}")
        return np.concatenate(list(distinct.values()))

    # Streams.

    def run(self, calls, policy):
        """Runs functions one after another, each a pair of its name and the
        inputs of all ranks. Streams are not joined between them but by what
        the functions say. Gives, for each call, the states after it."""
        running, before = [], None
        for call in calls:
            running.append(Call(self, before, *call))
            # Live-in values pass the functions in between by.
            before = before if running[-1].is_synchronized else running[-1]
        keys = policy.order([(rank, stream) for rank in range(len(self.ranks)) for stream in STREAMS])
        for part in between_synchronizations(running):
            self.run_part(part, keys, policy)
        return running

    def run_part(self, calls, keys, policy):
        queues = Queues(keys, calls, self.group)
        while queues.ready:
            place = policy.pick(queues.ready)
            rank, stream = keys[place]
            queues.advance(self.step(rank, queues.head(place)), stream)
        if stuck := queues.stuck():
            raise Deadlock(f"nothing can go on: {stuck}")

    def group(self, rank, op):
        key = rank, *op.attrs["axes"]
        if key not in self.groups:
            me = self.ranks[rank]
            self.groups[key] = [i for i, r in enumerate(self.ranks)
                                if ("node" in key or r.node == me.node) and ("local" in key or r.local == me.local)]
        return self.groups[key]

    def step(self, rank, item):
        """Takes one step; gives the ranks that are done with the operation."""
        self.call, number, op = item
        self.ranks[rank].env = self.call.env[rank]
        if op.name in COLLECTIVES or op.name in COPIES:
            ranks = self.group(rank, op) if op.name in COLLECTIVES else [rank]
            for r in ranks:
                self.ranks[r].env = self.call.env[r]
            if (number, ranks[0]) not in self.call.started:
                self.call.started.add((number, ranks[0]))
                getattr(self, "start_" + op.name[5:], lambda *_: None)(op, ranks)
                return []
            getattr(self, "finish_" + op.name[5:])(op, ranks)
            return ranks
        if op.name == "aten.call":
            results = call(op, self.ranks[rank].env.__getitem__)
            for value, result in zip(op.results, results):
                assert result.shape == shape_of(self.call.types[value])[0], (op.attrs["callee"], result.shape)
                if value in self.call.in_place:
                    result = self.write_in_place(self.ranks[rank], value, result)
                self.ranks[rank].env[value] = result
        else:
            getattr(self, "do_" + op.name.split(".")[-1])(self.ranks[rank], rank, op)
        return [rank]

    def do_begin(self, rank, index, op):
        """Between functions nothing keeps its value but states, and what may be in use by what is in flight."""
        if self.planned:
            kept = [self.place(rank, buffer, type_text) for buffer, type_text in self.call.live_ins]
            values = [memory.copy() for memory in kept]
            rank.memory[self.state_end:] = self.noisy(self.device_end - self.state_end)
            for memory, value in zip(kept, values):
                memory[:] = value

    def do_end(self, rank, index, op):
        self.call.after[index] = {key: state.copy() for key, state in rank.by_role.items()}
        self.call.gradients[index] = {name: value.copy() for name, value in rank.gradients.items()}

    # Collectives and copies.

    def in_axis_order(self, op, ranks):
        """Over both axes the shards of a bucket are in the order of ownership."""
        if len(op.attrs["axes"]) == 2:
            return sorted(ranks, key=lambda r: self.owned(self.ranks[r]))
        return ranks

    def start_all_gather(self, op, ranks):
        for r in ranks:
            env = self.ranks[r].env
            out, part = env[op.result()], env[op.operands[0]].copy()
            if self.call.types[op.result()].startswith("tensor"):
                out.reshape(-1).view(np.uint8)[:] = self.noisy(out.nbytes)
            env[op.operands[0]][...] = part  # it may be inside the result
        for r in ranks if "delta" in op.attrs else ():
            self.code(op, r, ranks.index(r))

    def code(self, op, r, position):
        """A rank sends the bits in which its part differs from what was gathered last."""
        rank = self.ranks[r]
        part = rank.env[op.operands[0]]
        bits = np.frombuffer(part.tobytes(), np.uint8)
        if rank.gathers.get(op.attrs["source"]):
            bits = bits ^ self.reference(op, r, position, bits.size)
        rank.env["message", op.result()] = bits
        if self.planned:
            scratch = op.attrs["scratch"]  # for messages
            self.place(rank, scratch, f"tensor<{scratch['bytes'] // 4}xf32>").view(np.uint8)[:] = self.noisy(scratch["bytes"])

    def reference(self, op, r, position, size):
        """The bytes of one part of what was gathered last, as a rank has them."""
        slice_ = np.frombuffer(self.states[r][op.attrs["delta"]].tobytes(), np.uint8)
        return slice_[position * size:(position + 1) * size]

    def decoded(self, op, r, ranks):
        parts = []
        for position, peer in enumerate(ranks):
            bits = self.ranks[peer].env["message", op.result()]
            if self.ranks[r].gathers.get(op.attrs["source"]):
                bits = bits ^ self.reference(op, r, position, bits.size)
            part = self.ranks[peer].env[op.operands[0]]
            parts.append(np.frombuffer(bits.tobytes(), part.dtype).reshape(part.shape))
        return parts

    def finish_all_gather(self, op, ranks):
        parts = [self.ranks[r].env[op.operands[0]].copy() for r in self.in_axis_order(op, ranks)]
        self.count(op, len(ranks), parts[0].nbytes)
        is_delta = "delta" in op.attrs
        for r in ranks:
            out = self.ranks[r].env[op.result()]
            received = self.decoded(op, r, ranks) if is_delta else parts
            out[...] = np.concatenate(received)[:out.size].reshape(out.shape)
        for r in ranks if is_delta else ():
            gathers = self.ranks[r].gathers
            gathers[op.attrs["source"]] = gathers.get(op.attrs["source"], 0) + 1

    def start_reduce_scatter(self, op, ranks):
        """Chunk i of the input goes to the scratch memory of rank i."""
        inputs = [self.ranks[r].env[op.operands[0]] for r in ranks]
        if "residual" in op.attrs:
            inputs = [self.quantized(op, r, i, x, len(ranks)) for i, (r, x) in enumerate(zip(ranks, inputs))]
        size = -(-inputs[0].size // len(ranks))
        padded = [np.append(x.reshape(-1), np.zeros(size * len(ranks) - x.size, x.dtype)) for x in inputs]
        is_quantized = "residual" in op.attrs
        self.count(op, len(ranks), message_bytes(op.attrs["code"], size) if is_quantized else size * inputs[0].itemsize)
        for i, r in enumerate(self.in_axis_order(op, ranks)):
            rank = self.ranks[r]
            chunks = np.concatenate([x[i * size:(i + 1) * size] for x in padded])
            if self.planned:
                scratch = self.place(rank, op.attrs["scratch"], op.operand_types[0])
                scratch[:] = chunks
                chunks = scratch
            rank.env["scratch", op.result()] = chunks

    def quantized(self, op, r, position, values, ranks):
        """Returns what a rank sends: its values and the remainders of earlier messages, rounded. It keeps its own
        part."""
        element = shape_of(op.operand_types[0])[1]
        residual = self.states[r][op.attrs["residual"]]
        wanted = widen(values, element).astype(np.float32) + residual
        sent = round_to(rounded_to_few(wanted), element)
        left_out = wanted - widen(sent, element)
        own = slice(position * values.size // ranks, (position + 1) * values.size // ranks)
        sent[own], left_out[own] = values[own], 0
        residual[:] = left_out
        return sent

    def finish_reduce_scatter(self, op, ranks):
        element, to = shape_of(op.operand_types[0])[1], shape_of(op.result_types[0])[1]
        both = len(op.attrs["axes"]) == 2
        for r in ranks:
            rank = self.ranks[r]
            chunks = np.split(widen(rank.env["scratch", op.result()], element).astype(np.float32), len(ranks))
            rank.env[op.result()][:] = round_to(self.sum(chunks, element) if both else sum_in_order(chunks), to)

    def sum(self, chunks, element):
        """Over both axes: within nodes first, rounded on the wire between."""
        nodes = [sum_in_order(chunks[n * self.g:(n + 1) * self.g]) for n in range(self.N)]
        if self.g > 1 and self.N > 1:
            nodes = [widen(round_to(x, element), element).astype(np.float32) for x in nodes]
        return sum_in_order(nodes)

    def count(self, op, ranks, part):
        """Each rank sends a part of so many bytes to each rank of other nodes."""
        if "node" in op.attrs["axes"]:
            outside = (self.N - 1) * (self.g if "local" in op.attrs["axes"] else 1)
            self.call.bytes_between_nodes += part * outside * ranks

    def finish_cache_store(self, op, ranks):
        rank = self.ranks[ranks[0]]
        self.states[ranks[0]][op.attrs["target"]][:] = rank.env[op.operands[0]]

    def start_cache_load(self, op, ranks):
        out = self.ranks[ranks[0]].env[op.result()]
        out.view(np.uint8)[:] = self.noisy(out.nbytes)

    def finish_cache_load(self, op, ranks):
        self.ranks[ranks[0]].env[op.result()][:] = self.states[ranks[0]][op.attrs["source"]]

    # The compute stream.

    def do_record(self, rank, index, op):
        self.call.events.add((index, self.call.recorded[op.result()]))

    def do_wait(self, rank, index, op):
        pass

    def do_return(self, rank, index, op):
        pass

    def do_release(self, rank, index, op):
        if not self.planned and op.operands[0] not in self.call.resident:
            value = rank.env[op.operands[0]]
            value.reshape(-1).view(np.uint8)[:] = self.noisy(value.nbytes)

    def do_read_input(self, rank, index, op):
        rank.env[op.result()] = self.call.inputs[index][op.attrs["source"]]

    def do_read_shard(self, rank, index, op):
        name = op.attrs["source"]
        if name in self.module.of("bucket"):
            rank.env[op.result()] = rank.by_role[name, "shard"]
            return
        flat = self.parameters[name].reshape(-1)
        size = -(-flat.size // len(self.ranks))
        flat = np.append(flat, np.zeros(size * len(self.ranks) - flat.size, flat.dtype))
        rank.env[op.result()] = flat[self.owned(rank) * size:][:size]

    def do_read_state(self, rank, index, op):
        rank.env[op.result()] = rank.states[op.attrs["source"]]

    def do_cast_shard(self, rank, index, op):
        element, to = shape_of(op.operand_types[0])[1], shape_of(op.result_types[0])[1]
        rank.env[op.result()][:] = round_to(widen(rank.env[op.operands[0]], element), to)

    def member(self, bucket, parameter, whole):
        offset = dict(self.module.of("bucket")[bucket]["members"])[parameter]
        shape, _ = shape_of(self.module.of("parameter")[parameter]["type"])
        return whole[offset:offset + math.prod(shape)].reshape(shape)

    def do_view_member(self, rank, index, op):
        rank.env[op.result()] = self.member(op.attrs["bucket"], op.attrs["parameter"], rank.env[op.operands[0]])

    def write_in_place(self, rank, value, result):
        pack, parameter = self.call.in_place[value]
        place = self.member(pack.attrs["bucket"], parameter, rank.env[pack.result()]).reshape(result.shape)
        place[...] = result
        return place

    def do_pack(self, rank, index, op):
        whole = rank.env[op.result()]
        values = [rank.env[v] for v in op.operands]
        in_place = op.attrs.get("in_place", ())
        padding = np.ones(whole.shape, bool)
        for parameter in in_place:
            self.member(op.attrs["bucket"], parameter, padding)[...] = False
        whole[padding] = 0
        to = shape_of(op.result_types[0])[1]
        for value, type_text, parameter in zip(values, op.operand_types, op.attrs["parameters"]):
            if parameter not in in_place:
                element = shape_of(type_text)[1]
                packed = value if element == to else round_to(widen(value, element), to)
                self.member(op.attrs["bucket"], parameter, whole)[...] = packed

    def do_accumulate(self, rank, index, op):
        value, target = rank.env[op.operands[0]], op.attrs["target"]
        if target in rank.states:
            accumulator = rank.states[target]
        elif (target, "grad") in rank.by_role:
            accumulator = rank.by_role[target, "grad"]
        else:
            element = shape_of(op.operand_types[0])[1]
            value = widen(value, element).astype(np.float32)
            accumulator = rank.gradients.setdefault(target, np.zeros_like(value))
        accumulator[:] = value if op.attrs["mode"] == "overwrite" else accumulator + value

    def do_add(self, rank, index, op):
        sum_, value = (rank.env[v] for v in op.operands)
        rank.env[op.result()][:] = sum_ + value

    def do_loss(self, rank, index, op):
        self.call.losses[index] = rank.env[op.operands[0]].tobytes()

    def do_shard_update(self, rank, index, op):
        """SGD without momentum, which is enough to make copies stale."""
        target, lr = op.attrs["target"], op.attrs["optimizer"]["lr"]
        scale = np.float32(op.attrs["scale"])
        bucket = self.module.of("bucket")[target]
        shard, gradient = rank.by_role[target, "shard"], rank.by_role[target, "grad"]
        if "master" in bucket:
            master = rank.by_role[target, "master"]
            master[:] = update(master, gradient, scale, lr, "f32")
            shard[:] = round_to(master, bucket["storage"])
        else:
            shard[:] = update(shard, gradient, scale, lr, bucket["storage"])


    def own(self, rank, target):
        """Returns the parameters that outer steps synchronize, which are the optimizer's, and their type."""
        if (target, "master") in rank.by_role:
            return rank.by_role[target, "master"], "f32"
        return rank.by_role[target, "shard"], self.module.of("bucket")[target]["storage"]

    def do_outer_difference(self, rank, index, op):
        target = op.attrs["source"]
        own, element = self.own(rank, target)
        difference = rank.by_role[target, "outer"] - widen(own, element).astype(np.float32)
        rank.env[op.result()][:] = round_to(difference, shape_of(op.result_types[0])[1])

    def do_outer_update(self, rank, index, op):
        target = op.attrs["target"]
        total = widen(rank.env[op.operands[0]], shape_of(op.operand_types[0])[1]).astype(np.float32)
        outer, momentum = rank.by_role[target, "outer"], rank.by_role.get((target, "outer_momentum"))
        outer[:] = update_outer(outer, momentum, total, op.attrs["scale"], self.module.attrs["fcdp.outer"])
        if (target, "master") in rank.by_role:
            rank.by_role[target, "master"][:] = outer
        rank.by_role[target, "shard"][:] = round_to(outer, self.module.of("bucket")[target]["storage"])


def between_synchronizations(calls):
    """Runs of calls of which each begins when the ones before have ended on all streams."""
    parts = []
    for i, call in enumerate(calls):
        if i == 0 or call.is_synchronized or calls[i - 1].is_synchronized:
            parts.append([])
        parts[-1].append(call)
    return parts


def update_outer(outer, momentum, total, scale, settings):
    """SGD in f32 on the mean of differences. Momentum is updated in place."""
    gradient = total * np.float32(scale)
    if momentum is not None:
        momentum[...] = momentum * np.float32(settings["momentum"]) + gradient
        ahead = momentum * np.float32(settings["momentum"]) + gradient
        gradient = ahead if settings["nesterov"] else momentum
    return outer - gradient * np.float32(settings["lr"])


def sum_in_order(chunks):
    total = chunks[0].astype(np.float32)
    for chunk in chunks[1:]:
        total = total + chunk.astype(np.float32)
    return total


def update(parameter, gradient, scale, lr, element):
    values = widen(parameter, element)
    scaled = widen(round_to(gradient * scale, element), element)
    return round_to(values - values.dtype.type(lr) * scaled, element)
