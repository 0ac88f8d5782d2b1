// SPDX-License-Identifier: Apache-2.0
//
// Work on the fake device's streams, and tensors over its memory.

#include "EmulatedTorch.h"
#include "fake/Machine.h"

#include <ATen/EmptyTensor.h>
#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <cuda_runtime_api.h>

namespace fcdp::emulated {

using fake::Machine;

void enqueue(std::function<void()> work, double seconds) {
  std::lock_guard<std::recursive_mutex> lock(Machine::instance().mutex);
  fake::put(
      currentStream(),
      [work = std::move(work)] {
        // Any thread may run it. oneDNN takes the number of threads of this
        // one,
        // and with it the order of sums.
        at::internal::lazy_init_num_threads();
        at::AutoDispatchBelowADInplaceOrView belowAutograd;
        at::NoGradGuard noGrad;
        try {
          work();
        } catch (const std::exception &error) {
          Machine::instance().fail(error.what());
        }
        return true;
      },
      seconds);
}

void synchronizeStream() {
  cudaStream_t stream = currentStream();
  TORCH_CHECK(!fake::isCaptured(stream),
              "the host waits for a stream while it is captured");
  TORCH_CHECK(cudaStreamSynchronize(stream) == cudaSuccess,
              "cudaStreamSynchronize failed");
}

void synchronizeDevice() {
  TORCH_CHECK(cudaDeviceSynchronize() == cudaSuccess,
              "cudaDeviceSynchronize failed");
}

DeviceView::DeviceView(const at::Tensor &tensor)
    : address(tensor.mutable_data_ptr()), sizes(tensor.sizes().vec()),
      strides(tensor.strides().vec()), type(tensor.scalar_type()),
      isConjugate(tensor.is_conj()), isNegative(tensor.is_neg()), extent(0) {
  if (tensor.numel() == 0)
    return;
  extent = 1;
  for (size_t i = 0; i < sizes.size(); ++i)
    extent += (sizes[i] - 1) * strides[i];
}

at::Tensor DeviceView::onHost() const {
  at::TensorOptions options(type);
  if (extent == 0)
    return at::empty_strided(sizes, strides, options);
  size_t bytes = size_t(extent) * c10::elementSize(type);
  std::byte *storage = Machine::instance().translate(address, bytes);
  TORCH_CHECK(storage, "an operator uses ", bytes,
              " bytes that are not all in memory of the device");
  at::Tensor tensor = at::from_blob(storage, sizes, strides, options);
  tensor._set_conj(isConjugate);
  tensor._set_neg(isNegative);
  return tensor;
}

at::Tensor makeLike(const at::Tensor &like) {
  return at::detail::empty_strided_generic(
      like.sizes(), like.strides(), currentAllocator(),
      c10::DispatchKeySet(c10::DispatchKey::CUDA), like.scalar_type());
}

} // namespace fcdp::emulated
