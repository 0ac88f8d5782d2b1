# SPDX-License-Identifier: Apache-2.0
"""The simulation of ranks itself: what it computes, and that it finds what is wrong with a step."""

import numpy as np
import pytest

from check_steps import OuterReference, Reference, check_bytes, run
from ir import Module, Op, shape_of
from machine import Mismatch, between_synchronizations, update_outer
from streams import STREAMS, Deadlock, Policy, Queues, policies
from tensors import call, round_to, widen
from tiny import IMPORTED, PLANNED

WAIT_FOR_GATHER = '"fcdp.wait"(%4) <{stream = #fcdp<stream compute>}> : (!fcdp.token) -> ()\n'
COMPUTE_FIRST = Policy(1, STREAMS)


def reference() -> Reference:
    return Reference(IMPORTED, 2, 1, 1, "sharded")


# --- reading modules ---


def test_reads_operations() -> None:
    module = Module(PLANNED)
    assert module.phase == "planned" and list(module.functions) == ["init", "only_microbatch", "update"]
    assert module.of("mesh") == {"world": {"local": 1, "node": 2, "sym_name": "world"}}
    assert module.of("bucket")["bucket.a"]["members"] == [("w", 0)]
    (gather,) = (op for op in module.functions["only_microbatch"] if op.name == "fcdp.all_gather")
    assert (gather.operands, gather.results, gather.attrs["axes"]) == (["%2"], ["%3"], ["node"])
    assert gather.attrs["buffer"] == {"arena": "device", "offset": 128, "bytes": 128}
    assert module.arguments["update"] == [("%arg0", 3)]


def test_refuses_other_text() -> None:
    with pytest.raises(SyntaxError, match="cannot read"):
        Module(PLANNED.replace("%3 =", "?"))


def test_shapes() -> None:
    assert shape_of("tensor<2x4xbf16>") == ((2, 4), "bf16")
    assert shape_of("tensor<f32>") == ((), "f32")
    assert shape_of("!fcdp.shard<tensor<8xf32>>") == ((8,), "f32")


# --- tensors ---


def test_bf16_is_rounded_to_nearest_even() -> None:
    exact, half = np.float32(1.0), np.float32(2.0**-8)  # half of the last place of 1.0
    values = np.array([exact, exact + half, exact + half * np.float32(1.01), exact + 3 * half], np.float32)
    assert widen(round_to(values, "bf16"), "bf16").tolist() == [1.0, 1.0, 1.0 + 2 * half, 1.0 + 4 * half]


def make_call(callee: str, operands: int, result: str, **attributes: object) -> Op:
    names, args = [f"a{i}" for i in range(operands)], [("#aten.operand", i) for i in range(operands)]
    attrs = {"callee": callee, "argNames": [*names, *attributes], "args": [*args, *attributes.values()]}
    return Op("aten.call", ["%r"], names, attrs, ["tensor<2x2xbf16>"] * operands, [result])


def test_operators_compute_in_f32_and_round_once() -> None:
    values = {"a0": round_to(np.full((2, 2), 1.0), "bf16"), "a1": round_to(np.full((2, 2), 2.0**-9), "bf16")}
    op = make_call("aten.add.Tensor", 2, "tensor<2x2xf32>")
    assert (call(op, values.__getitem__)[0] == 1 + 2.0**-9).all()
    op = make_call("aten.add.Tensor", 2, "tensor<2x2xbf16>")
    assert (widen(call(op, values.__getitem__)[0], "bf16") == 1).all()


def test_views_share_memory() -> None:
    values = {"a0": np.zeros((2, 2), np.uint16)}
    op = make_call("aten.view.default", 1, "tensor<4xbf16>", size=[4])
    assert np.shares_memory(call(op, values.__getitem__)[0], values["a0"])
    op = make_call("aten.clone.default", 1, "tensor<2x2xbf16>")
    assert not np.shares_memory(call(op, values.__getitem__)[0], values["a0"])


# --- the order of events ---


class Running:
    """A call of a function, as far as queues look at it."""

    def __init__(self, body: list[Op]) -> None:
        self.body, self.events = body, set()
        self.recorded = {op.result(): op.result() for op in body if op.name == "fcdp.record"}
        self.waited = {token: (self, event) for token, event in self.recorded.items()}


def make_queues(body: list[Op], ranks: int = 1) -> Queues:
    keys = [(rank, stream) for rank in range(ranks) for stream in STREAMS]
    return Queues(keys, [Running(body)], lambda rank, op: list(range(ranks)))


def ready(queues: Queues) -> set[tuple[int, str]]:
    return {queues.keys[place] for place in queues.ready}


def test_a_stream_waits_for_its_event() -> None:
    record = Op("fcdp.record", ["%t"], [], {"stream": "inter"})
    wait = Op("fcdp.wait", [], ["%t"], {"stream": "intra"})
    queues = make_queues([record, wait])
    assert ready(queues) == {(0, "compute"), (0, "inter")}
    queues.advance([0], "inter")
    assert ready(queues) == {(0, "compute"), (0, "intra")}
    queues.advance([0], "intra")
    queues.advance([0], "compute")  # its beginning
    queues.advance([0], "compute")  # its end
    assert not queues.ready and not queues.stuck()


