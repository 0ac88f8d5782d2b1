# SPDX-License-Identifier: Apache-2.0
"""Compiled steps in the training loops of other packages, through their public interfaces. Each needs its package."""
