// SPDX-License-Identifier: Apache-2.0
//
// The object of a step.
#include "step/StepFixture.h"

#include <filesystem>
#include <fstream>

using namespace fcdp;
using namespace fcdp::test;

namespace {

TEST_F(StepTest, OtherAbi) {
  fake.abi = 1;
  expectLoadError("step.so: expected ABI version " +
                  std::to_string(FCDP_ABI_VERSION) + ", got 1");
}

TEST_F(StepTest, NoSharedObject) {
  EXPECT_THROW(StepObject(folder.file("missing.so")), std::runtime_error);
  EXPECT_THROW(StepObject("/proc/self/exe"), std::runtime_error);
}

TEST_F(StepTest, EveryByteOfTheObjectIsChecked) {
  std::string path = fake.build(folder);
  std::string good = [&] {
    std::ifstream file(path, std::ios::binary);
    return std::string{std::istreambuf_iterator<char>(file), {}};
  }();
  auto expectRefused = [&](const std::string &bytes, size_t at) {
    std::ofstream(path, std::ios::binary) << bytes;
    try {
      StepObject loaded(path);
      ADD_FAILURE() << "byte " << at;
    } catch (const std::runtime_error &error) {
      EXPECT_EQ(std::string(error.what()).find(path + ": "), 0u)
          << error.what();
    }
  };
  // Headers, code, symbols, data and checksum, at each place another bit.
  size_t tried = 0;
  for (size_t at = 0; at < good.size(); at += at < 64 ? 1 : 61, ++tried) {
    std::string bad = good;
    bad[at] ^= char(1 << tried % 8);
    expectRefused(bad, at);
  }
  for (size_t size : {size_t(0), size_t(3), size_t(100), good.size() / 2,
                      good.size() - 48, good.size() - 1})
    expectRefused(good.substr(0, size), size);
  std::ofstream(path, std::ios::binary) << good;
  EXPECT_EQ(StepObject(path).hash().size(), 40u);
}

TEST_F(StepTest, AnObjectThatIsCutLaterIsStillWhole) {
  fake.constants.assign(1 << 16, 'c');
  std::string path = fake.build(folder);
  StepObject loaded(path);
  std::filesystem::resize_file(path, 0);
  ASSERT_EQ(loaded.constants().size(), fake.constants.size());
  for (std::byte byte : loaded.constants())
    ASSERT_EQ(byte, std::byte('c'));
}

} // namespace
