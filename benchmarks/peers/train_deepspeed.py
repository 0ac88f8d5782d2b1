# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed's ZeRO-3."""

from dataclasses import dataclass
from typing import Any

import deepspeed
import torch
from torch import nn

from trainer import TIMEOUT, make_optimizer


@dataclass
class _Engine:
    engine: Any

    def step(self, batches: list[list[torch.Tensor]]) -> torch.Tensor:
        total = torch.zeros(())
        for batch in batches:
            loss = self.engine(*batch)
            self.engine.backward(loss)
            self.engine.step()
            total += loss.detach()
        return total / len(batches)


def prepare(model: nn.Module, job: dict[str, Any]) -> _Engine:
    deepspeed.init_distributed("gloo", timeout=TIMEOUT, verbose=False)
    config = {
        "train_micro_batch_size_per_gpu": job["batch"],
        "gradient_accumulation_steps": job["micro_batches"],
        # The default is 1.
        "gradient_clipping": 0.0,
        "bf16": {"enabled": job["dtype"] == "bf16"},
        "zero_optimization": {"stage": 3, "overlap_comm": True, "contiguous_gradients": True, **job["settings"]},
    }
    engine, *_ = deepspeed.initialize(model=model, optimizer=make_optimizer(model, job), config=config)
    return _Engine(engine)
