# SPDX-License-Identifier: Apache-2.0
"""Writes an archive of a small step with one parameter; uses Import/Inputs/archive.py."""

import sys

from archive import step

step().save(sys.argv[1])
