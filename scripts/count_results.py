#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints "passed failed skipped" of JUnit XML files, as lit, GoogleTest and pytest write them."""

import sys
import xml.etree.ElementTree as ElementTree


def main() -> None:
    total = failed = skipped = 0
    for path in sys.argv[1:]:
        for suite in ElementTree.parse(path).getroot().iter("testsuite"):
            total += int(suite.get("tests", 0))
            failed += int(suite.get("failures", 0)) + int(suite.get("errors", 0))
            skipped += int(suite.get("skipped", 0)) + int(suite.get("disabled", 0))
    print(total - failed - skipped, failed, skipped)


if __name__ == "__main__":
    main()
