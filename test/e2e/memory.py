# SPDX-License-Identifier: Apache-2.0
"""What fcdp-compile says of memory."""

import re

# What is lost to gaps between lifetimes, in per cent of the most that is in use at once.
MOST_LOST = 5.0
# What is in flight over the ends of functions has one place in all of them; of a small step that costs more.
MOST_LOST_SMALL = 8.0


def loss(summary: str) -> float:
    """Of the arena, in per cent, from what fcdp-compile prints."""
    (lost,) = re.findall(r"^ +arena .*, (\S+) % over", summary, re.MULTILINE)
    return float(lost)
