# SPDX-License-Identifier: Apache-2.0
"""What fcdp-compile says of memory."""

import re

# What is lost to gaps between lifetimes, in per cent of the most that is in use at once.
MOST_LOST = 5.0


def losses(summary: str) -> dict[str, float]:
    """Of arena and pool, in per cent, from what fcdp-compile prints."""
    found = dict(re.findall(r"^ +(arena|pool) .*, (\S+) % over", summary, re.MULTILINE))
    assert found.keys() == {"arena", "pool"}
    return {name: float(lost) for name, lost in found.items()}
