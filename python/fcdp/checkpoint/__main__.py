# SPDX-License-Identifier: Apache-2.0
import sys

from fcdp.checkpoint.cli import program

sys.exit(program())
