// SPDX-License-Identifier: Apache-2.0
#include "output/StateChangeText.h"

#include <gtest/gtest.h>

using namespace fcdp;
using namespace fcdp::run;

namespace {

/// Expects as many lines as parts, each of which contains its part.
void expectParts(const std::vector<std::string> &lines,
                 const std::vector<std::string> &parts) {
  ASSERT_EQ(lines.size(), parts.size());
  for (size_t i = 0; i < parts.size(); ++i)
    EXPECT_NE(lines[i].find(parts[i]), std::string::npos)
        << lines[i] << " lacks: " << parts[i];
}

TEST(StateChangeTextTest, EachChangeIsALine) {
  StateChanges changes;
  changes.masters = {3, 4};
  changes.nodeSums = {5, 6, true};
  changes.outer = {true, true, true};
  expectParts(describeChanges(changes, /*hasOuterSteps=*/true),
              {"the checkpoint has no masters of 3 parameters: they start",
               "the step has no masters of 4 parameters: it goes on",
               "the checkpoint has no states of outer steps",
               "the step has no outer steps, or none with momentum",
               "the optimizer's states of one of them for each node",
               "in 8 or 4 bits of 5 parameters: they start as zeros",
               "no reductions in 8 or 4 bits of 6 parameters",
               "to the nodes of this job, with the same sum"});
}

TEST(StateChangeTextTest, JoinedNodesGoOnFromTheFirst) {
  StateChanges changes;
  changes.outer.areJoined = true;
  expectParts(describeChanges(changes, /*hasOuterSteps=*/false),
              {"the optimizer's states of the first"});
}

TEST(StateChangeTextTest, DontDescribeWhatIsTheSame) {
  expectParts(describeChanges({}, /*hasOuterSteps=*/true), {});
}

} // namespace
