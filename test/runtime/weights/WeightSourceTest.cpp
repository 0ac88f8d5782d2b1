// SPDX-License-Identifier: Apache-2.0
#include "weights/WeightSource.h"
#include "checkpoint/Damage.h"
#include "plan/Archive.h"
#include "plan/FakeStep.h"
#include "weights/SafetensorsWriter.h"

#include <gtest/gtest.h>

using namespace fcdp;
using namespace fcdp::test;

namespace {

std::vector<float> floatsOf(const StoredTensor &tensor) {
  std::vector<float> values(numElements(tensor.shape));
  copyElements(tensor, 0, values.size(),
               reinterpret_cast<std::byte *>(values.data()));
  return values;
}

using Floats = std::vector<float>;

class WeightSourceTest : public ::testing::Test {
protected:
  std::string path() const { return folder.file("w"); }

  Floats read(const std::string &name, const Shape &shape) {
    return floatsOf(
        requireTensor(*openWeights(path()), {name}, shape, DType::F32));
  }

  void expectError(const std::string &message, const std::string &name,
                   const Shape &shape = {2}) {
    try {
      read(name, shape);
      FAIL() << "expected an error";
    } catch (const std::runtime_error &error) {
      EXPECT_NE(std::string(error.what()).find(message), std::string::npos)
          << error.what();
      EXPECT_EQ(std::string(error.what()).find(path()), 0u) << error.what();
    }
  }

  void write(const std::string &content) const { writeFile(path(), content); }
  void writeSafetensors(const std::string &header,
                        const std::string &data) const {
    uint64_t size = header.size();
    write(std::string(reinterpret_cast<char *>(&size), 8) + header + data);
  }

