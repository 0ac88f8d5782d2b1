// SPDX-License-Identifier: Apache-2.0
//
// The file of a rank: each block of its data is compared with a digest before
// it is used, and no other.
#include "checkpoint/RankFile.h"

#include "checkpoint/Damage.h"
#include "files/ContentDigest.h"
#include "plan/FakeStep.h"

#include <gtest/gtest.h>
#include <numeric>

using namespace fcdp;
using namespace fcdp::test;

namespace {

constexpr int64_t kOfBlock = int64_t(kDigestBlockBytes / sizeof(float));
/// Begins in one block and ends in the third.
constexpr int64_t kSmall = 5, kLarge = 2 * kOfBlock + 3;

class RankFileTest : public ::testing::Test {
protected:
  RankFileTest() : path(folder.file("rank")), data(kSmall + kLarge) {
    std::iota(data.begin(), data.end(), 1.0f);
    digest = writeRankFile(path, entries(), std::as_bytes(std::span(data)));
    whole = readFile(path);
  }

  static std::vector<SafetensorsWriter::Entry> entries() {
    return {{{"small"}, {kSmall}, DType::F32},
            {{"large"}, {kLarge}, DType::F32}};
  }

  /// Returns "" if elements of the large tensor are read as they were written,
  /// or the error.
  std::string read(RankFile &file, int64_t first, int64_t count) const {
    std::vector<float> found(count);
    try {
      file.read("large", kLarge, DType::F32, first, count,
                reinterpret_cast<std::byte *>(found.data()));
    } catch (const std::runtime_error &error) {
      return error.what();
    }
    return std::equal(found.begin(), found.end(), data.begin() + kSmall + first)
               ? ""
               : "other elements";
  }

  /// Flips a bit of the element `at` of the data.
  void damage(int64_t at) const {
    std::string content = whole;
    content[content.size() - (data.size() - at) * sizeof(float)] ^= 0x40;
    writeFile(path, content);
  }

  TemporaryFolder folder;
  std::string path, digest, whole;
  std::vector<float> data;
};

TEST_F(RankFileTest, HasTheSizeThatIsKnownBefore) {
  EXPECT_EQ(whole.size(), rankFileBytes(entries()));
  RankFile file(path, digest);
  EXPECT_EQ(read(file, 0, kLarge), "");
  EXPECT_EQ(read(file, kOfBlock - 9, 20), "");
}

TEST_F(RankFileTest, ADamagedBlockIsFoundByThoseThatReadIt) {
  damage(kOfBlock + 7);
  RankFile file(path, digest);
  EXPECT_EQ(read(file, 0, kOfBlock - kSmall), "");
  EXPECT_EQ(read(file, 2 * kOfBlock - kSmall, 8), "");
  for (int64_t first : {kOfBlock - kSmall - 1, kOfBlock, 2 * kOfBlock - 9}) {
    const std::string error = read(file, first, 2);
    EXPECT_EQ(error.find(path + ": expected data with the digest "), 0u)
        << error;
    EXPECT_NE(error.find("from byte 1048576 on"), error.npos) << error;
  }
}

TEST_F(RankFileTest, TheLastBlockIsShorter) {
  damage(int64_t(data.size()) - 1);
  RankFile file(path, digest);
  EXPECT_EQ(read(file, 0, kOfBlock), "");
  EXPECT_NE(read(file, 2 * kOfBlock, 1), "");
}

TEST_F(RankFileTest, EachBitOfTheHeaderCounts) {
  const size_t header = whole.size() - data.size() * sizeof(float);
  for (size_t bit = 0; bit < header * 8; bit += 3) {
    std::string content = whole;
    content[bit / 8] ^= char(1 << bit % 8);
    writeFile(path, content);
    EXPECT_THROW(RankFile(path, digest), std::runtime_error) << bit;
  }
}

TEST_F(RankFileTest, AFileWithOtherContentsIsOfAnotherCheckpoint) {
  data[1] = 0.5f;
  EXPECT_NE(writeRankFile(path, entries(), std::as_bytes(std::span(data))),
            digest);
  EXPECT_EQ(readFile(path).size(), whole.size());
  try {
    RankFile(path, digest);
    FAIL() << "expected an error";
  } catch (const std::runtime_error &error) {
    EXPECT_NE(std::string(error.what()).find("of another checkpoint"),
              std::string::npos)
        << error.what();
  }
}

TEST_F(RankFileTest, WithoutDigestsNothingIsCompared) {
  damage(kOfBlock + 7);
  RankFile file(path, std::nullopt);
  EXPECT_EQ(read(file, 0, 5), "");
  EXPECT_EQ(read(file, 0, kLarge), "other elements");
}

} // namespace
