// SPDX-License-Identifier: Apache-2.0
//
// How the fake device behaves in a job: FCDP_FAKE_ORDER is "late" (the
// default), "shuffled:SEED" or "ahead:STREAM". With FCDP_FAKE_SCRATCH=BYTES
// each operator fills that many bytes of temporary memory with NaN. An error of
// the device ends the process. Each process writes the names of the functions
// that it calls into the folder FCDP_FAKE_CALLS, if that is given.
// FCDP_FAKE_SPEED says how long work takes by the device's events, and what
// memory it has (test/runtime/cuda/fake/Speed.h).

#include "EmulatedTorch.h"
#include "fake/Machine.h"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <unistd.h>

namespace fcdp::emulated {
namespace {

[[noreturn]] void fail(const std::string &what) {
  std::fprintf(stderr, "the fake device: %s\n", what.c_str());
  std::fflush(stderr);
  _exit(70);
}

void setOrder(fake::Machine &machine, const std::string &order) {
  size_t colon = order.find(':');
  std::string name = order.substr(0, colon);
  uint32_t seed =
      colon == order.npos ? 0 : uint32_t(std::stoul(order.substr(colon + 1)));
  if (name == "shuffled")
    machine.setPolicy(fake::Policy::Shuffled, seed);
  else if (name == "ahead")
    machine.setPolicy(fake::Policy::Ahead, seed);
  else if (name != "late")
    fail("expected FCDP_FAKE_ORDER to be late, shuffled:SEED or ahead:STREAM, "
         "got '" +
         order + "'");
}

/// A launcher forks after it has loaded this library.
void logCall(const std::string &folder, const char *entryPoint) {
  static pid_t owner = 0;
  static std::FILE *file = nullptr;
  if (owner != getpid()) {
    owner = getpid();
    file = std::fopen((folder + "/" + std::to_string(owner)).c_str(), "w");
    if (!file)
      fail("cannot write to the folder FCDP_FAKE_CALLS");
  }
  std::fprintf(file, "%s\n", entryPoint);
}

void setSpeed(fake::Machine &machine, const std::string &text) {
  try {
    machine.speed.emplace(text);
  } catch (const std::exception &error) {
    fail(std::string("FCDP_FAKE_SPEED: ") + error.what());
  }
  if (double bytes = machine.speed->bytes("device"))
    machine.freeDeviceBytes = uint64_t(bytes);
  // Memory that a device has less of, from the begin.
  if (double bytes = machine.speed->bytes("context"))
    machine.allocate(size_t(bytes));
}

[[maybe_unused]] const bool isSet = [] {
  fake::Machine &machine = fake::Machine::instance();
  machine.onFailure = fail;
  if (const char *order = std::getenv("FCDP_FAKE_ORDER"))
    setOrder(machine, order);
  if (const char *speed = std::getenv("FCDP_FAKE_SPEED"))
    setSpeed(machine, speed);
  if (const char *folder = std::getenv("FCDP_FAKE_CALLS"))
    machine.onCall = [folder = std::string(folder)](const char *entryPoint) {
      logCall(folder, entryPoint);
    };
  return true;
}();

} // namespace

size_t scratchBytes() {
  const char *bytes = std::getenv("FCDP_FAKE_SCRATCH");
  return bytes ? std::stoull(bytes) : 0;
}

} // namespace fcdp::emulated
