// SPDX-License-Identifier: Apache-2.0
#include "weights/TorchArchive.h"
#include "checkpoint/Damage.h"
#include "plan/FakeStep.h"

#include <algorithm>
#include <caffe2/serialize/inline_container.h>
#include <gtest/gtest.h>

using namespace fcdp;
using namespace fcdp::test;

namespace {

/// An archive that libtorch writes, with the single record 'a/b'.
class TorchArchiveTest : public ::testing::Test {
protected:
  TorchArchiveTest() { write(false); }

  void write(bool isCompressed) {
    caffe2::serialize::PyTorchStreamWriter writer(path);
    writer.writeRecord("a/b", content.data(), content.size(), isCompressed);
    writer.writeEndOfFile();
  }
  std::optional<std::string> read() const {
    return TorchArchive(path).readText("a/b");
  }
  void expectError(const std::string &message) {
    try {
      read();
      FAIL() << "expected an error";
    } catch (const std::runtime_error &error) {
      std::string text = error.what();
      EXPECT_NE(text.find(message), text.npos) << text;
      EXPECT_EQ(text.find(path), 0u) << text;
      EXPECT_EQ(text.find("frame #"), text.npos) << text;
    }
  }

  TemporaryFolder folder;
  std::string path = folder.file("a.zip");
  std::string content = std::string(50, 'c') + "ontent";
};

TEST_F(TorchArchiveTest, Records) {
  EXPECT_EQ(read(), content);
  EXPECT_EQ(TorchArchive(path).readText("a"), std::nullopt);
  std::vector<std::string> names = TorchArchive(path).records();
  EXPECT_NE(std::find(names.begin(), names.end(), "a/b"), names.end());
}

TEST_F(TorchArchiveTest, ContentOutlivesTheArchive) {
  auto archive = std::make_unique<TorchArchive>(path);
  auto bytes = archive->read("a/b");
  std::shared_ptr<const void> owner = archive->owner();
  archive.reset();
  EXPECT_EQ(bytes->back(), std::byte('t'));
}

TEST_F(TorchArchiveTest, Compressed) {
  write(true);
  expectError("entry 'a/b': expected it stored as it is, got it compressed; "
              "pack the archive with 'zip -0'");
}

TEST_F(TorchArchiveTest, DamagedContent) {
  std::string damaged = readFile(path);
  damaged[damaged.find(content)] ^= 1;
  writeFile(path, damaged);
  expectError("entry 'a/b': its checksum (CRC-32) is wrong");
}

TEST_F(TorchArchiveTest, LostChecksum) {
  std::string damaged = readFile(path);
  damaged[damaged.find(content) + content.size()] ^= 1;
  writeFile(path, damaged);
  expectError("entry 'a/b': expected a checksum after it, got none");
}

TEST_F(TorchArchiveTest, Encrypted) {
  std::string damaged = readFile(path);
  // The last name is in the directory, 46 bytes after the begin of its entry.
  damaged[damaged.rfind("a/a/b") - 46 + 8] |= 1;
  writeFile(path, damaged);
  expectError("encryption");
}

TEST_F(TorchArchiveTest, Truncated) {
  forEachTruncation(path, [&](size_t length) {
    EXPECT_THROW(read(), std::runtime_error) << length;
  });
}

TEST_F(TorchArchiveTest, AnyByteWrong) {
  forEachWrongByte(path, [&](size_t at) {
    try {
      // Names may differ, and dates do not affect the content.
      EXPECT_EQ(read().value_or(content), content) << at;
    } catch (const std::runtime_error &) {
    }
  });
}

} // namespace
