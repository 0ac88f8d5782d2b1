#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints "passed failed skipped" of a JUnit XML file, as lit, ctest and pytest write it."""

import sys
import xml.etree.ElementTree as ElementTree


def main() -> None:
    suites = ElementTree.parse(sys.argv[1]).getroot().iter("testsuite")
    total = failed = skipped = 0
    for suite in suites:
        total += int(suite.get("tests", 0))
        failed += int(suite.get("failures", 0)) + int(suite.get("errors", 0))
        skipped += int(suite.get("skipped", 0)) + int(suite.get("disabled", 0))
    print(total - failed - skipped, failed, skipped)


if __name__ == "__main__":
    main()
