// SPDX-License-Identifier: Apache-2.0
//
// A base for tests of one backend that run over the fake and, if there is one,
// on a GPU.
#pragma once

#include "CudaWorld.h"
#include "GpuTest.h"

#include <unistd.h>

namespace fcdp {

/// The parameter is true for a GPU.
class OnGpuOrFake : public testing::TestWithParam<bool> {
protected:
  OnGpuOrFake(uint64_t deviceBytes, uint64_t hostBytes,
              StepRecorder *recorder = nullptr)
      : deviceBytes(deviceBytes), hostBytes(hostBytes), recorder(recorder) {}

  void SetUp() override {
    if (GetParam())
      FCDP_REQUIRE_GPU();
    cuda = GetParam() ? CudaLibrary::load() : fakeCuda();
    CudaBackendOptions options;
    options.cuda = cuda;
    options.deviceBytes = deviceBytes;
    options.numEvents = 4;
    options.recorder = recorder;
    HostCacheOptions cache;
    cache.segment.name = "gpu-or-fake-" + std::to_string(getpid());
    cache.segment.bytes = hostBytes;
    cache.segment.part = {0, hostBytes};
    options.host = CudaHostCache(cuda, cache);
    backend = makeCudaBackend(std::move(options));
  }

  std::shared_ptr<const CudaLibrary> cuda;
  std::unique_ptr<CudaBackend> backend;

private:
  const uint64_t deviceBytes, hostBytes;
  StepRecorder *const recorder;
};

#define FCDP_INSTANTIATE_ON_GPU_OR_FAKE(Suite)                                 \
  INSTANTIATE_TEST_SUITE_P(Fake, Suite, testing::Values(false));               \
  INSTANTIATE_TEST_SUITE_P(Gpu, Suite, testing::Values(true))

} // namespace fcdp
