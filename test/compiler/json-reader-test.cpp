// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Support/JsonReader.h"

#include "gtest/gtest.h"

using namespace fcdp;

namespace {
/// What is said of `text` where a list of strings is expected.
std::string complain(const std::string &text, std::string *last = nullptr) {
  JsonReader json({text, "list.json"});
  std::string value;
  if (json.readArray([&] { return json.readString(value); }))
    json.atEnd();
  if (last)
    *last = value;
  return llvm::toString(json.takeError());
}

/// The same of a number, or of a whole one from 2 on.
std::string complainOfNumber(const std::string &text, bool isInteger) {
  JsonReader json({text, "n.json"});
  double number = 0;
  int64_t whole = 0;
  bool isRead =
      isInteger ? json.readInteger(whole, 2) : json.readPositive(number);
  if (isRead)
    json.atEnd();
  return llvm::toString(json.takeError());
}
} // namespace

TEST(JsonReader, ReadsStrings) {
  std::string value;
  EXPECT_EQ(complain(" [ ] "), "");
  EXPECT_EQ(complain(R"(["a", "b\"\\\/\n\u00e9é"])", &value), "");
  EXPECT_EQ(value, "b\"\\/\n\u00e9\u00e9");
}

TEST(JsonReader, NamesTheLine) {
  EXPECT_EQ(complain("[\"a\",\n7]"),
            "list.json:2: error: expected a string, got '7]'");
  EXPECT_EQ(complain("[\"a\"\n\n\"b\"]"),
            "list.json:3: error: expected ',' or ']', got '\"b\"]'");
  EXPECT_EQ(complain("{}"), "list.json:1: error: expected a list, got '{}'");
  EXPECT_EQ(complain(""),
            "list.json:1: error: expected a list, got the end of the file");
  EXPECT_EQ(complain("[] x"),
            "list.json:1: error: expected nothing more, got 'x'");
  EXPECT_EQ(complain("[\"a"), "list.json:1: error: expected '\"' at the "
                              "string's end, got the end of the file");
  EXPECT_EQ(complain("[\"a\nb\"]"), "list.json:1: error: expected no control "
                                    "character in a string");
  EXPECT_EQ(complain("[\"\\x\"]"),
            "list.json:1: error: expected an escape sequence, got 'x\"]'");
  EXPECT_EQ(complain("[\"\\u12\"]"), "list.json:1: error: expected four "
                                     "hexadecimal digits, got '12\"]'");
  EXPECT_EQ(complain("[\"\\ud800\"]"), "list.json:1: error: expected a "
                                       "character of the basic plane, got "
                                       "'\"]'");
  // Deep texts are refused where the caller does not go.
  EXPECT_EQ(complain(std::string(1 << 20, '[')),
            "list.json:1: error: expected a string, got "
            "'[[[[[[[[[[[[[[[[[[[['");
  EXPECT_EQ(complain(std::string("[\0]", 3)),
            "list.json:1: error: expected a string, got the end of the file");
}

TEST(JsonReader, ReadsNumbers) {
  for (const char *text : {"0", "1e-9", " 2.5 ", "12"})
    EXPECT_EQ(complainOfNumber(text, false), "") << text;
  for (const char *text : {"2", "3e3", "9007199254740992"})
    EXPECT_EQ(complainOfNumber(text, true), "") << text;
  EXPECT_EQ(complainOfNumber("-1", false),
            "n.json:1: error: expected 0 or a positive number, got '-1'");
  for (const char *text : {"nan", "1e999", "x", "", "--1", "\"1\""})
    EXPECT_NE(complainOfNumber(text, false), "") << text;
  EXPECT_EQ(complainOfNumber("1", true),
            "n.json:1: error: expected a whole number of at least 2, got '1'");
  for (const char *text : {"2.5", "1e17", "true"})
    EXPECT_NE(complainOfNumber(text, true), "") << text;
}

TEST(JsonReader, ReadsObjects) {
  auto read = [](const std::string &text) {
    JsonReader json({text, "o.json"});
    double sum = 0;
    if (json.readObject([&](llvm::StringRef name) {
          double value = 0;
          if (name != "a" && name != "b")
            return json.failUnknown(name, "'a', 'b'");
          bool isRead = json.readNumber(value);
          sum += value;
          return isRead;
        }))
      json.atEnd();
    std::string error = llvm::toString(json.takeError());
    return error.empty() ? std::to_string(sum) : error;
  };
  EXPECT_EQ(read("{\"a\": 1, \"b\": -3}"), std::to_string(-2.0));
  EXPECT_EQ(read("{}"), std::to_string(0.0));
  EXPECT_EQ(read("{\"a\": 1,\n\"c\": 2}"),
            "o.json:2: error: expected one of 'a', 'b', got 'c'");
  EXPECT_EQ(read("{\"a\" 1}"),
            "o.json:1: error: expected ':' after the name, got '1}'");
  EXPECT_EQ(read("{a: 1}"),
            "o.json:1: error: expected the name of a member, got 'a: 1}'");
  EXPECT_EQ(read("{\"a\": 1,}"),
            "o.json:1: error: expected the name of a member, got '}'");
}
