# SPDX-License-Identifier: Apache-2.0


class ExportError(RuntimeError):
    """Raised if the model or its inputs cannot be exported. The message says what to change."""
