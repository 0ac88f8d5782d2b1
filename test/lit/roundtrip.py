# SPDX-License-Identifier: Apache-2.0
import lit.formats


class FcdpOptTest(lit.formats.ShTest):
    """Finds the tests in which fcdp-opt runs."""

    def getTestsForPath(self, suite, path, lit_config, local_config):
        for test in super().getTestsForPath(suite, path, lit_config, local_config):
            with open(test.getSourcePath(), encoding="utf-8") as file:
                text = file.read()
            if "fcdp-opt" in text or "%check-" in text:
                yield test
