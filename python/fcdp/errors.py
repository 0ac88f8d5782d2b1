# SPDX-License-Identifier: Apache-2.0


class ExportError(RuntimeError):
    """Raised if the model or its inputs cannot be exported. The message says what to change."""


class StepError(RuntimeError):
    """Raised if a compiled step cannot be made or run.

    `code` says why: one of docs/embedding.md in lower case ("peer failed"), "install" if parts of the package are
    missing, or "compile" for what fcdp-compile refuses.
    """

    def __init__(self, code: str, message: str):
        super().__init__(message)
        self.code = code
