// SPDX-License-Identifier: Apache-2.0

#include "session/Agreement.h"
#include "checkpoint/FileDigest.h"
#include "core/Checksum.h"

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

TEST_F(FileDigestTest, CoversAllOfASmallFile) {
  const std::string path = write("small", std::string(100'001, 'x'));
  const std::string before = digestOf(path);
  EXPECT_EQ(before.rfind("100001 bytes, digest ", 0), 0u) << before;
  EXPECT_EQ(digestOf(write("copy", std::string(100'001, 'x'))), before);
  flip(path, 77'777);
  EXPECT_NE(digestOf(path), before);
  EXPECT_THROW(digestOf(folder + "/none"), std::runtime_error);
}

// Changes where formats have their tables are found, and those of many bytes.
TEST_F(FileDigestTest, SamplesALargeFile) {
  const uint64_t size = kMostWholeBytes + 12'345;
  const std::string path = write("large", std::string(size, 'x'));
  std::set<std::string> digests = {digestOf(path)};
  for (uint64_t at : {uint64_t(0), uint64_t(200'000), size - 1}) {
    flip(path, at);
    EXPECT_TRUE(digests.insert(digestOf(path)).second) << at;
  }
  std::string other(size, 'x');
  for (size_t i = size / 3; i < size / 2; ++i)
    other[i] = 'y';
  EXPECT_TRUE(digests.insert(digestOf(write("other", other))).second);
}

TEST_F(FileDigestTest, CoversTheFilesOfAFolder) {
  write("a.safetensors", "one");
  write("notes.txt", "of this node");
  const std::string before = digestOf(folder);
  write("notes.txt", "of another node");
  EXPECT_EQ(digestOf(folder), before);
  write("b.safetensors", "two");
  EXPECT_NE(digestOf(folder), before);
}
