// SPDX-License-Identifier: Apache-2.0
#include "core/Printable.h"

#include <gtest/gtest.h>

using namespace fcdp;

TEST(Printable, ControlCharactersAreSpelled) {
  EXPECT_EQ(printable("plain: \xc3\xa4 \xe2\x82\xac"),
            "plain: \xc3\xa4 \xe2\x82\xac");
  EXPECT_EQ(printable("a\x1b[31mb\nc\td\x7f"), "a\\x1b[31mb\\nc\\x09d\\x7f");
  // U+009B begins a command of a terminal, too.
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\xc2\\x9b31m");
  EXPECT_EQ(printable("\xc2"), "\xc2");
  // U+202E and U+2066 change the order of what follows.
  EXPECT_EQ(printable("\xe2\x80\xae"
                      "a\xe2\x81\xa6"),
            "\\xe2\\x80\\xaea\\xe2\\x81\\xa6");
  EXPECT_EQ(printable("\xe2\x80"), "\xe2\x80");
}
