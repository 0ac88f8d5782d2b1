# SPDX-License-Identifier: Apache-2.0
"""Runs a command and writes the greatest number of bytes of memory that it has had: peak.py PREFIX COMMAND...

The file is PREFIX and the rank. Pages that it shares with other processes count.
"""

import os
import subprocess
import sys

if __name__ == "__main__":
    process = subprocess.Popen(sys.argv[2:])
    _, status, usage = os.wait4(process.pid, 0)
    with open(sys.argv[1] + os.environ["RANK"], "w") as file:
        file.write(str(usage.ru_maxrss * 1024))
    sys.exit(os.waitstatus_to_exitcode(status) != 0)
