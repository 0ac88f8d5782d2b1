# SPDX-License-Identifier: Apache-2.0

import os
import re

# They include the characters of Unicode that change the order of text on a terminal, or begin a line.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


# Shows all that PyTorch says of a model that it cannot trace.
_TORCH_MESSAGES = "FCDP_TORCH_MESSAGES"


def with_lines_of_torch(message: str, lines: list[str]) -> str:
    """Returns the message with PyTorch's further lines, 20 to 300 of them, if the user asks for them, or how to ask."""
    if shows_torch_messages():
        return "\n".join([message, *lines])
    return f"{message}\n{_TORCH_MESSAGES}=1 shows all that PyTorch says of it" if lines else message


def shows_torch_messages() -> bool:
    return os.environ.get(_TORCH_MESSAGES, "") not in ("", "0")


def printable(text: str) -> str:
    """Returns text with control characters, but for tabs and ends of lines, as "\\x1b": a terminal would obey them.

    Names of parameters and files may have them.
    """
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def printable_line(text: str) -> str:
    """Returns what `printable` does, with ends of lines as "\\n": the text is one line."""
    return printable(text).replace("\n", "\\n")


class ExportError(RuntimeError):
    """Raised if the model or its inputs cannot be exported. The message says what to change."""

    def __init__(self, message: str):
        super().__init__(printable(message))


class StepError(RuntimeError):
    """Raised if a compiled step cannot be made or run.

    `code` says why: one of docs/embedding.md in lower case ("peer failed"), "install" if parts of the package are
    missing, or "compile" for what fcdp-compile refuses.
    """

    def __init__(self, code: str, message: str):
        super().__init__(printable(message))
        self.code = code
