// SPDX-License-Identifier: Apache-2.0

#include "job/Agreement.h"
#include "core/Checksum.h"
#include "job/FileAgreement.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <set>
#include <stdexcept>

using namespace fcdp;

namespace {

constexpr Mesh agreeingMesh{2, 2};

class FileDigestTest : public testing::Test {
protected:
  FileDigestTest() {
    char name[] = "/tmp/fcdp-digest-XXXXXX";
    folder = mkdtemp(name);
  }
  ~FileDigestTest() override { std::filesystem::remove_all(folder); }

  std::string write(const std::string &name, const std::string &content) {
    std::string path = folder + "/" + name;
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }
  /// Changes one bit of a file.
  static void flip(const std::string &path, uint64_t at) {
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekg(std::streamoff(at));
    const char byte = char(file.get() ^ 1);
    file.seekp(std::streamoff(at));
    file.put(byte);
  }

  std::string folder;
};

constexpr uint64_t allBytes = kMostBytesOfRank;

std::string digestOf(const FileSet &files, uint64_t most = allBytes) {
  return toDigits(files.sumOfPart(0, 1, most));
}

/// The facts of each rank about the file that it names.
std::vector<std::vector<Fact>>
compareFiles(const std::vector<std::string> &paths) {
  std::vector<FileAgreement> ranks;
  std::vector<std::string> names, sums;
  for (const std::string &path : paths) {
    ranks.emplace_back(
        agreeingMesh,
        std::vector<FileFact>{{{"--input ids", "", path}, FileSet(path)}});
    names.push_back(ranks.back().names());
  }
  for (uint32_t rank = 0; rank < ranks.size(); ++rank)
    sums.push_back(ranks[rank].sums(rank, names));
  std::vector<std::vector<Fact>> facts;
  for (const FileAgreement &rank : ranks)
    facts.push_back(rank.facts(sums));
  return facts;
}

} // namespace

TEST(Agreement, FactsSurviveTheirText) {
  const std::vector<Fact> facts = {
      {"--steps", "10"}, {"--input ids", "1:2\n", "a b", true}, {"", ""}};
  EXPECT_EQ(encode(decodeFacts(encode(facts))), encode(facts));
  EXPECT_EQ(decodeFacts(encode(facts))[1].place, "a b");
  EXPECT_TRUE(decodeFacts(encode(facts))[1].isOfSome);
  EXPECT_THROW(decodeFacts("GET /"), std::runtime_error);
}

TEST(Agreement, NamesOptionValuesAndRanks) {
  std::vector<std::vector<Fact>> facts(4, {{"--lr", "1"}, {"--steps", "10"}});
  EXPECT_EQ(describeDifference(agreeingMesh, facts), "");
  facts[2][1].value = "20";
  EXPECT_EQ(describeDifference(agreeingMesh, facts),
            "the ranks differ in --steps: 10 on rank 0 (node 0, local 0), rank "
            "1 (node 0, local 1), rank 3 (node 1, local 1); 20 on rank 2 (node "
            "1, local 0); all ranks must have the same");
}

TEST(Agreement, PathsMayDiffer) {
  std::vector<std::vector<Fact>> facts(4);
  for (size_t rank = 0; rank < 4; ++rank)
    facts[rank] = {{"--input ids", "8 bytes", "n" + std::to_string(rank)}};
  EXPECT_EQ(describeDifference(agreeingMesh, facts), "");
  facts[3][0].value = "9 bytes";
  const std::string text = describeDifference(agreeingMesh, facts);
  EXPECT_NE(text.find("n0, 8 bytes on rank 0"), std::string::npos) << text;
  EXPECT_NE(text.find("n3, 9 bytes on rank 3"), std::string::npos) << text;
}

TEST(Agreement, WhatARankLacksDiffersUnlessItIsOfSome) {
  std::vector<std::vector<Fact>> facts(4);
  facts[1] = {{"--pad ids", "0"}};
  const std::string text = describeDifference(agreeingMesh, facts);
  EXPECT_NE(text.find("none on rank 0"), std::string::npos) << text;
  facts[1][0].isOfSome = true;
  EXPECT_EQ(describeDifference(agreeingMesh, facts), "");
  facts[3] = {{"--pad ids", "1", "", true}};
  EXPECT_NE(describeDifference(agreeingMesh, facts), "");
}

