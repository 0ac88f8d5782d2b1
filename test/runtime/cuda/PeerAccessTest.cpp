// SPDX-License-Identifier: Apache-2.0
#include "cuda/PeerAccess.h"

#include "CudaWorld.h"
#include "fake/Machine.h"

using namespace fcdp;

namespace {

/// Restores the machine.
class PeerAccess : public testing::Test {
protected:
  ~PeerAccess() override {
    machine.devices = devices;
    machine.withoutPeers.clear();
    machine.sharesByHandles = true;
  }

  fake::Machine &machine = fake::Machine::instance();
  const int devices = machine.devices;
};

} // namespace

TEST_F(PeerAccess, OnlyGpusThatThisProcessSeesAreToldOf) {
  machine.devices = 1;
  EXPECT_EQ(describePeers(*fakeCuda(), 0), "");
  machine.devices = 3;
  EXPECT_EQ(describePeers(*fakeCuda(), 1),
            "GPU 1 can access the memory of GPU 0, 2; memory can be shared by "
            "handles (cuMem)");
}

TEST_F(PeerAccess, GpusWithoutItAreNamed) {
  machine.devices = 4;
  machine.withoutPeers = {{0, 2}, {0, 3}};
  EXPECT_EQ(describePeers(*fakeCuda(), 0),
            "GPU 0 can access the memory of GPU 1 and not of 2, 3, so NCCL "
            "copies through host memory; memory can be shared by handles "
            "(cuMem)");
  machine.devices = 2;
  machine.withoutPeers = {{0, 1}};
  machine.sharesByHandles = false;
  EXPECT_EQ(describePeers(*fakeCuda(), 0),
            "GPU 0 can access the memory of no other GPU, so NCCL copies "
            "through host memory; memory cannot be shared by handles (cuMem), "
            "so NCCL has no windows");
}
