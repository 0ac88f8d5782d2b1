// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/ZipFile.h"
#include "checkpoint/Checksum.h"
#include "step/FakeStep.h"

#include <fstream>
#include <gtest/gtest.h>

using namespace fcdp;
using namespace fcdp::test;

namespace {

std::span<const std::byte> bytesOf(const std::string &text) {
  return std::as_bytes(std::span(text));
}

template <typename... T>
std::string pack(T... numbers) {
  std::string bytes;
  (bytes.append(reinterpret_cast<const char *>(&numbers), sizeof(numbers)),
   ...);
  return bytes;
}

/// An archive of one entry, of which the test changes what it likes.
struct Parts {
  std::string name = "a", content = "content";
  uint16_t method = 0, flags = 0;
  uint32_t size = 7, storedSize = 7, header = 0;
  std::string extra;
  uint16_t count = 1;
  /// Of the directory; none: where it is.
  std::optional<uint32_t> offset;
  std::string inFrontOfEnd;

  std::string local() const {
    return pack(0x04034b50u, uint16_t(20), flags, method, uint32_t(0),
                crc32(bytesOf(content)), storedSize, size,
                uint16_t(name.size()), uint16_t(0)) +
           name + content;
  }
  std::string directory() const {
    return pack(0x02014b50u, uint32_t(20), flags, method, uint32_t(0),
                crc32(bytesOf(content)), storedSize, size,
                uint16_t(name.size()), uint16_t(extra.size()), uint64_t(0),
                uint16_t(0), header) +
           name + extra;
  }
  std::string whole() const {
    auto start = uint32_t(local().size());
    return local() + directory() + inFrontOfEnd +
           pack(0x06054b50u, uint32_t(0), count, count,
                uint32_t(directory().size()), offset.value_or(start),
                uint16_t(0));
  }
};

class ZipFileTest : public ::testing::Test {
protected:
  std::optional<std::string> read(const Parts &parts) {
    std::string path = folder.file("a.zip");
    std::ofstream(path, std::ios::binary) << parts.whole();
    return ZipFile(path).readText("a");
  }
  void expectError(const std::string &message, const Parts &parts) {
    try {
      read(parts);
      FAIL() << "expected an error";
    } catch (const std::runtime_error &error) {
      EXPECT_NE(std::string(error.what()).find(message), std::string::npos)
          << error.what();
    }
  }

  TemporaryFolder folder;
  Parts parts;
};

TEST(ChecksumTest, KnownSums) {
  EXPECT_EQ(crc32({}), 0u);
  EXPECT_EQ(crc32(bytesOf("123456789")), 0xcbf43926u);
  EXPECT_EQ(crc32(bytesOf("The quick brown fox jumps over the lazy dog")),
            0x414fa339u);
}

TEST_F(ZipFileTest, Small) {
  EXPECT_EQ(read(parts), "content");
  parts.name = "b";
  EXPECT_EQ(read(parts), std::nullopt);
}

TEST_F(ZipFileTest, FieldsOfLargeFiles) {
  parts.size = parts.storedSize = parts.header = 0xffffffff;
  parts.extra = pack(uint16_t(7), uint16_t(1), uint8_t(0), uint16_t(1),
                     uint16_t(24), uint64_t(7), uint64_t(7), uint64_t(0));
  uint64_t start = parts.local().size();
  uint64_t end = start + parts.directory().size();
  parts.count = 0xffff;
  parts.offset = 0xffffffff;
  parts.inFrontOfEnd =
      pack(0x06064b50u, uint64_t(44), uint64_t(0), uint32_t(0), uint64_t(1)) +
      pack(uint64_t(1), uint64_t(end - start), start) +
      pack(0x07064b50u, 0u, end, 1u);
  EXPECT_EQ(read(parts), "content");

  Parts damaged = parts;
  damaged.inFrontOfEnd[0] ^= 1;
  expectError("directory is damaged", damaged);
  damaged = parts;
  damaged.extra.resize(10);
  expectError("cannot be read as an archive", damaged);
}

TEST_F(ZipFileTest, WhatIsNotStoredAsItIs) {
  parts.method = 8;
  expectError("got it compressed; pack the archive with 'zip -0'", parts);
  parts.method = 0;
  parts.flags = 1;
  expectError("got it encrypted", parts);
}

TEST_F(ZipFileTest, SizesThatCannotBe) {
  parts.size = 8;
  expectError("expected 8 bytes, got 7", parts);
  parts.storedSize = 8;
  expectError("CRC", parts);
  parts.size = parts.storedSize = 0xfffffff0;
  expectError("entry 'a': its directory points outside the file", parts);
}

} // namespace