TEST(ChecksumTest, TellsEveryBitAndTheLengthApart) {
  std::vector<std::byte> bytes(43, std::byte(0));
  auto valueOf = [&] {
    Checksum checksum;
    checksum.add(bytes);
    return checksum.value();
  };
  std::set<uint64_t> values = {valueOf()};
  for (size_t bit = 0; bit < 8 * 43; ++bit) {
    bytes[bit / 8] ^= std::byte(1 << (bit % 8));
    EXPECT_TRUE(values.insert(valueOf()).second) << bit;
    bytes[bit / 8] ^= std::byte(1 << (bit % 8));
  }
  bytes.push_back(std::byte(0));
  EXPECT_TRUE(values.insert(valueOf()).second);
}

// A change of one bit of a file that is read in parts.
TEST_F(FileDigestTest, CoversAllBytes) {
  const uint64_t size = kMostWholeBytes + 12'345;
  const std::string path = write("large", std::string(size, 'x'));
  std::set<std::string> digests = {digestOf(FileSet(path))};
  EXPECT_FALSE(
      digests.insert(digestOf(FileSet(write("copy", std::string(size, 'x')))))
          .second);
  for (uint64_t at : {uint64_t(0), size / 3, size / 2 + 77'777, size - 1}) {
    flip(path, at);
    const FileSet changed(path);
    EXPECT_TRUE(digests.insert(digestOf(changed)).second) << at;
    for (uint32_t parts : {2, 3, 40}) {
      uint64_t sum = 0;
      for (uint32_t part = 0; part < parts; ++part)
        sum += changed.sumOfPart(part, parts, allBytes);
      EXPECT_EQ(toDigits(sum), digestOf(changed)) << parts;
    }
  }
  EXPECT_THROW(FileSet(folder + "/none"), std::runtime_error);
}

// Two blocks that change their places are a change.
TEST_F(FileDigestTest, CoversTheOrder) {
  const size_t block = size_t(1) << 20;
  const std::string a(block, 'a'), b(block, 'b');
  EXPECT_NE(digestOf(FileSet(write("ab", a + b))),
            digestOf(FileSet(write("ba", b + a))));
}

// Changes where formats have their tables are found, and those of many bytes.
TEST_F(FileDigestTest, SamplesALargeFile) {
  const uint64_t size = kMostWholeBytes + 12'345;
  const std::string path = write("large", std::string(size, 'x'));
  auto digest = [](const std::string &path) {
    return digestOf(FileSet(path), size - 1);
  };
  std::set<std::string> digests = {digest(path)};
  for (uint64_t at : {uint64_t(0), uint64_t(200'000), size - 1}) {
    flip(path, at);
    EXPECT_TRUE(digests.insert(digest(path)).second) << at;
  }
  std::string other(size, 'x');
  for (size_t i = size / 3; i < size / 2; ++i)
    other[i] = 'y';
  EXPECT_TRUE(digests.insert(digest(write("other", other))).second);
}

TEST_F(FileDigestTest, CoversTheFilesOfAFolder) {
  write("a.safetensors", "one");
  write("notes.txt", "of this node");
  const std::string before = digestOf(FileSet(folder));
  EXPECT_EQ(FileSet(folder).describe(), "1 file, 3 bytes");
  write("notes.txt", "of another node");
  EXPECT_EQ(digestOf(FileSet(folder)), before);
  write("b.safetensors", "two");
  EXPECT_NE(digestOf(FileSet(folder)), before);
}

// Ranks that read the same file share it, and nobody looks at what all share.
TEST_F(FileDigestTest, IsCompared) {
  const std::string content(5 << 20, 'x');
  const std::string one = write("one", content), two = write("two", content);
  EXPECT_EQ(compareFiles({one, one, one, one})[2][0].value, "5242880 bytes");
  EXPECT_EQ(
      describeDifference(agreeingMesh, compareFiles({one, one, two, two})), "");
  flip(two, 4'000'000);
  auto facts = compareFiles({one, one, two, two});
  EXPECT_EQ(facts[0][0].value, facts[1][0].value);
  const std::string text = describeDifference(agreeingMesh, facts);
  EXPECT_NE(text.find(two + ", 5242880 bytes, digest "), std::string::npos)
      << text;
  EXPECT_EQ(text, describeDifference(agreeingMesh,
                                     compareFiles({one, one, two, two})));
  // The ranks of a node may name different files.
  facts = compareFiles({one, two, one, one});
  EXPECT_EQ(facts[0][0].value, facts[3][0].value);
  EXPECT_NE(facts[0][0].value, facts[1][0].value);
}

// The same file after a change is another one.
TEST_F(FileDigestTest, SeesAChangeBetweenTwoRanks) {
  const std::string path = write("file", "content");
  const std::string before = FileSet(path).identity();
  EXPECT_EQ(FileSet(path).identity(), before);
  write("file", "contents");
  EXPECT_NE(FileSet(path).identity(), before);
  EXPECT_EQ(before.size(), 16u);
}
