// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Support/JsonFile.h"

#include "gtest/gtest.h"

using namespace fcdp;

namespace {
/// Returns the error for `text` if a list of strings is expected.
std::string complain(const std::string &text, std::string *last = nullptr) {
  JsonFile json({text, "list.json"});
  llvm::StringRef value;
  json.read([&](const Json &list) {
    return json.readArray(
        list, [&](const Json &item) { return json.readString(item, value); });
  });
  if (last)
    *last = value.str();
  return llvm::toString(json.takeError());
}

/// Does the same if a number is expected, or a whole number of at least 2.
std::string complainOfNumber(const std::string &text, bool isInteger) {
  JsonFile json({text, "n.json"});
  double number = 0;
  int64_t whole = 0;
  json.read([&](const Json &value) {
    return isInteger ? json.readInteger(value, whole, 2)
                     : json.readPositive(value, number);
  });
  return llvm::toString(json.takeError());
}
} // namespace

TEST(JsonFile, ReadsStrings) {
  std::string value;
  EXPECT_EQ(complain(" [ ] "), "");
  EXPECT_EQ(complain(R"(["a", "b\"\\\/\n\u00e9é"])", &value), "");
  EXPECT_EQ(value, "b\"\\/\n\u00e9\u00e9");
  EXPECT_EQ(complain(R"(["\ud83d\ude00"])", &value), "");
  EXPECT_EQ(value, "\U0001f600");
}

TEST(JsonFile, NamesTheLine) {
  EXPECT_EQ(complain("[\"a\",\n7]"),
            "list.json:2: error: expected a string, got '7]'");
  EXPECT_EQ(complain("[\"a\"\n\n\"b\"]"),
            "list.json:3: error: expected ',' or ']'");
  EXPECT_EQ(complain("{}"), "list.json:1: error: expected a list, got '{}'");
  EXPECT_EQ(complain(""), "list.json:1: error: the text ends early");
  EXPECT_EQ(complain("[] x"),
            "list.json:1: error: expected the end of the text");
  EXPECT_EQ(complain("[\"a"), "list.json:1: error: the string does not end");
  EXPECT_EQ(complain("[\"\\x\"]"), "list.json:1: error: unknown escape");
  EXPECT_EQ(complain("[\"\\u12\"]"),
            "list.json:1: error: expected four hexadecimal digits");
  EXPECT_EQ(complain("[\"\\ud800\"]"),
            "list.json:1: error: half of a surrogate pair");
  EXPECT_EQ(complain("[\n\"\xff\"]"), "list.json:2: error: expected UTF-8");
  EXPECT_EQ(complain(std::string("[\0]", 3)),
            "list.json:1: error: expected a value");
}

TEST(JsonFile, RefusesDeepTexts) {
  EXPECT_EQ(complain(std::string(1 << 20, '[')),
            "list.json:1: error: nested too deeply");
}

TEST(JsonFile, ReadsNumbers) {
  for (const char *text : {"0", "1e-9", " 2.5 ", "12"})
    EXPECT_EQ(complainOfNumber(text, false), "") << text;
  for (const char *text : {"2", "3e3", "9007199254740992"})
    EXPECT_EQ(complainOfNumber(text, true), "") << text;
  EXPECT_EQ(complainOfNumber("-1", false),
            "n.json:1: error: expected 0 or a positive number, got '-1'");
  for (const char *text : {"nan", "1e999", "x", "", "--1", "\"1\"", "null"})
    EXPECT_NE(complainOfNumber(text, false), "") << text;
  EXPECT_EQ(complainOfNumber("1", true),
            "n.json:1: error: expected a whole number of at least 2, got '1'");
  for (const char *text : {"2.5", "1e17", "true"})
    EXPECT_NE(complainOfNumber(text, true), "") << text;
}

TEST(JsonFile, ReadsObjects) {
  auto read = [](const std::string &text) {
    JsonFile json({text, "o.json"});
    double sum = 0;
    json.read([&](const Json &object) {
      return json.readObject(object, [&](const JsonMember &member) {
        if (member.name != "a" && member.name != "b")
          return json.failUnknown(member, "'a', 'b'");
        double value = 0;
        bool isRead = json.readPositive(member.value, value);
        sum += value;
        return isRead;
      });
    });
    std::string error = llvm::toString(json.takeError());
    return error.empty() ? std::to_string(sum) : error;
  };
  EXPECT_EQ(read("{\"a\": 1, \"b\": 3}"), std::to_string(4.0));
  EXPECT_EQ(read("{}"), std::to_string(0.0));
  EXPECT_EQ(read("{\"a\": 1,\n\"c\": 2}"),
            "o.json:2: error: expected one of 'a', 'b', got 'c'");
  EXPECT_EQ(read("{\"a\" 1}"), "o.json:1: error: expected ':'");
  EXPECT_EQ(read("{a: 1}"), "o.json:1: error: expected a string");
  EXPECT_EQ(read("{\"a\": 1,}"), "o.json:1: error: expected a string");
}

TEST(JsonFile, KnowsWhereValuesBegin) {
  std::string text = "{\"list\":\n [1,\n  \"two\",\n {}]}";
  JsonFile json({text, "o.json"});
  json.read([&](const Json &root) {
    llvm::ArrayRef<Json> list = root["list"].elements();
    // Lines may be queried in any order.
    for (unsigned i : {2, 0, 1})
      EXPECT_EQ(json.getLine(list[i]), 2 + i);
    EXPECT_EQ(json.getLine(root), 1u);
    EXPECT_EQ(list[1].getPosition(), text.find("\"two\""));
    return true;
  });
  EXPECT_EQ(llvm::toString(json.takeError()), "");
}
