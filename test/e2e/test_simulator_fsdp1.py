# SPDX-License-Identifier: Apache-2.0
"""Compares the whole parameters and gradients that a rank has, by benchmarks/simulator and in PyTorch's own FSDP.

A process group that sends nothing takes the place of the other ranks.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

RANKS, LAYERS, WIDTH, VOCABULARY = 4, 4, 8, 40
PROGRAM = """
import functools, json, sys
from unittest import mock
import torch, torch.distributed as dist
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import apply_activation_checkpointing
from torch.distributed.fsdp import FullyShardedDataParallel as Fsdp, MixedPrecision, _runtime_utils
from torch.distributed.fsdp.wrap import _or_policy, lambda_auto_wrap_policy, transformer_auto_wrap_policy
from torch.testing._internal.distributed.fake_pg import FakeStore

ranks, layers, width, vocabulary = map(int, sys.argv[1:])


class Layer(nn.Module):
    def __init__(self, adapts):
        super().__init__()
        self.up, self.down, self.idle = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.lora = nn.Linear(width, width, bias=False) if adapts else None

    def forward(self, x):
        return x + self.down(self.up(x) + (self.lora(x) if self.lora else 0))


class Model(nn.Module):
    def __init__(self, adapts):
        super().__init__()
        self.tokens, self.head = nn.Embedding(vocabulary, width), nn.Linear(width, vocabulary, bias=False)
        self.layers = nn.ModuleList(Layer(adapts) for _ in range(layers))

    def forward(self, ids):
        x = self.tokens(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(x).float().sum()


def record(function, handles, gathered):
    def wrapped(*given):
        result = function(*given)
        gathered.append(sum(handle.flat_param._full_param_padded.untyped_storage().size() for handle in handles))
        return result
    return wrapped


def measure(adapts):
    model = Model(adapts).bfloat16()
    if adapts:
        for name, parameter in model.named_parameters():
            parameter.requires_grad_("lora" in name)
    # PEFT's policy: layers and, in them, modules without children whose weight is trained
    is_trained = lambda module: not list(module.children()) and module.weight.requires_grad
    policies = [functools.partial(lambda_auto_wrap_policy, lambda_fn=is_trained),
                functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={Layer})]
    model = Fsdp(model, auto_wrap_policy=functools.partial(_or_policy, policies=policies), device_id=torch.device("cpu"),
                 mixed_precision=MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16), limit_all_gathers=False)
    apply_activation_checkpointing(model, check_fn=lambda module: isinstance(module, Layer))
    handles = [module._handle for module in model.modules() if isinstance(module, Fsdp) and module._handle]
    gathered = []
    with mock.patch.object(_runtime_utils, "_unshard", record(_runtime_utils._unshard, handles, gathered)), \\
         mock.patch.object(_runtime_utils, "_reshard", record(_runtime_utils._reshard, handles, gathered)), model.no_sync():
        loss = model(torch.zeros(2, 3, dtype=torch.int64))
        after_forward = gathered[-1]
        loss.backward()
    gradients = sum(p.grad.nbytes for p in model.parameters() if p.grad is not None)
    return max(gathered), after_forward, gradients


dist.init_process_group("fake", rank=0, world_size=ranks, store=FakeStore())
print(json.dumps({"adapters": measure(True), "whole": measure(False)}))
"""


@pytest.fixture(scope="module")
def measured() -> dict[str, list[int]]:
    """Returns the most bytes of gathered parameters at once, those between the passes, and those of gradients at the
    end."""
    command = [sys.executable, "-c", PROGRAM, *map(str, (RANKS, LAYERS, WIDTH, VOCABULARY))]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parent)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


MATRIX, ROOT = 2 * WIDTH**2, 2 * 2 * VOCABULARY * WIDTH
"""Bytes of a linear layer in bfloat16, and of the embedding with the head."""


def test_adapters_leave_the_root_and_two_layers_gathered(measured):
    most, between, gradients = measured["adapters"]
    assert between == ROOT
    assert ROOT + 2 * 3 * MATRIX <= most <= ROOT + 2 * 3 * MATRIX + 2 * MATRIX  # and at most two adapters
    assert gradients == LAYERS * MATRIX


def test_gradients_are_whole_without_those_of_idle_modules(measured):
    most, between, gradients = measured["whole"]
    assert between == 0
    assert gradients == LAYERS * 2 * MATRIX + ROOT
    assert most < ROOT + MATRIX  # the embedding and the head are units of their own, as each linear layer
