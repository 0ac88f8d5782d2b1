// SPDX-License-Identifier: Apache-2.0

#include "cuda/StreamCapture.h"

#include <stdexcept>
#include <utility>

namespace fcdp {
namespace {

class StreamGraph final : public ComputeGraph {
public:
  StreamGraph(std::shared_ptr<const CudaLibrary> givenCuda, cudaGraph_t graph,
              cudaStream_t stream)
      : cuda(std::move(givenCuda)), stream(stream) {
    cuda->check(cuda->cudaGraphInstantiateWithFlags(&executable, graph, 0),
                "cudaGraphInstantiateWithFlags");
  }
  ~StreamGraph() override {
    if (executable)
      (void)cuda->cudaGraphExecDestroy(executable);
  }
  StreamGraph(const StreamGraph &) = delete;
  StreamGraph &operator=(const StreamGraph &) = delete;

  void upload() {
    cuda->check(cuda->cudaGraphUpload(executable, stream), "cudaGraphUpload");
  }
  void launch() override {
    cuda->check(cuda->cudaGraphLaunch(executable, stream), "cudaGraphLaunch");
  }

private:
  const std::shared_ptr<const CudaLibrary> cuda;
  const cudaStream_t stream;
  cudaGraphExec_t executable = nullptr;
};

} // namespace

void StreamCapture::begin() {
  cuda->check(cuda->cudaSetDevice(device), "cudaSetDevice");
  // The relaxed mode lets other threads, such as CollectiveWatch's, call CUDA
  // during the capture, and lets libtorch allocate.
  cuda->check(
      cuda->cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed),
      "cudaStreamBeginCapture");
  isOpen = true;
}

std::unique_ptr<ComputeGraph> StreamCapture::end() {
  cudaGraph_t graph = nullptr;
  isOpen = false;
  cuda->check(cuda->cudaStreamEndCapture(stream, &graph),
              "cudaStreamEndCapture");
  // The executable graph is a copy of this one.
  std::unique_ptr<CUgraph_st, decltype(cuda->cudaGraphDestroy)> owner(
      graph, cuda->cudaGraphDestroy);
  auto made = std::make_unique<StreamGraph>(cuda, graph, stream);
  made->upload();
  return made;
}

void StreamCapture::abandon() noexcept {
  cudaGraph_t graph = nullptr;
  if (std::exchange(isOpen, false))
    (void)cuda->cudaStreamEndCapture(stream, &graph);
  if (graph)
    (void)cuda->cudaGraphDestroy(graph);
}

} // namespace fcdp
