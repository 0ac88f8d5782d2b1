// SPDX-License-Identifier: Apache-2.0
//
// Captures the work on one stream in CUDA graphs.
#pragma once

#include "cuda/CudaLibrary.h"
#include "streams/GraphCapture.h"

namespace fcdp {

/// Captures work on `stream`, which belongs to device number `device`. The
/// stream and the library must outlive this object and its graphs. Graphs are
/// uploaded to the device when they are made, so that no launch waits for the
/// upload.
class StreamCapture final : public GraphCapture {
public:
  StreamCapture(std::shared_ptr<const CudaLibrary> cuda, int device,
                cudaStream_t stream)
      : cuda(std::move(cuda)), device(device), stream(stream) {}
  ~StreamCapture() override { abandon(); }

  void begin() override;
  std::unique_ptr<ComputeGraph> end() override;
  void abandon() noexcept override;

private:
  const std::shared_ptr<const CudaLibrary> cuda;
  const int device;
  const cudaStream_t stream;
  bool isOpen = false;
};

} // namespace fcdp
