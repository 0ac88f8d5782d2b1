// SPDX-License-Identifier: Apache-2.0
#include "inputs/DataOrder.h"
#include "inputs/Permutation.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <vector>

using namespace fcdp::run;

namespace {

std::vector<int64_t> all(const Permutation &permutation, int64_t size) {
  std::vector<int64_t> values(size);
  for (int64_t i = 0; i < size; ++i)
    values[i] = permutation(i);
  return values;
}

bool isPermutation(std::vector<int64_t> values) {
  std::sort(values.begin(), values.end());
  std::vector<int64_t> expected(values.size());
  std::iota(expected.begin(), expected.end(), 0);
  return values == expected;
}

void expectError(const std::string &text, const std::string &message) {
  try {
    parseDataOptions(text);
    FAIL() << "expected an error for " << text;
  } catch (const std::runtime_error &error) {
    EXPECT_EQ(std::string(error.what()), "--data: " + message);
  }
}

TEST(PermutationTest, HasEachElementOnce) {
  for (int64_t size = 1; size < 300; ++size)
    EXPECT_TRUE(isPermutation(all(Permutation(size, 7, 0, size), size)))
        << size;
  EXPECT_TRUE(isPermutation(all(Permutation(70000, 7, 0, 1), 70000)));
}

/// test/python/test_data.py has the same values.
TEST(PermutationTest, IsTheSameInPython) {
  EXPECT_EQ(all(Permutation(10, 7, 0, 0), 10),
            (std::vector<int64_t>{3, 5, 6, 2, 9, 1, 4, 8, 7, 0}));
  EXPECT_EQ(all(Permutation(10, 7, 0, 1), 10),
            (std::vector<int64_t>{0, 2, 8, 9, 6, 7, 4, 3, 5, 1}));
  EXPECT_EQ(all(Permutation(10, 7, 1, 0), 10),
            (std::vector<int64_t>{9, 2, 8, 7, 0, 5, 6, 1, 4, 3}));
  constexpr int64_t large = 1'000'000'000'000;
  Permutation ofLarge(large, ~uint64_t(0), 3, uint64_t(1) << 40);
  EXPECT_EQ(ofLarge(0), 562034777806);
  EXPECT_EQ(ofLarge(large - 1), 378917295740);
  EXPECT_EQ(Permutation(int64_t(1) << 62, 1, 0, 0)(1), 2395820993371128227);
}

TEST(PermutationTest, IsUniform) {
  constexpr int epochs = 12000, permutations = 24;
  std::map<std::vector<int64_t>, int> counts;
  for (int epoch = 0; epoch < epochs; ++epoch)
    ++counts[all(Permutation(4, 5, 0, epoch), 4)];
  EXPECT_EQ(counts.size(), size_t(permutations));
  double expected = double(epochs) / permutations, chiSquare = 0;
  for (const auto &[values, count] : counts)
    chiSquare += (count - expected) * (count - expected) / expected;
  // The quantile 0.999 of chi-square with 23 degrees of freedom.
  EXPECT_LT(chiSquare, 49.7);
}

TEST(DataOrderTest, EachEpochReadsAllRowsInAnotherOrder) {
  DataOrder order(parseDataOptions("shuffle=7"), {24});
  std::vector<std::vector<int64_t>> epochs(3);
  for (int64_t position = 0; position < 72; ++position) {
    EXPECT_EQ(order.epochsBefore(0, position), position / 24);
    EXPECT_EQ(order.epochAt(0, position + 1), position / 24 + 1);
    epochs[position / 24].push_back(order.at(position).row);
  }
  for (const auto &rows : epochs)
    EXPECT_TRUE(isPermutation(rows));
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_NE(epochs[1], epochs[2]);
  DataOrder other(parseDataOptions("shuffle=8"), {24});
  EXPECT_NE(other.at(0).row * 24 + other.at(1).row,
            order.at(0).row * 24 + order.at(1).row);
}

TEST(DataOrderTest, WithoutShuffleRowsAreInOrder) {
  DataOrder order({}, {5});
  EXPECT_EQ(order.at(4).row, 4);
  EXPECT_EQ(order.at(11).row, 1);
  EXPECT_EQ(order.epochsBefore(0, 9), 1);
  EXPECT_EQ(order.epochsBefore(0, 10), 2);
}

std::vector<std::pair<size_t, int64_t>> places(const DataOrder &order,
                                               int64_t first, int64_t count) {
  std::vector<std::pair<size_t, int64_t>> list;
  for (int64_t position = first; position < first + count; ++position)
    list.emplace_back(order.at(position).file, order.at(position).row);
  return list;
}

TEST(DataOrderTest, AnEpochReadsAllFiles) {
  DataOrder inOrder({}, {2, 1});
  EXPECT_EQ(places(inOrder, 0, 4), (std::vector<std::pair<size_t, int64_t>>{
                                       {0, 0}, {0, 1}, {1, 0}, {0, 0}}));
  DataOrder order(parseDataOptions("shuffle=3"), {5, 3, 4});
  ASSERT_EQ(order.numSeries(), 1u);
  EXPECT_EQ(order.rowsOf(0), 12);
  auto read = places(order, 12, 12);
  EXPECT_NE(read, places(order, 0, 12));
  std::sort(read.begin(), read.end());
  EXPECT_EQ(read, places(DataOrder({}, {5, 3, 4}), 0, 12));
}

TEST(DataOrderTest, WeightsAreExactInEachPeriod) {
  DataOrder order(parseDataOptions("shuffle=3,weights=0.5:0.2:0.3"), {5, 3, 4});
  std::vector<std::map<int64_t, int>> read(3);
  for (int64_t period = 0; period < 6; ++period) {
    std::vector<int> counts(3);
    for (const auto &[file, row] : places(order, 10 * period, 10)) {
      ++counts[file];
      ++read[file][row];
    }
    EXPECT_EQ(counts, (std::vector<int>{5, 2, 3}));
  }
  // Each file has read its rows equally often: 30 of 5, 12 of 3, 18 of 4.
  for (int64_t row = 0; row < 5; ++row)
    EXPECT_EQ(read[0][row], 6);
  for (int64_t row = 0; row < 3; ++row)
    EXPECT_EQ(read[1][row], 4);
  for (int64_t row = 0; row < 4; ++row)
    EXPECT_TRUE(read[2][row] == 4 || read[2][row] == 5);
  EXPECT_EQ(order.numSeries(), 3u);
  EXPECT_EQ(order.epochsBefore(2, 60), 4);
  EXPECT_EQ(order.epochAt(2, 60), 5);
  EXPECT_EQ(order.epochAt(1, 0), 1);
}

/// test/python/test_data.py has the same values.
TEST(DataOrderTest, IsTheSameInPython) {
  DataOrder order(parseDataOptions("shuffle=7,weights=3:1"), {5, 2});
  EXPECT_EQ(
      places(order, 0, 8),
      (std::vector<std::pair<size_t, int64_t>>{
          {0, 3}, {0, 1}, {1, 1}, {0, 4}, {0, 2}, {0, 0}, {1, 0}, {0, 0}}));
}

TEST(DataOrderTest, WeightsAreOfFiles) {
  try {
    DataOrder(parseDataOptions("weights=1:2:3"), {5, 2});
    FAIL();
  } catch (const std::runtime_error &error) {
    EXPECT_STREQ(error.what(), "--data: weights: expected 2, one for each file "
                               "of an input, got 3");
  }
}

TEST(DataOrderTest, TrainingNeverReadsHeldOutRows) {
  for (const char *order : {"", ",shuffle=3", ",weights=2:1,shuffle=3"}) {
    std::string text = std::string("validation=0.25") + order;
    DataOrder train(parseDataOptions(text), {10, 7});
    DataOrder validation(parseDataOptions(text + ",split=validation"), {10, 7});
    // 2.5 and 1.75 rows are rounded to 3 and 2.
    std::set<std::pair<size_t, int64_t>> trained, validated, all;
    for (const auto &place : places(train, 0, 200))
      trained.insert(place);
    for (const auto &place : places(validation, 0, 200))
      validated.insert(place);
    EXPECT_EQ(validated, (std::set<std::pair<size_t, int64_t>>{
                             {0, 7}, {0, 8}, {0, 9}, {1, 5}, {1, 6}}));
    EXPECT_EQ(trained.size(), 12u) << order;
    for (const auto &place : trained)
      EXPECT_EQ(validated.count(place), 0u) << order;
  }
  DataOrder train(parseDataOptions("validation=0.25"), {10, 7});
  EXPECT_EQ(train.rowsOf(0), 12);
  EXPECT_EQ(train.epochsBefore(0, 12), 1);
}

TEST(DataOrderTest, FilesThatAreTooShortToSplit) {
  std::string start = "--data: validation: expected a fraction that holds out "
                      "at least one row of each file and leaves one to train "
                      "on, got ";
  for (const auto &[text, message] :
       {std::pair<std::string, std::string>("validation=0.01",
                                            "0 of the 40 rows of file 2"),
        {"validation=0.999", "100 of the 100 rows of file 1"}})
    try {
      DataOrder(parseDataOptions(text), {100, 40});
      FAIL();
    } catch (const std::runtime_error &error) {
      EXPECT_EQ(error.what(), start + message);
    }
}

TEST(DataOptionsTest, ParsesAndPrints) {
  for (const char *text :
       {"", "shuffle=0", "shuffle=18446744073709551615", "validation=0.01",
        "validation=0.000001", "validation=0.999999,split=validation",
        "shuffle=1,weights=1:2,validation=0.5,split=validation"})
    EXPECT_EQ(toText(parseDataOptions(text)), text);
  EXPECT_EQ(toText(parseDataOptions("weights=0.5:0.25:1,shuffle=2")),
            "shuffle=2,weights=2:1:4");
  EXPECT_EQ(toText(parseDataOptions("weights=7")), "weights=1");
  EXPECT_EQ(toText(parseDataOptions("validation=0.50,split=train")),
            "validation=0.5");
  EXPECT_EQ(toText(parseDataOptions("weights=999999999:999999999")),
            "weights=1:1");
}

TEST(DataOptionsTest, NamesWhatIsWrong) {
  std::string expected = "shuffle: expected a seed, a whole number in [0, "
                         "2^64), got ";
  for (const char *seed :
       {"", "x", "-1", "1x", "0x1", "1.5", " 1", "18446744073709551616"})
    expectError("shuffle=" + std::string(seed), expected + "'" + seed + "'");
  expectError("shuffle", expected + "''");
  for (const char *weights :
       {"", "0", "1:0", "1:", ":1", "1::2", "-1", "1.", ".5", "1e3",
        "1.0000001", "1234567890", "a", "0.0:1"})
    expectError("weights=" + std::string(weights),
                "weights: expected positive numbers of at most 9 digits and 6 "
                "decimals, separated by ':', got '" +
                    std::string(weights) + "'");
  expectError("weights=0.000001:1", "weights: expected a sum of at most 100000 "
                                    "as whole numbers in lowest terms, not "
                                    "1000001, got '0.000001:1'");
  for (const char *fraction : {"", "0", "1", "1.5", "-0.1", "10%", "0.0000001"})
    expectError("validation=" + std::string(fraction),
                "validation: expected a number between 0 and 1 of at most 6 "
                "decimals, such as 0.01, got '" +
                    std::string(fraction) + "'");
  expectError("split=test", "split: expected train or validation, got 'test'");
  expectError("split=validation",
              "split=validation: expected validation=FRACTION, too");
  expectError("shuffle=1,shuffle=2", "shuffle: given twice");
  expectError("seed=1",
              "expected shuffle=SEED, weights=W:W..., validation=FRACTION or "
              "split=train|validation, got 'seed'");
  expectError("shuffle=1,",
              "expected shuffle=SEED, weights=W:W..., validation=FRACTION or "
              "split=train|validation, got ''");
}

TEST(DataOptionsTest, AnyTextIsParsedOrRefused) {
  std::mt19937 random(1);
  const std::vector<std::string> pieces = {"shuffle=",
                                           ",",
                                           "1",
                                           ":",
                                           "0.5",
                                           "-",
                                           "weights=",
                                           "validation=",
                                           "split=",
                                           "train",
                                           std::string(1, '\0'),
                                           "\xff",
                                           "9999999999"};
  int parsed = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (int length = random() % 8; length > 0; --length)
      text += pieces[random() % pieces.size()];
    try {
      DataOptions options = parseDataOptions(text);
      EXPECT_EQ(toText(parseDataOptions(toText(options))), toText(options));
      parsed += !text.empty();
    } catch (const std::runtime_error &error) {
      EXPECT_EQ(std::string(error.what()).substr(0, 8), "--data: ");
    }
  }
  EXPECT_GT(parsed, 5);
}

} // namespace
