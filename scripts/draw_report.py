#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Takes the pictures of fcdp-sim's report that docs/simulator.md shows, in a browser, in light and in dark colours.

The report compares the README's strategies. ARCHIVE is the README's step, which examples/simulate/llama_8b.py exports.

example: scripts/draw_report.py llama.pt2 docs
"""

import argparse
import re
import subprocess
import tempfile
from pathlib import Path

from browser import Browser, find_browser

ROOT = Path(__file__).resolve().parents[1]
# The sizes of windows, in CSS pixels. The phone's picture has two pixels for each of them.
WINDOWS = {"report": (1200, 760, 1), "report-phone": (390, 800, 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("archive", type=Path, help="the step to simulate")
    parser.add_argument("folder", type=Path, help=f"the folder for {', '.join(f'{name}-light.webp, {name}-dark.webp' for name in WINDOWS)}")
    args = parser.parse_args()
    program = find_browser()
    if not program:
        parser.error("expected a browser; scripts/setup --browser installs one")
    options = re.findall(r'^    ON="(.*)"$', (ROOT / "README.md").read_text(), re.M)[0].split()
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        command = [ROOT / "build/bin/fcdp-sim", args.archive, *options, f"--report={page}"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        with Browser(program) as browser:
            for name, (width, height, scale) in WINDOWS.items():
                for scheme in ("light", "dark"):
                    browser.open(page, width, height, scheme, scale)
                    browser.screenshot(args.folder / f"{name}-{scheme}.webp", format="webp", quality=80)


if __name__ == "__main__":
    main()