  TemporaryFolder folder;
  Archive archive;
};

TEST_F(WeightSourceTest, ReadsWeightsAndConstants) {
  archive.weights = {{"a", "weight_0", 7, {2}, {1}}};
  archive.constants = {{"c", "tensor_0", 7, {1}, {1}}};
  archive.payloads = {{"weight_0", floatBytes({1, 2})},
                      {"tensor_0", floatBytes({3})}};
  archive.write(path(), "some/root");
  EXPECT_EQ(read("a", {2}), (Floats{1, 2}));
  EXPECT_EQ(read("c", {1}), Floats{3});
}

TEST_F(WeightSourceTest, OverlappingAndPermutedViews) {
  archive.weights = {{"all", "weight_0", 7, {2, 3}, {3, 1}},
                     {"transposed", "weight_0", 7, {3, 2}, {1, 3}},
                     {"slice", "weight_0", 7, {2}, {1}, 3},
                     {"expanded", "weight_0", 7, {2, 2}, {0, 1}, 1},
                     {"scalar", "weight_0", 7, {}, {}, 5},
                     {"empty", "weight_0", 7, {0, 4}, {4, 1}}};
  archive.payloads = {{"weight_0", floatBytes({0, 1, 2, 3, 4, 5})}};
  archive.write(path());
  EXPECT_EQ(read("all", {2, 3}), (Floats{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(read("transposed", {3, 2}), (Floats{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(read("slice", {2}), (Floats{3, 4}));
  EXPECT_EQ(read("expanded", {2, 2}), (Floats{1, 2, 1, 2}));
  EXPECT_EQ(read("scalar", {}), Floats{5});
  EXPECT_EQ(read("empty", {0, 4}), Floats{});
}

TEST_F(WeightSourceTest, CopiesAnyRange) {
  archive.weights = {{"t", "weight_0", 7, {2, 3, 2}, {2, 4, 1}}};
  archive.payloads = {
      {"weight_0", floatBytes({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11})}};
  archive.write(path());
  auto source = openWeights(path());
  StoredTensor tensor = *source->find("t");
  Floats all = floatsOf(tensor);
  EXPECT_EQ(all, (Floats{0, 1, 4, 5, 8, 9, 2, 3, 6, 7, 10, 11}));
  for (int64_t first = 0; first < 12; ++first)
    for (int64_t count = 0; first + count <= 12; ++count) {
      Floats part(count);
      copyElements(tensor, first, count,
                   reinterpret_cast<std::byte *>(part.data()));
      EXPECT_EQ(part, Floats(all.begin() + first, all.begin() + first + count));
    }
}

TEST_F(WeightSourceTest, TensorOutlivesTheSourcesCache) {
  archive.weights = {{"a", "weight_0", 7, {1}, {1}},
                     {"b", "weight_1", 7, {1}, {1}}};
  archive.payloads = {{"weight_0", floatBytes({1})},
                      {"weight_1", floatBytes({2})}};
  archive.write(path());
  auto source = openWeights(path());
  StoredTensor a = *source->find("a"), b = *source->find("b");
  source.reset();
  EXPECT_EQ(floatsOf(a), Floats{1});
  EXPECT_EQ(floatsOf(b), Floats{2});
}

TEST_F(WeightSourceTest, WithoutData) {
  archive.weights = {{"a", "weight_0", 7, {2}, {1}}};
  archive.payloads = {{"weight_0", ""}};
  archive.write(path());
  expectError("'a' has no weights: exported without data; give --weights a "
              "file with values",
              "a");
}

TEST_F(WeightSourceTest, Refusals) {
  archive.weights = {{"pickled", "weight_0", 7, {2}, {1}, 0, true},
                     {"long", "weight_0", 7, {3}, {1}},
                     {"far", "weight_0", 7, {2}, {1}, 1},
                     {"strided", "weight_0", 7, {2}, {4}},
                     {"huge", "weight_0", 7, {1 << 30, 2}, {1 << 30, 1}},
                     {"complex", "weight_0", 9, {2}, {1}},
                     {"lost", "weight_9", 7, {2}, {1}},
                     {"bf16", "weight_0", 13, {2}, {1}}};
  archive.payloads = {{"weight_0", floatBytes({1, 2})}};
  archive.write(path());
  expectError("'pickled' is pickled", "pickled");
  expectError("expected a storage of at least 3 elements of f32, got 8 bytes",
              "long", {3});
  expectError("'far': expected a storage of at least 3", "far");
  expectError("'strided': expected a storage of at least 5", "strided");
  expectError("'huge': expected a storage", "huge");
  expectError("'complex' has a type that fcdp does not know", "complex");
  expectError("'lost': expected the entry 'data/weights/weight_9'", "lost");
  expectError("'bf16': expected type f32, got bf16", "bf16");
  expectError("'none': expected a tensor of this name, got none", "none");
  expectError("'far': expected", "far", {3});
}

TEST_F(WeightSourceTest, WrongShape) {
  archive.weights = {{"a", "weight_0", 7, {2}, {1}}};
  archive.payloads = {{"weight_0", floatBytes({1, 2})}};
  archive.write(path());
  expectError("'a': expected shape [2, 1], got [2]", "a", {2, 1});
}

TEST_F(WeightSourceTest, AnyNameWillDo) {
  archive.weights = {{"second", "weight_0", 7, {1}, {1}}};
  archive.payloads = {{"weight_0", floatBytes({4})}};
  archive.write(path());
  auto source = openWeights(path());
  EXPECT_EQ(
      floatsOf(requireTensor(*source, {"first", "second"}, {1}, DType::F32)),
      Floats{4});
}

TEST_F(WeightSourceTest, TruncatedArchives) {
  archive.weights = {{"a", "weight_0", 7, {2}, {1}}};
  archive.payloads = {{"weight_0", floatBytes({1, 2})}};
  archive.write(path());
  forEachTruncation(path(), [&](size_t length) {
    EXPECT_THROW(read("a", {2}), std::runtime_error) << length;
  });
}

TEST_F(WeightSourceTest, DamagedPayloads) {
  archive.weights = {{"a", "weight_0", 7, {2}, {1}}};
  archive.payloads = {{"weight_0", floatBytes({1, 2})}};
  archive.write(path());
  std::string whole = readFile(path());
  size_t at = whole.find(floatBytes({1, 2}));
  ASSERT_NE(at, whole.npos);
  whole[at] ^= 1;
  write(whole);
  expectError("CRC", "a");
}

TEST_F(WeightSourceTest, AnyByteWrong) {
  archive.weights = {{"a", "weight_0", 7, {2}, {1}}};
  archive.payloads = {{"weight_0", floatBytes({1, 2})}};
  archive.write(path());
  forEachWrongByte(path(), [&](size_t at) {
    try {
      // Dates and attributes do not affect a value.
      EXPECT_EQ(read("a", {2}), (Floats{1, 2})) << at;
    } catch (const std::runtime_error &) {
    }
  });
}

TEST_F(WeightSourceTest, OtherFiles) {
  expectError("cannot be opened", "a");
  write("short");
  expectError("fewer than 9 bytes", "a");
  write("neither the one nor the other");
  expectError("expected a .pt2 archive or a safetensors file", "a");
}

TEST_F(WeightSourceTest, SafetensorsWithAliases) {
  std::vector<SafetensorsWriter::Entry> entries = {
      {{"a", "tied.a"}, {2}, DType::F32}, {{"b"}, {}, DType::I64}};
  SafetensorsWriter writer(path(), entries);
  Floats a = {1, 2};
  int64_t seven = 7;
  writer.write(std::as_bytes(std::span(a)));
  writer.write(std::as_bytes(std::span(&seven, 1)));
  EXPECT_FALSE(std::filesystem::exists(path()));
  writer.finish();
  EXPECT_EQ(read("a", {2}), (Floats{1, 2}));
  EXPECT_EQ(read("tied.a", {2}), (Floats{1, 2}));
  StoredTensor b = *openWeights(path())->find("b");
  EXPECT_EQ(b.dtype, DType::I64);
  EXPECT_FALSE(openWeights(path())->find("format"));
}

/// Folders as Hugging Face's models are stored.
class WeightFolderTest : public ::testing::Test {
protected:
  /// Writes a safetensors file with scalars.
  void write(const std::string &file,
             const std::vector<std::pair<std::string, float>> &scalars) {
    std::vector<SafetensorsWriter::Entry> entries;
    for (const auto &[name, value] : scalars)
      entries.push_back({{name}, {}, DType::F32});
    SafetensorsWriter writer(folder.file(file), entries);
    for (const auto &[name, value] : scalars)
      writer.write(std::as_bytes(std::span(&value, 1)));
    writer.finish();
  }
  void writeIndex(const std::string &text) {
    writeFile(folder.file("model.safetensors.index.json"), text);
  }
  float read(const std::string &name) {
    auto source = openWeights(folder.path);
    return floatsOf(requireTensor(*source, {name}, {}, DType::F32))[0];
  }
  void expectError(const std::string &message) {
    try {
      read("a");
      FAIL() << "expected an error";
    } catch (const std::runtime_error &error) {
      EXPECT_NE(std::string(error.what()).find(message), std::string::npos)
          << error.what();
    }
  }

  TemporaryFolder folder;
};

TEST_F(WeightFolderTest, TheIndexNamesTheFiles) {
  write("one.safetensors", {{"a", 1}, {"b", 2}});
  write("two.safetensors", {{"a", 3}, {"c", 4}});
  writeIndex(R"({"metadata": {"total_size": 12}, "weight_map": {
      "a": "two.safetensors", "b": "one.safetensors"}})");
  EXPECT_EQ(read("a"), 3);
  EXPECT_EQ(read("b"), 2);
  EXPECT_EQ(openWeights(folder.path)->names(),
            (std::vector<std::string>{"a", "b"}));
  EXPECT_FALSE(openWeights(folder.path)->find("c"));
}

TEST_F(WeightFolderTest, WithoutAnIndex) {
  write("one.safetensors", {{"a", 1}});
  write("two.safetensors", {{"b", 2}});
  EXPECT_EQ(read("a"), 1);
  EXPECT_EQ(read("b"), 2);
  write("three.safetensors", {{"a", 3}});
  expectError("'a' is in three.safetensors and in another file");
}

TEST_F(WeightFolderTest, ReadsAgainWhatWasDropped) {
  write("one.safetensors", {{"a", 1}});
  auto source = openWeights(folder.path);
  StoredTensor tensor = *source->find("a");
  EXPECT_EQ(floatsOf(tensor), Floats{1});
  source->dropPages();
  EXPECT_EQ(floatsOf(tensor), Floats{1});
}

TEST_F(WeightFolderTest, DamagedFolders) {
  expectError("expected a folder with safetensors files, got none");
  writeFile(folder.file("index.json"), "{}");
  expectError("expected a folder of weights, got a checkpoint; resume from it");
  std::filesystem::remove(folder.file("index.json"));
  writeIndex("{");
  expectError("model.safetensors.index.json: ");
  writeIndex(R"({"weight_map": {"a": 1}})");
  expectError("index.weight_map.a: expected");
  writeIndex(R"({"weight_map": {"a": "../outside.safetensors"}})");
  expectError("expected the name of a file in the same folder, got");
  writeIndex(R"({"weight_map": {"a": "lost.safetensors"}})");
  expectError("lost.safetensors: cannot be opened");
  write("one.safetensors", {{"b", 1}});
  writeIndex(R"({"weight_map": {"a": "one.safetensors"}})");
  expectError("'a': expected a tensor of this name, got none");
  writeFile(folder.file("x.safetensors.index.json"), "{}");
  expectError("expected one index of weights, got");
}

TEST_F(WeightSourceTest, NothingStaysOfAnUnfinishedFile) {
  {
    SafetensorsWriter writer(path(), {{{"a"}, {2}, DType::F32}});
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path));
  SafetensorsWriter writer(path(), {{{"a"}, {2}, DType::F32}});
  EXPECT_THROW(writer.finish(), std::runtime_error);
}

TEST_F(WeightSourceTest, AFileThatShrinksIsNamed) {
  {
    SafetensorsWriter writer(path(), {{{"a"}, {4096}, DType::F32}});
    writer.write(std::vector<std::byte>(4096 * 4));
    writer.finish();
  }
  auto source = openWeights(path());
  StoredTensor tensor = requireTensor(*source, {"a"}, {4096}, DType::F32);
  EXPECT_EQ(floatsOf(tensor), Floats(4096));
  std::filesystem::resize_file(path(), 200);
  EXPECT_THROW(floatsOf(tensor), std::runtime_error);
  std::vector<std::byte> narrow(4096 * 2);
  EXPECT_THROW(convertElements(tensor, 0, 4096, DType::BF16, narrow.data()),
               std::runtime_error);
}

TEST_F(WeightSourceTest, UnwritableFile) {
  EXPECT_THROW(SafetensorsWriter("/no/such/folder/file", {}),
               std::runtime_error);
}

TEST_F(WeightSourceTest, DamagedSafetensors) {
  std::string good =
      R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  writeSafetensors(good, floatBytes({1, 2}));
  EXPECT_EQ(read("a", {2}), (Floats{1, 2}));
  forEachTruncation(path(), [&](size_t length) {
    EXPECT_THROW(read("a", {2}), std::runtime_error) << length;
  });
  for (
      const char *bad :
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,9]}})",
       R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})",
       R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0]}})",
       R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})",
       R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})",
       R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]}})",
       R"({"a":{"dtype":"F32","data_offsets":[0,8]}})", R"({"a":3})", R"({"a")",
       "{"}) {
    writeSafetensors(bad, floatBytes({1, 2}));
    EXPECT_THROW(read("a", {2}), std::runtime_error) << bad;
  }
}

TEST_F(WeightSourceTest, SafetensorsOfOtherSizesThanTheirShapes) {
  for (const char *range : {"[0,4]", "[4,8]", "[0,0]", "[0,12]"}) {
    writeSafetensors(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":)" +
                         std::string(range) + "}}",
                     floatBytes({1, 2, 3}));
    try {
      read("a", {2});
      ADD_FAILURE() << range;
    } catch (const std::runtime_error &error) {
      EXPECT_NE(std::string(error.what()).find("expected 8 bytes for [2]"),
                std::string::npos)
          << error.what();
    }
  }
}

} // namespace