def test_a_collective_needs_all_its_ranks() -> None:
    copy, gather = Op("fcdp.cache_load", ["%a"], [], {"stream": "inter"}), Op("fcdp.all_gather", ["%b"], [], {"stream": "inter"})
    queues = make_queues([copy, gather], ranks=2)
    queues.advance([0], "inter")
    assert (0, "inter") not in ready(queues) and (1, "inter") in ready(queues)
    queues.advance([1], "inter")
    assert {(0, "inter"), (1, "inter")} <= ready(queues)
    assert queues.stuck()[0, "inter"] == "fcdp.all_gather"


def test_policies() -> None:
    keys = [(rank, stream) for rank in range(2) for stream in STREAMS]
    order = Policy(1, ["intra", *(s for s in STREAMS if s != "intra")]).order(keys)
    assert {stream for _, stream in order[:2]} == {"intra"} and sorted(order) == sorted(keys)
    assert Policy(1, STREAMS).pick({5, 3, 9}) == 3
    assert {Policy(seed).pick({5, 3, 9}) for seed in range(20)} == {5, 3, 9}
    assert len(list(policies(2))) == 2 * len(STREAMS) + 2


# --- whole steps ---


def test_the_reference_is_sgd_on_the_mean_gradient() -> None:
    made = reference()
    inputs = [rank["x"] for rank in made.inputs[0][0]]
    gradient = inputs[0] + inputs[1]
    assert (made.gradients[0]["w"] == gradient).all()
    assert (made.after[0]["w"] == made.weights["w"] - np.float32(0.5) * (gradient * np.float32(0.5))).all()
    assert len(made.losses) == 2 * 2  # steps and ranks


def test_every_policy_agrees() -> None:
    for policy in policies(4):
        machine, sent = run(reference(), Module(PLANNED), policy)
        check_bytes(machine, sent, "zero3", "sharded", "two-level")


def test_bytes_are_those_of_the_closed_form() -> None:
    machine, sent = run(reference(), Module(PLANNED), COMPUTE_FIRST)
    assert sent == [128, 128]  # half of a gather and of a reduction of 128 bytes each, in each step
    with pytest.raises(Mismatch, match="bytes leave a node, expected 128"):
        check_bytes(machine, [128, 64], "zero3", "sharded", "two-level")


# --- outer steps ---


def test_an_outer_update_is_sgd_on_the_mean_difference() -> None:
    outer, momentum, total = (np.array([value], np.float32) for value in (8, 1, 4))
    settings = {"lr": 0.5, "momentum": 0.5, "nesterov": False}
    # The mean of two nodes is 2, and the momentum 0.5 * 1 + 2.
    assert update_outer(outer, momentum, total, 0.5, settings).tolist() == [8 - 0.5 * 2.5]
    assert momentum.tolist() == [2.5]
    # Then it is 0.5 * 2.5 + 2, and Nesterov's rule looks ahead by half of that.
    settings["nesterov"] = True
    assert update_outer(outer, momentum, total, 0.5, settings).tolist() == [8 - 0.5 * (2 + 0.5 * 3.25)]
    assert update_outer(outer, None, total, 0.5, settings).tolist() == [8 - 0.5 * 2]


def test_fragments_take_turns() -> None:
    made = OuterReference.__new__(OuterReference)
    made.settings = {"every": 4, "fragments": 2}
    assert [made.due(step) for step in range(8)] == [[], [1], [], [0], [], [1], [], [0]]
    assert made.outer_updates(3) == ["outer_update.0"]
    made.settings = {"every": 2, "fragments": 1}
    assert [made.outer_updates(step) for step in range(4)] == [[], ["outer_update"], [], ["outer_update"]]


def test_streams_are_joined_at_an_outer_update() -> None:
    calls = [Running([]) for _ in range(5)]
    for call, is_synchronized in zip(calls, (False, False, True, True, False)):
        call.is_synchronized = is_synchronized
    assert between_synchronizations(calls) == [calls[:2], calls[2:3], calls[3:4], calls[4:]]


@pytest.mark.parametrize(
    "good, bad",
    [
        (WAIT_FOR_GATHER, ""),
        # The gradient is packed where the states are.
        ("offset = 128, bytes = 128>, parameters", "offset = 0, bytes = 128>, parameters"),
        ("fcdp<accumulate_mode overwrite>", "fcdp<accumulate_mode add>"),
        ("scale = 5.000000e-01", "scale = 1.000000e+00"),
        # The scratch memory of the reduction is where the parameter is.
        ("offset = 256, bytes = 128", "offset = 0, bytes = 128"),
    ],
    ids=["no wait", "pack over states", "sum of two steps", "another scale", "scratch over states"],
)
def test_what_is_broken_differs(good: str, bad: str) -> None:
    assert PLANNED.count(good) == 1
    broken = Module(PLANNED.replace(good, bad))
    with pytest.raises(Mismatch):
        for policy in policies(4):
            run(reference(), broken, policy)


def test_a_stream_that_waits_for_itself_is_a_deadlock() -> None:
    gather = '%3 = "fcdp.all_gather"'
    broken = Module(PLANNED.replace(gather, WAIT_FOR_GATHER.replace("compute", "inter") + gather))
    with pytest.raises(Deadlock, match=r"nothing can go on: .*\(1, 'inter'\): 'fcdp.wait'"):
        run(reference(), broken, COMPUTE_FIRST)
