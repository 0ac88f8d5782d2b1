# SPDX-License-Identifier: Apache-2.0
"""One module for each source of published runs.

Each has `load(folder)`, which reads the source's tables in `folder`.
"""
