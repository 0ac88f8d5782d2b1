# SPDX-License-Identifier: Apache-2.0
"""Runs a command and writes what the kernel says of it at its end: peak.py PREFIX COMMAND...

The file PREFIX and the rank has the greatest number of bytes of memory, with pages that are shared.
The same with .cpu has the seconds of processors that it and its children have used.
"""

import os
import subprocess
import sys

if __name__ == "__main__":
    process = subprocess.Popen(sys.argv[2:])
    _, status, usage = os.wait4(process.pid, 0)
    with open(sys.argv[1] + os.environ["RANK"], "w") as file:
        file.write(str(usage.ru_maxrss * 1024))
    with open(sys.argv[1] + os.environ["RANK"] + ".cpu", "w") as file:
        file.write(str(usage.ru_utime + usage.ru_stime))
    sys.exit(os.waitstatus_to_exitcode(status) != 0)
