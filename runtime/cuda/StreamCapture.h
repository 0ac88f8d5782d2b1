// SPDX-License-Identifier: Apache-2.0
//
// CUDA graphs of what is put on one stream.
#pragma once

#include "core/GraphCapture.h"
#include "cuda/CudaLibrary.h"

namespace fcdp {

/// `stream` is of the device of that number; it and the library must outlive
/// this object and its graphs. Graphs are in device memory as soon as they are
/// made, so that no launch waits for that.
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
