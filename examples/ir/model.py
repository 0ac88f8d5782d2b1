# SPDX-License-Identifier: Apache-2.0
"""Exports a training step of two layers, each with two matrices.

example: python examples/ir/model.py two_layers.pt2
"""

import argparse

import torch
from torch import nn

import fcdp


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(4, 8, bias=False)
        self.down = nn.Linear(8, 4, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(torch.tanh(self.up(x)))


class TwoLayers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Layer(), Layer()])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x.square().mean()


def export(path: str) -> None:
    fcdp.export(TwoLayers(), {"x": torch.ones(3, 4)}, path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("archive", help="the archive to write")
    export(parser.parse_args().archive)
