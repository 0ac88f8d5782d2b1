# SPDX-License-Identifier: Apache-2.0
"""The memory that fcdp-compile reports."""

import re

# The limit of memory that gaps between lifetimes may waste, in per cent of the peak in use.
MOST_LOST = 5.0
# Memory in flight over function boundaries has one place in all functions, which costs more in a small step.
MOST_LOST_SMALL = 8.0


def loss(summary: str) -> float:
    """Returns the loss to gaps in the arena, in per cent, from the output of fcdp-compile."""
    (lost,) = re.findall(r"^ +arena .*, (\S+) % over", summary, re.MULTILINE)
    return float(lost)
