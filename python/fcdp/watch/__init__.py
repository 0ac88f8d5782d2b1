# SPDX-License-Identifier: Apache-2.0
"""Finds what a model does beside computing from inputs and weights, which a compiled step would lose in silence.

Structure shows hooks on gradients, and a pass of plain PyTorch the rest: it may be one of tensors without values.
"""

from fcdp.watch.step import watched_step
from fcdp.watch.structure import refuse_structure

__all__ = ["refuse_structure", "watched_step"]
