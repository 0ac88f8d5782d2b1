# SPDX-License-Identifier: Apache-2.0


class ExportError(RuntimeError):
    """The model or its inputs cannot be exported; the message says what to change."""
