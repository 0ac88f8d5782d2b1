# SPDX-License-Identifier: Apache-2.0
"""Runs a compiled step in a training loop of PyTorch."""
