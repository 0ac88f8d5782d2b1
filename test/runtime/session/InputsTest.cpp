// SPDX-License-Identifier: Apache-2.0
#include "inputs/Permutation.h"
#include "inputs/SavedPosition.h"
#include "inputs/Shapes.h"
#include "plan/FakeStep.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

using namespace fcdp;
using namespace fcdp::run;
using fcdp::test::TemporaryFolder;

namespace {

class InputsTest : public ::testing::Test {
protected:
  InputsTest() {
    plan.mesh = {1, 2};
    plan.microBatches = 2;
  }

  void addInput(const std::string &name, plan::DType dtype, Shape shape,
                std::optional<int64_t> limit = {},
                std::optional<int64_t> ignored = {}) {
    plan::InputT &input =
        *plan.inputs.emplace_back(std::make_unique<plan::InputT>());
    input.name = name;
    input.shape = std::move(shape);
    input.dtype = dtype;
    input.indexLimit = limit;
    input.ignoreIndex = ignored;
  }

  std::string write(const std::string &name, const std::string &bytes) {
    std::string path = folder.file(name);
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  template <typename T>
  std::string writeRaw(const std::string &name, const std::vector<T> &values) {
    return write(name,
                 std::string(reinterpret_cast<const char *>(values.data()),
                             values.size() * sizeof(T)));
  }
  static std::string npy(const std::string &descr, const std::string &shape,
                         const std::string &data,
                         const std::string &order = "False") {
    std::string header = "{'descr': '" + descr +
                         "', 'fortran_order': " + order + ", 'shape': (" +
                         shape + "), }\n";
    std::string length = {char(header.size()), char(header.size() >> 8)};
    return std::string("\x93NUMPY\x01\x00", 8) + length + header + data;
  }
  template <typename T>
  std::string writeNpy(const std::string &descr, const std::string &shape,
                       const std::vector<T> &values) {
    return write("a.npy",
                 npy(descr, shape,
                     std::string(reinterpret_cast<const char *>(values.data()),
                                 values.size() * sizeof(T))));
  }

  template <typename T>
  std::vector<T> row(const Inputs &inputs, int64_t step, int64_t microBatch,
                     uint32_t rank, size_t input = 0) {
    std::vector<T> out(numElements(plan.inputs[input]->shape));
    inputs.read(input, step, microBatch, rank,
                std::as_writable_bytes(std::span(out)));
    return out;
  }

  void expectError(const std::string &message,
                   const std::vector<InputOption> &options) {
    try {
      Inputs(plan, options).checkValues();
      FAIL() << "expected an error";
    } catch (const std::runtime_error &error) {
      EXPECT_NE(std::string(error.what()).find(message), std::string::npos)
          << error.what();
    }
  }

  TemporaryFolder folder;
  StepPlan plan;
};

TEST_F(InputsTest, RowsOfAnArray) {
  addInput("x", plan::DType::f32, {2});
  std::vector<float> values(10);
  for (int i = 0; i < 10; ++i)
    values[i] = i;
  Inputs inputs(plan, {{"x", writeNpy("<f4", "5, 2", values)}});
  // ((step * 2 + microBatch) * 2 + rank) mod 5
  EXPECT_EQ(row<float>(inputs, 0, 0, 0), (std::vector<float>{0, 1}));
  EXPECT_EQ(row<float>(inputs, 0, 0, 1), (std::vector<float>{2, 3}));
  EXPECT_EQ(row<float>(inputs, 0, 1, 0), (std::vector<float>{4, 5}));
  EXPECT_EQ(row<float>(inputs, 1, 0, 1), (std::vector<float>{0, 1}));
}

TEST_F(InputsTest, WindowsOfTokens) {
  addInput("ids", plan::DType::i64, {3}, 100);
  addInput("labels", plan::DType::i64, {3}, 100);
  std::vector<uint16_t> tokens = {0, 1, 2, 3, 4, 5, 6, 7, 8};
  std::string file = writeRaw("t", tokens);
  Inputs inputs(plan, {{"ids", file + ":u16"}, {"labels", file + ":u16+1"}});
  EXPECT_EQ(row<int64_t>(inputs, 0, 0, 1), (std::vector<int64_t>{3, 4, 5}));
  EXPECT_EQ(row<int64_t>(inputs, 0, 0, 1, 1), (std::vector<int64_t>{4, 5, 6}));
  // The labels have two windows, so the ids have no more.
  EXPECT_EQ(row<int64_t>(inputs, 0, 1, 0), (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(row<int64_t>(inputs, 0, 1, 0, 1), (std::vector<int64_t>{1, 2, 3}));
}

TEST_F(InputsTest, ShuffledWindowsAreTheSameForAllInputs) {
  addInput("ids", plan::DType::i64, {2}, 100);
  addInput("labels", plan::DType::i64, {2}, 100);
  std::vector<uint16_t> tokens(27);
  std::iota(tokens.begin(), tokens.end(), 0);
  std::string file = writeRaw("t", tokens);
  std::vector<InputOption> options = {{"ids", file + ":u16"},
                                      {"labels", file + ":u16+1"}};
  Inputs inputs(plan, options, parseDataOptions("shuffle=7"));
  // 13 windows, 4 rows a step.
  Permutation first(13, 7, 0, 0), second(13, 7, 0, 1);
  EXPECT_EQ(inputs.order()->rowsOf(0), 13);
  for (int64_t position = 0; position < 24; ++position) {
    int64_t window = position < 13 ? first(position) : second(position - 13);
    int64_t step = position / 4, microBatch = position / 2 % 2;
    EXPECT_EQ(row<int64_t>(inputs, step, microBatch, position % 2),
              (std::vector<int64_t>{2 * window, 2 * window + 1}));
    EXPECT_EQ(row<int64_t>(inputs, step, microBatch, position % 2, 1),
              (std::vector<int64_t>{2 * window + 1, 2 * window + 2}));
  }
  EXPECT_EQ(inputs.epochsOf(2), std::vector<int64_t>{1});
  EXPECT_TRUE(inputs.epochsThatEndIn(2).empty());
  EXPECT_EQ(inputs.epochsOf(3), std::vector<int64_t>{2});
  std::vector<EpochEnd> ends = inputs.epochsThatEndIn(3);
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(describeEnd(ends[0]), "epoch 1 ends: all 13 rows have been read");
  EXPECT_TRUE(inputs.epochsThatEndIn(4).empty());
}

TEST_F(InputsTest, SeveralFilesWithWeights) {
  addInput("ids", plan::DType::i64, {1}, 100);
  addInput("labels", plan::DType::i64, {1}, 100);
  addInput("noise", plan::DType::f32, {1});
  std::string a = writeRaw<uint16_t>("a", {0, 1, 2, 3, 4}),
              b = writeRaw<uint16_t>("b,c", {50, 51, 52});
  std::vector<InputOption> options = {{"ids", a + ":u16," + b + ":u16"},
                                      {"labels", a + ":u16+1," + b + ":u16+1"},
                                      {"noise", "random:3"}};
  Inputs inputs(plan, options, parseDataOptions("weights=3:1"));
  std::vector<int64_t> read, labels;
  std::set<float> noise;
  for (int64_t position = 0; position < 8; ++position) {
    int64_t step = position / 4, microBatch = position / 2 % 2;
    read.push_back(row<int64_t>(inputs, step, microBatch, position % 2)[0]);
    labels.push_back(
        row<int64_t>(inputs, step, microBatch, position % 2, 1)[0] - 1);
    noise.insert(row<float>(inputs, step, microBatch, position % 2, 2)[0]);
  }
  EXPECT_EQ(read, (std::vector<int64_t>{0, 1, 50, 2, 3, 0, 51, 1}));
  EXPECT_EQ(labels, read);
  // Rows that are the same have the same noise, others have another.
  EXPECT_EQ(noise.size(), 6u);
  EXPECT_EQ(inputs.epochsOf(1), (std::vector<int64_t>{2, 1}));
  std::vector<EpochEnd> ends = inputs.epochsThatEndIn(1);
  ASSERT_EQ(ends.size(), 2u);
  EXPECT_EQ(describeEnd(ends[0]),
            "epoch 1 ends: all 4 rows of " + a + ":u16 have been read");
  EXPECT_EQ(ends[1].file, b + ":u16");
}

TEST_F(InputsTest, ListsOfFiles) {
  EXPECT_EQ(
      splitFiles("a.npy,b,c.npy,d:u16+12,e:i64"),
      (std::vector<std::string>{"a.npy", "b,c.npy", "d:u16+12", "e:i64"}));
  EXPECT_EQ(splitFiles("a,b"), std::vector<std::string>{"a,b"});
  EXPECT_EQ(splitFiles("a:u16,"), (std::vector<std::string>{"a:u16", ""}));
  addInput("ids", plan::DType::i64, {1}, 100);
  addInput("labels", plan::DType::i64, {1}, 100);
  std::string a = writeRaw<uint16_t>("a", {0, 1, 2}) + ":u16";
  expectError("--input: expected as many files for each input, got 2 for input "
              "'ids' and 1 for input 'labels'",
              {{"ids", a + "," + a}, {"labels", a}});
  expectError("--input ids: expected files, separated by ',', got",
              {{"ids", a + ",random:1"}, {"labels", a}});
  expectError("--input ids: expected files, separated by ',', got",
              {{"ids", a + ","}, {"labels", a}});
}

TEST_F(InputsTest, RandomRowsHaveNoEnd) {
  addInput("x", plan::DType::f32, {2});
  Inputs inputs(plan, {{"x", "random:1"}});
  EXPECT_TRUE(inputs.epochsOf(0).empty());
  EXPECT_TRUE(inputs.epochsThatEndIn(0).empty());
  try {
    Inputs(plan, {{"x", "random:1"}}, parseDataOptions("shuffle=1"));
    FAIL();
  } catch (const std::runtime_error &error) {
    EXPECT_STREQ(error.what(), "--data: expected an input from a file, "
                               "got only random ones, which have no end");
  }
}

/// Returns the position that a checkpoint of step 3 has.
nlohmann::json savedJob(const Inputs &inputs) {
  return nlohmann::json::parse(describePosition(inputs, 3).dump());
}

std::vector<std::string> goOn(const nlohmann::json &job, Inputs &inputs) {
  return goOnAtPosition(JsonNode(job, "job"), 3, inputs);
}

TEST_F(InputsTest, GoesOnAtTheSavedPosition) {
  addInput("x", plan::DType::f32, {1});
  std::vector<InputOption> options = {
      {"x", writeNpy<float>("<f4", "7, 1", {0, 1, 2, 3, 4, 5, 6})}};
  DataOptions data = parseDataOptions("shuffle=7");
  Inputs whole(plan, options, data), half(plan, options, data);
  nlohmann::json job = savedJob(whole);
  EXPECT_EQ(job["rows"], 12);
  EXPECT_TRUE(goOn(job, half).empty());
  for (int64_t step = 3; step < 9; ++step)
    EXPECT_EQ(row<float>(half, step, 1, 1), row<float>(whole, step, 1, 1));
  // With one micro-batch a step reads half as many rows.
  plan.microBatches = 1;
  Inputs other(plan, options, data);
  EXPECT_TRUE(goOn(job, other).empty());
  EXPECT_EQ(other.firstRowOf(3), 12);
  EXPECT_EQ(other.firstRowOf(4), 14);
}

TEST_F(InputsTest, SaysThatTheDataDiffers) {
  addInput("x", plan::DType::f32, {1});
  std::vector<InputOption> one = {
      {"x", writeNpy<float>("<f4", "2, 1", {0, 1})}};
  nlohmann::json job = savedJob(Inputs(plan, one));
  Inputs shuffled(plan, one, parseDataOptions("shuffle=7"));
  auto said = goOn(job, shuffled);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0], "--data: was \"\" when the checkpoint was saved, is "
                     "\"shuffle=7\"; rows of this epoch may be read twice or "
                     "not at all");
  Inputs longer(plan, {{"x", writeNpy<float>("<f4", "3, 1", {0, 1, 2})}});
  said = goOn(job, longer);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_NE(said[0].find("rows of the files: was [2] "), std::string::npos);
  Inputs random(plan, {{"x", "random:1"}});
  EXPECT_EQ(goOn(job, random).size(), 2u);
}

TEST_F(InputsTest, SavedPositionsOfOtherPrograms) {
  addInput("x", plan::DType::f32, {1});
  Inputs inputs(plan, {{"x", writeNpy<float>("<f4", "2, 1", {0, 1})}});
  EXPECT_TRUE(goOn(nlohmann::json::object(), inputs).empty());
  EXPECT_EQ(inputs.firstRowOf(3), 12);
  for (const char *text :
       {R"({"rows": -1})", R"({"rows": "4"})", R"({"rows": 1.5})"}) {
    EXPECT_THROW(goOn(nlohmann::json::parse(text), inputs), std::runtime_error)
        << text;
    EXPECT_EQ(inputs.firstRowOf(3), 12) << text;
  }
  auto strange = nlohmann::json::parse(
      R"({"rows": 8, "inputs": ["x"], "data": 4, "file_rows": {}})");
  EXPECT_EQ(goOn(strange, inputs).size(), 2u);
  EXPECT_EQ(inputs.firstRowOf(3), 8);
  EXPECT_THROW(goOn({{"rows", ~uint64_t(0)}}, inputs), std::runtime_error);
}

/// Shorter positions would be padded by themselves, to other positions than the
/// tokens have.
TEST_F(InputsTest, RowsOfAStepOfSeveralShapesHaveEqualSizes) {
  for (uint32_t variant = 0; variant < 2; ++variant) {
    plan.functions.push_back(std::make_unique<plan::FunctionT>());
    plan.functions.back()->role = plan::Role::only_microbatch;
    plan.functions.back()->variant = variant;
    for (const char *name : {"ids", "positions"}) {
      addInput(name, plan::DType::i64, {variant == 0 ? 2 : 4}, 100);
      plan.inputs.back()->variant = variant;
    }
  }
  const Shapes shapes(plan, {});
  auto open = [&](int64_t idsSize, int64_t positionsSize) {
    auto save = [&](const std::string &name, int64_t size) {
      std::string zeros(size * sizeof(int64_t), 0);
      return write(name, npy("<i8", "1, " + std::to_string(size), zeros));
    };
    Inputs(plan,
           {{"ids", save("ids.npy", idsSize)},
            {"positions", save("positions.npy", positionsSize)}},
           {}, &shapes);
  };
  open(4, 4);
  open(3, 3);
  try {
    open(4, 3);
    FAIL() << "expected an error";
  } catch (const std::runtime_error &error) {
    EXPECT_EQ(
        std::string(error.what())
            .find("rows of the files of --input: got size 4 of dimension 0 of "
                  "input 'ids', and size 3 of dimension 0 of input "
                  "'positions'"),
        0u)
        << error.what();
  }
}

TEST_F(InputsTest, AFileThatShrinksIsNamed) {
  addInput("ids", plan::DType::i64, {512}, 100);
  addInput("x", plan::DType::i64, {512}, 100);
  std::string tokens = writeRaw("t", std::vector<uint16_t>(8192));
  std::string array = writeNpy("<i8", "16, 512", std::vector<int64_t>(8192));
  Inputs inputs(plan, {{"ids", tokens + ":u16"}, {"x", array}});
  inputs.checkValues();
  for (size_t input : {0, 1}) {
    const std::string &file = input == 0 ? tokens : array;
    row<int64_t>(inputs, 3, 1, 1, input);
    std::filesystem::resize_file(file, 10);
    try {
      row<int64_t>(inputs, 3, 1, 1, input);
      ADD_FAILURE() << "expected an error";
    } catch (const std::runtime_error &error) {
      EXPECT_EQ(std::string(error.what()).find(file + ": expected "), 0u)
          << error.what();
    }
  }
}

TEST_F(InputsTest, LongSpecs) {
  addInput("ids", plan::DType::i64, {1}, 100);
  std::string name(1000000, 'a'), digits(1000000, '1');
  std::string tokens = writeRaw<uint16_t>("t", {0, 1, 2}) + ":u16";
  expectError("cannot be opened", {{"ids", name}});
  expectError("cannot be opened", {{"ids", name + ":u16"}});
  expectError("is too large", {{"ids", "random:" + digits}});
  expectError("expected random:SEED", {{"ids", "random:" + name}});
  expectError("is too large", {{"ids", tokens + "+" + digits}});
  expectError("shifted by 9223372036854775807, got 3",
              {{"ids", tokens + "+9223372036854775807"}});
  for (const char *spec : {":u16", "+1", "x:u16+", "x:u8", "x:u16+1+1"})
    expectError("cannot be opened", {{"ids", spec}});
}

TEST_F(InputsTest, LongNpyHeaders) {
  addInput("x", plan::DType::i64, {2}, 10);
  expectError(
      "expected type i64",
      {{"x", write("a.npy", npy(std::string(60000, 'a'), "1, 2", ""))}});
  expectError("too large",
              {{"x", write("b.npy", npy("<i8", std::string(60000, '1'), ""))}});
}

TEST_F(InputsTest, TokensOfOtherWidths) {
  addInput("a", plan::DType::i32, {2}, 70000, -1);
  addInput("b", plan::DType::i32, {2}, 70000);
  Inputs inputs(plan, {{"a", writeRaw<int64_t>("a", {65000, -1}) + ":i64"},
                       {"b", writeRaw<uint16_t>("b", {65000, 1}) + ":u16"}});
  inputs.checkValues();
  EXPECT_EQ(row<int32_t>(inputs, 0, 0, 0), (std::vector<int32_t>{65000, -1}));
  EXPECT_EQ(row<int32_t>(inputs, 0, 0, 0, 1), (std::vector<int32_t>{65000, 1}));
}

TEST_F(InputsTest, RandomIsTheSameInEveryRun) {
  addInput("x", plan::DType::f32, {1000});
  addInput("i", plan::DType::i64, {1000}, 7);
  std::vector<InputOption> options = {{"x", "random:3"}, {"i", "random:3"}};
  Inputs one(plan, options), two(plan, options);
  EXPECT_EQ(row<float>(one, 1, 0, 0), row<float>(two, 1, 0, 0));
  EXPECT_NE(row<float>(one, 1, 0, 0), row<float>(one, 1, 0, 1));
  EXPECT_NE(row<float>(one, 1, 0, 0),
            row<float>(Inputs(plan, {{"x", "random:4"}, {"i", "random:3"}}), 1,
                       0, 0));
  double sum = 0, squares = 0;
  for (float value : row<float>(one, 0, 0, 0)) {
    sum += value;
    squares += value * value;
  }
  EXPECT_NEAR(sum / 1000, 0, 0.15);
  EXPECT_NEAR(squares / 1000, 1, 0.2);
  std::vector<int> seen(7);
  for (int64_t value : row<int64_t>(one, 0, 0, 0, 1)) {
    ASSERT_GE(value, 0);
    ASSERT_LT(value, 7);
    ++seen[value];
  }
  for (int times : seen)
    EXPECT_GT(times, 80);
}

TEST_F(InputsTest, RandomIntegersNeedALimit) {
  addInput("i", plan::DType::i32, {4});
  expectError("needs random:SEED:LIMIT", {{"i", "random:1"}});
  EXPECT_NO_THROW(Inputs(plan, {{"i", "random:1:10"}}));
  expectError("needs random:SEED:LIMIT", {{"i", "random:1:0"}});
  expectError("expected random:SEED", {{"i", "random:x"}});
  plan.inputs[0]->indexLimit = 5;
  expectError("a limit of at most 5, got 10", {{"i", "random:1:10"}});
}

TEST_F(InputsTest, NamesMustBeTheStepsOwn) {
  addInput("ids", plan::DType::i64, {2}, 10);
  expectError("--input idz: unknown; the step's inputs are: ids i64[2]",
              {{"idz", "random:1"}});
  expectError("--input ids=FILE is missing", {});
  expectError("given twice", {{"ids", "random:1"}, {"ids", "random:2"}});
}

TEST_F(InputsTest, ValuesMustBeInRange) {
  addInput("ids", plan::DType::i64, {2}, 10, -100);
  EXPECT_NO_THROW(
      Inputs(plan, {{"ids", writeNpy<int64_t>("<i8", "1, 2", {9, -100})}})
          .checkValues());
  expectError("value 10 at position 3: expected [0, 10) or -100",
              {{"ids", writeNpy<int64_t>("<i8", "2, 2", {9, 0, 1, 10})}});
  expectError("value -1 at position 0",
              {{"ids", writeNpy<int64_t>("<i8", "1, 2", {-1, 0})}});
  expectError("value 300 at position 1: expected [0, 10)",
              {{"ids", writeRaw<uint16_t>("t", {1, 300}) + ":u16"}});
}

TEST_F(InputsTest, ValuesOfLargeFilesAreCheckedAsTheyAreRead) {
  addInput("ids", plan::DType::i64, {4}, 10);
  plan.mesh = {1, 1};
  plan.microBatches = 1;
  std::string tokens = write("t", "");
  // A hole of 1 GiB, and a token out of range in the last window.
  std::filesystem::resize_file(tokens, kMostCheckedBytes + 8);
  std::fstream(tokens, std::ios::in | std::ios::out | std::ios::binary)
      .seekp(int64_t(kMostCheckedBytes) + 2)
      .put(99);
  Inputs inputs(plan, {{"ids", tokens + ":u16"}});
  inputs.checkValues();
  EXPECT_EQ(row<int64_t>(inputs, 0, 0, 0), (std::vector<int64_t>{0, 0, 0, 0}));
  int64_t last = inputs.fileRows()[0] - 1;
  try {
    row<int64_t>(inputs, last, 0, 0);
    FAIL() << "expected an error";
  } catch (const std::runtime_error &error) {
    EXPECT_EQ(std::string(error.what()),
              tokens + ": input 'ids': value 99 at position 536870913: "
                       "expected [0, 10)");
  }
}

TEST_F(InputsTest, RowsOfArraysAreCheckedAsTheyAreRead) {
  addInput("ids", plan::DType::i64, {2}, 10, -100);
  Inputs inputs(plan,
                {{"ids", writeNpy<int64_t>("<i8", "2, 2", {9, -100, 1, 10})}});
  EXPECT_EQ(row<int64_t>(inputs, 0, 0, 0), (std::vector<int64_t>{9, -100}));
  EXPECT_THROW(row<int64_t>(inputs, 0, 0, 1), std::runtime_error);
}

TEST_F(InputsTest, TokensMustFitTheInputsType) {
  addInput("ids", plan::DType::i16, {2});
  expectError("value 40000 at position 1 does not fit in i16",
              {{"ids", writeRaw<uint16_t>("t", {1, 40000}) + ":u16"}});
}

TEST_F(InputsTest, LengthsOfTokenFiles) {
  addInput("ids", plan::DType::i64, {4}, 10);
  expectError("expected a multiple of 4 bytes, got 6",
              {{"ids", write("t", "123456") + ":i32"}});
  expectError("expected at least 4 tokens for one batch of shape [4], got 3",
              {{"ids", writeRaw<int32_t>("t", {1, 2, 3}) + ":i32"}});
  expectError("expected at least 5 tokens for one batch of shape [4] shifted "
              "by 1, got 4",
              {{"ids", writeRaw<int32_t>("t", {1, 2, 3, 4}) + ":i32+1"}});
  expectError("cannot be opened", {{"ids", "/no/such/file:i32"}});
  plan.inputs[0]->dtype = plan::DType::f32;
  plan.inputs[0]->indexLimit.reset();
  expectError("tokens are for integer inputs, this one is f32",
              {{"ids", writeRaw<int32_t>("t", {1, 2, 3, 4}) + ":i32"}});
}

TEST_F(InputsTest, ArraysMustHaveShapeAndType) {
  addInput("x", plan::DType::i64, {2}, 10);
  expectError("expected type i64, got <i4 (i32)",
              {{"x", writeNpy<int32_t>("<i4", "1, 2", {1, 2})}});
  expectError("expected type i64, got >i8",
              {{"x", writeNpy<int64_t>(">i8", "1, 2", {1, 2})}});
  expectError("expected shape [M, 2], got [1, 3]",
              {{"x", writeNpy<int64_t>("<i8", "1, 3", {1, 2, 3})}});
  expectError("expected shape [M, 2], got [2]",
              {{"x", writeNpy<int64_t>("<i8", "2,", {1, 2})}});
  expectError("expected at least one row",
              {{"x", writeNpy<int64_t>("<i8", "0, 2", {})}});
  expectError("Fortran order",
              {{"x", write("a.npy", npy("<i8", "1, 2", std::string(16, '\0'),
                                        "True"))}});
}

TEST_F(InputsTest, DamagedArrays) {
  addInput("x", plan::DType::i64, {2}, 10);
  expectError("expected 32 bytes of data for shape [2, 2], got 16; is the file "
              "truncated?",
              {{"x", writeNpy<int64_t>("<i8", "2, 2", {1, 2})}});
  expectError("expected 16 bytes of data for shape [1, 2], got 24",
              {{"x", writeNpy<int64_t>("<i8", "1, 2", {1, 2, 3})}});
  std::string good = npy("<i8", "1, 2", std::string(16, '\0'));
  expectError("got the end of the file",
              {{"x", write("a", good.substr(0, 30))}});
  expectError("expected a .npy file", {{"x", write("a", good.substr(0, 7))}});
  expectError("expected a .npy file", {{"x", write("a", "")}});
  std::string other = good;
  other[6] = 9;
  expectError("expected .npy version 1, 2 or 3, got 9",
              {{"x", write("a", other)}});
  std::string named = good;
  named.replace(named.find("descr"), 5, "desca");
  expectError("has no 'descr'", {{"x", write("a", named)}});
  expectError("too large",
              {{"x", write("a", npy("<i8", "99999999999999999999, 2", ""))}});
  expectError(
      "too large",
      {{"x", write("a", npy("<i8", "999999999999, 999999999999", ""))}});
  // Every prefix is refused, none crashes.
  for (size_t length = 0; length < good.size(); ++length)
    EXPECT_THROW(Inputs(plan, {{"x", write("a", good.substr(0, length))}}),
                 std::runtime_error);
}

TEST_F(InputsTest, ArraysMustHaveEqualRows) {
  addInput("x", plan::DType::i64, {1}, 10);
  addInput("y", plan::DType::i64, {1}, 10);
  std::string x = write("x", npy("<i8", "1, 1", std::string(8, '\0')));
  std::string y = write("y", npy("<i8", "2, 1", std::string(16, '\0')));
  expectError("equal numbers of rows, got 1 for input 'x' and 2 for input 'y'",
              {{"x", x}, {"y", y}});
}

} // namespace
