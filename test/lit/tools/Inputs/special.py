# SPDX-License-Identifier: Apache-2.0
"""Makes a socket, and text that is nested deeply."""

import socket

with socket.socket(socket.AF_UNIX) as made:
    made.bind("socket")
with open("deep.mlir", "w") as deep:
    deep.write("module {" * 20000 + "}" * 20000)
