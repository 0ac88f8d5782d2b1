// SPDX-License-Identifier: Apache-2.0
#include "core/LibrarySettings.h"

#include <cstdlib>
#include <gtest/gtest.h>
#include <stdexcept>
#include <sys/wait.h>
#include <unistd.h>

using namespace fcdp;

namespace {

/// Returns whether `work`, in a process of its own, whose environment is its
/// own, too, returns true.
template <typename Work>
bool holdsAlone(Work work) {
  pid_t child = fork();
  if (child == 0)
    _exit(work() ? 0 : 1);
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

std::string valueOf(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "(not set)";
}

} // namespace

TEST(LibrarySettings, AreSetInTheirPlacesWithoutMovingTheEnvironment) {
  EXPECT_TRUE(holdsAlone([] {
    unsetenv("NCCL_HOSTID");
    unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
    reserveLibrarySettings();
    bool isUnset = valueOf("NCCL_HOSTID") == "(not set)";
    char **before = environ;
    bool isSet = setLibrarySetting("NCCL_HOSTID", "job-3");
    return isUnset && isSet && environ == before &&
           valueOf("NCCL_HOSTID") == "job-3" &&
           valueOf("CUDA_DEVICE_MAX_CONNECTIONS") == "32";
  }));
}

TEST(LibrarySettings, OfTheUserStay) {
  EXPECT_TRUE(holdsAlone([] {
    setenv("NCCL_SOCKET_IFNAME", "lo", 1);
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1", 1);
    reserveLibrarySettings();
    return setLibrarySetting("NCCL_SOCKET_IFNAME", "eth1") &&
           valueOf("NCCL_SOCKET_IFNAME") == "lo" &&
           valueOf("CUDA_DEVICE_MAX_CONNECTIONS") == "1";
  }));
}

TEST(LibrarySettings, WithoutAPlaceAreRefused) {
  EXPECT_TRUE(holdsAlone([] {
    unsetenv("NCCL_HOSTID");
    return !setLibrarySetting("NCCL_HOSTID", "job-3") &&
           valueOf("NCCL_HOSTID") == "(not set)";
  }));
}

TEST(LibrarySettings, ThatAreTooLongAreRefused) {
  EXPECT_TRUE(holdsAlone([] {
    unsetenv("NCCL_HOSTID");
    reserveLibrarySettings();
    try {
      setLibrarySetting("NCCL_HOSTID", std::string(600, 'x'));
    } catch (const std::runtime_error &) {
      return valueOf("NCCL_HOSTID") == "(not set)";
    }
    return false;
  }));
}
