// SPDX-License-Identifier: Apache-2.0
//
// Tests graphs of the work on the compute stream.

#include "OnGpuOrFake.h"

using namespace fcdp;

namespace {

class StreamCaptureTest : public OnGpuOrFake {
protected:
  static constexpr size_t elements = 1000, bytes = elements * sizeof(float);

  StreamCaptureTest() : OnGpuOrFake(4 * bytes, 2 * bytes) {}
  void SetUp() override {
    OnGpuOrFake::SetUp();
    if (backend)
      capture = backend->makeCapture();
  }

  float *device(size_t at) {
    return reinterpret_cast<float *>(backend->deviceBase() + at * bytes);
  }
  float *host(size_t at) {
    return reinterpret_cast<float *>(backend->hostBase() + at * bytes);
  }
  /// Adds device(0) to device(1), and copies the result to device(2).
  void addAndCopy() {
    backend->add(StreamId::Compute, device(1), device(0), elements);
    backend->copy(StreamId::Compute, device(2), device(1), bytes);
  }
  void upload(size_t at, float value) {
    std::fill(host(0), host(0) + elements, value);
    backend->copy(StreamId::H2D, device(at), host(0), bytes);
    backend->synchronize();
  }
  /// Returns the last element.
  float read(size_t at) {
    backend->synchronize();
    backend->copy(StreamId::D2H, host(1), device(at), bytes);
    backend->synchronize();
    EXPECT_EQ(backend->failure(), "");
    return host(1)[elements - 1];
  }

  std::unique_ptr<GraphCapture> capture;
};

/// The fake refuses what a plan must not do.
class StreamCaptureOverFake : public StreamCaptureTest {};

} // namespace

TEST_P(StreamCaptureTest, IsDoneOnceForEachLaunch) {
  upload(0, 3);
  upload(1, 0);
  upload(2, 0);
  capture->begin();
  addAndCopy();
  auto graph = capture->end();
  EXPECT_EQ(read(1), 0);
  graph->launch();
  EXPECT_EQ(read(2), 3);
  // A launch uses the values at that time.
  upload(0, 5);
  graph->launch();
  graph->launch();
  EXPECT_EQ(read(2), 13);
}

TEST_P(StreamCaptureTest, GraphsStandInTheStreamsOrder) {
  upload(0, 1);
  upload(1, 0);
  capture->begin();
  addAndCopy();
  auto graph = capture->end();
  std::fill(host(0), host(0) + elements, 7.0f);
  backend->copy(StreamId::H2D, device(0), host(0), bytes);
  backend->record(0, StreamId::H2D);
  backend->wait(0, StreamId::Compute);
  graph->launch();
  backend->record(1, StreamId::Compute);
  backend->wait(1, StreamId::D2H);
  backend->copy(StreamId::D2H, host(1), device(2), bytes);
  backend->synchronize();
  ASSERT_EQ(backend->failure(), "");
  EXPECT_EQ(host(1)[0], 7);
}

TEST_P(StreamCaptureTest, IsGivenUpAfterAnError) {
  upload(0, 3);
  upload(1, 0);
  capture->begin();
  addAndCopy();
  capture->abandon();
  EXPECT_EQ(read(1), 0);
  addAndCopy();
  EXPECT_EQ(read(1), 3);
  // An abandon without a capture does nothing.
  capture->abandon();
  capture->begin();
  capture.reset();
  EXPECT_EQ(read(1), 3);
}

TEST_P(StreamCaptureOverFake, IsNoPlaceForWaits) {
  capture->begin();
  backend->record(0, StreamId::Compute);
  EXPECT_TRUE(backend->failed());
  capture->abandon();
}

FCDP_INSTANTIATE_ON_GPU_OR_FAKE(StreamCaptureTest);
INSTANTIATE_TEST_SUITE_P(Fake, StreamCaptureOverFake, testing::Values(false));
