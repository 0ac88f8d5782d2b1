// SPDX-License-Identifier: Apache-2.0

#include "CudaWorld.h"
#include "GpuTest.h"

#include <cstdlib>

using namespace fcdp;

static std::string cudaLoadError(const std::string &path) {
  try {
    CudaLibrary::load(path);
  } catch (const std::runtime_error &error) {
    return error.what();
  }
  return "";
}

TEST(CudaLibrary, ALibraryThatIsNotThereIsNamed) {
  std::string error = cudaLoadError("/nowhere/libcudart.so.13");
  EXPECT_NE(error.find("the CUDA runtime library is not found: expected one of "
                       "version 12.8 or newer"),
            std::string::npos)
      << error;
  EXPECT_NE(error.find("/nowhere/libcudart.so.13"), std::string::npos) << error;
}

TEST(CudaLibrary, AnOldVersionIsRefused) {
  fake::Machine &machine = fake::Machine::instance();
  machine.runtimeVersion = 12040;
  EXPECT_EQ(cudaLoadError(FCDP_FAKE_CUDART),
            "expected a CUDA runtime library of version 12.8 or newer, found "
            "version 12.4");
  machine.runtimeVersion = 13000;
}

// Other threads may read the environment by then.
TEST(CudaLibrary, LeavesTheEnvironmentAsItIs) {
  fake::Machine &machine = fake::Machine::instance();
  unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
  CudaLibrary::load(FCDP_FAKE_CUDART);
  EXPECT_EQ(std::getenv("CUDA_DEVICE_MAX_CONNECTIONS"), nullptr);
  EXPECT_EQ(machine.queues, 8);
}

// Loads the toolkit's own library, which works without a driver as long as it
// is not used.
TEST(CudaLibrary, TheRealOneHasAllEntryPoints) {
  std::string error = cudaLoadError(realLibrary(FCDP_REAL_CUDART));
  if (error.find("cannot open shared object file") != std::string::npos)
    GTEST_SKIP() << error;
  EXPECT_EQ(error.find(" has no cuda"), std::string::npos) << error;
  EXPECT_EQ(error.find("not found"), std::string::npos) << error;
  EXPECT_EQ(error.find("or newer, found"), std::string::npos) << error;
  std::printf("it says: %s\n", error.empty() ? "nothing" : error.c_str());
}
