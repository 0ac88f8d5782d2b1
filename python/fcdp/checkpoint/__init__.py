# SPDX-License-Identifier: Apache-2.0
"""Reads, compares, converts and removes checkpoints: the command fcdp-ckpt."""
