// SPDX-License-Identifier: Apache-2.0
//
// CUDA tensors for a libtorch that has no part for CUDA. Their memory is that
// of the fake device of test/runtime/cuda/fake, and their operators run on its
// streams, with the CPU's kernels. The parts register themselves when the
// library is loaded.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <cstdint>
#include <functional>
#include <optional>

namespace c10 {
class OperatorHandle;
}

namespace fcdp::emulated {

/// Returns the current stream of the calling thread on its current device.
cudaStream_t currentStream();

/// Returns the allocator that libtorch has unless another one is set: it keeps
/// freed memory for the next allocation of that size on the same stream.
c10::cuda::CUDACachingAllocator::CUDAAllocator &cachingAllocator();

/// Returns the allocator that is set. c10::GetAllocator still returns the one
/// before, because libtorch's function that sets one does not tell c10.
inline c10::Allocator *currentAllocator() {
  return c10::cuda::CUDACachingAllocator::get();
}

/// Puts work on the current stream. It runs without autograd and must not refer
/// to tensors of the host. An exception ends the process with its message. The
/// work takes `seconds` of the device's time.
void enqueue(std::function<void()> work, double seconds = 0);
/// Waits until all work of the current stream, or of all streams, has run.
/// Throws c10::Error while the stream is captured.
void synchronizeStream();
void synchronizeDevice();

/// Returns how many bytes of temporary memory each operator overwrites.
size_t scratchBytes();

/// The place of a tensor's bytes. It keeps no reference to the tensor, because
/// the tensor's memory may be used again for work that is issued later.
class DeviceView {
public:
  explicit DeviceView(const at::Tensor &tensor);
  /// Returns a CPU tensor over the bytes. For work of a stream only.
  at::Tensor onHost() const;

private:
  void *address;
  std::vector<int64_t> sizes, strides;
  at::ScalarType type;
  bool isConjugate, isNegative;
  /// Number of elements between the first byte and the last one.
  int64_t extent;
};

/// Returns whether the operator is run by a kernel for CUDA that is registered
/// already.
bool keepsKernel(const c10::OperatorHandle &op);
/// Does on the host what libtorch does before it launches an operator's
/// kernels: products take workspaces.
void beforeLaunch(const c10::OperatorHandle &op);
/// Reserves the random numbers of an operator in the device's generator.
/// Returns the seed of the CPU's kernel for them, or nothing if it draws the
/// next numbers of the CPU's generator.
std::optional<uint64_t> reserveRandomNumbers(const c10::OperatorHandle &op);

/// Returns a new CUDA tensor with the sizes, strides and type of `like`.
at::Tensor makeLike(const at::Tensor &like);

} // namespace fcdp::emulated
