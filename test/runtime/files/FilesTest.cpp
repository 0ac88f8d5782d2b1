// SPDX-License-Identifier: Apache-2.0
//
// Files that are written whole, and files that shrink while they are read.
#include "files/MappedFile.h"
#include "files/ReplacedFile.h"
#include "plan/FakeStep.h"

#include <algorithm>
#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/mman.h>

using namespace fcdp;
using namespace fcdp::test;

namespace fs = std::filesystem;

namespace {

class FilesTest : public ::testing::Test {
protected:
  std::string path(const std::string &name = "file") const {
    return folder.file(name);
  }
  void put(const std::string &name, const std::string &text) const {
    std::ofstream(path(name), std::ios::binary) << text;
  }
  std::string get(const std::string &name) const {
    std::ifstream file(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static void write(ReplacedFile &file, const std::string &text) {
    file.write(std::as_bytes(std::span(text)));
  }

  TemporaryFolder folder;
};

TEST_F(FilesTest, AFileIsReplacedWhenItIsComplete) {
  for (std::string text : {"", "short", "eight by", "more than eight bytes"}) {
    put("file", "old");
    {
      ReplacedFile file(path());
      for (char byte : text)
        write(file, std::string(1, byte));
      EXPECT_EQ(get("file"), "old");
      file.finish();
    }
    EXPECT_EQ(get("file"), text);
    EXPECT_EQ(std::distance(fs::directory_iterator(folder.path), {}), 1);
  }
}

TEST_F(FilesTest, WithoutAnEndTheOldFileStays) {
  put("file", "old");
  {
    ReplacedFile file(path());
    write(file, "something new");
  }
  EXPECT_EQ(get("file"), "old");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path), {}), 1);
}

TEST_F(FilesTest, ALinkStaysALink) {
  put("file", "old");
  fs::create_symlink("file", path("link"));
  ReplacedFile file(path("link"));
  write(file, "something new");
  file.finish();
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_EQ(get("file"), "something new");
}

TEST_F(FilesTest, APlantedLinkIsNotFollowed) {
  put("victim", "untouched");
  fs::create_symlink("victim", temporaryName(path()));
  EXPECT_THROW(ReplacedFile{path()}, std::runtime_error);
  EXPECT_EQ(get("victim"), "untouched");
}

TEST_F(FilesTest, NamesMayBeAsLongAsAnyFile) {
  std::string name(255, 'n');
  ReplacedFile file(path(name));
  write(file, "text");
  file.finish();
  EXPECT_EQ(get(name), "text");
}

TEST_F(FilesTest, OnlyAnIncompleteFileIsRemoved) {
  std::string temporary = temporaryName(path());
  {
    ReplacedFile file(path());
    write(file, "not all of it");
    EXPECT_FALSE(removeIncomplete(temporary));
    EXPECT_FALSE(fs::exists(temporary));
  }
  ReplacedFile file(path());
  write(file, "all of the text");
  fs::create_directory(path());
  try {
    file.finish();
    FAIL() << "expected an error";
  } catch (const UnnamedFileError &error) {
    EXPECT_NE(
        std::string(error.what()).find("the complete file is " + temporary),
        std::string::npos)
        << error.what();
  }
  EXPECT_TRUE(removeIncomplete(temporary));
  std::ifstream stream(temporary);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(stream), {}),
            "all of the text");
}

TEST_F(FilesTest, AFileThatShrinksIsReadAsZerosAndNoticed) {
  for (size_t left : {0, 100, 5000}) {
    put("file", std::string(1 << 20, 'x'));
    MappedFile file(path());
    file.requireWhole();
    fs::resize_file(path(), left);
    std::span<const std::byte> bytes = file.bytes();
    EXPECT_EQ(size_t(std::count(bytes.begin(), bytes.end(), std::byte('x'))),
              left);
    try {
      file.requireWhole();
      ADD_FAILURE() << "expected an error";
    } catch (const std::runtime_error &error) {
      EXPECT_EQ(std::string(error.what()),
                path() +
                    ": expected 1048576 bytes, as it had when it was "
                    "opened, got " +
                    std::to_string(left) +
                    "; leave it as it is until the run has read it");
    }
    // A file that has shrunk is not whole when it grows again.
    fs::resize_file(path(), 1 << 20);
    EXPECT_THROW(file.requireWhole(), std::runtime_error);
  }
}

void ownHandler(int) {}

TEST_F(FilesTest, TheHandlerBeforeComesBack) {
  auto original = std::signal(SIGBUS, ownHandler);
  put("file", "some text");
  {
    MappedFile file(path()), again(path());
    struct sigaction now;
    sigaction(SIGBUS, nullptr, &now);
    EXPECT_TRUE(now.sa_flags & SA_SIGINFO);
  }
  EXPECT_EQ(std::signal(SIGBUS, original), ownHandler);
}

TEST_F(FilesTest, OtherBusErrorsAreNotTaken) {
  put("file", std::string(8192, 'x'));
  put("other", std::string(8192, 'x'));
  MappedFile file(path());
  int descriptor = open(path("other").c_str(), O_RDONLY | O_CLOEXEC);
  auto *other = static_cast<volatile char *>(
      mmap(nullptr, 8192, PROT_READ, MAP_SHARED, descriptor, 0));
  fs::resize_file(path("other"), 0);
  EXPECT_EXIT((void)*other, ::testing::KilledBySignal(SIGBUS), "");
  close(descriptor);
}

} // namespace
