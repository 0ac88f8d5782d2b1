// SPDX-License-Identifier: Apache-2.0
//
// New memory, copies between devices, and numbers that the host reads.

#include "EmulatedTorch.h"
#include "fake/Machine.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/ops/from_blob.h>
#include <torch/library.h>

namespace fcdp::emulated {

at::Tensor makeEmpty(at::IntArrayRef size, std::optional<at::ScalarType> type,
                     std::optional<at::Layout>, std::optional<at::Device>,
                     std::optional<bool> pinned,
                     std::optional<at::MemoryFormat> format) {
  TORCH_CHECK(!pinned.value_or(false), "memory of a device is not pinned");
  return at::detail::empty_generic(size, currentAllocator(),
                                   c10::DispatchKeySet(c10::DispatchKey::CUDA),
                                   type.value_or(at::kFloat), format);
}

at::Tensor makeStrided(at::IntArrayRef size, at::IntArrayRef stride,
                       std::optional<at::ScalarType> type,
                       std::optional<at::Layout>, std::optional<at::Device>,
                       std::optional<bool> pinned) {
  TORCH_CHECK(!pinned.value_or(false), "memory of a device is not pinned");
  return at::detail::empty_strided_generic(
      size, stride, currentAllocator(),
      c10::DispatchKeySet(c10::DispatchKey::CUDA), type.value_or(at::kFloat));
}

namespace {

/// Bytes that cross between host and device. The device reads and writes pinned
/// memory when the stream reaches the copy; for other memory the host waits.
void copyAcross(const at::Tensor &to, const at::Tensor &from,
                bool isNonBlocking) {
  const at::Tensor &host = to.is_cuda() ? from : to;
  bool isPinned = fake::isPinned(host.const_data_ptr());
  if (to.is_cuda()) {
    // The host's memory is there until the device has read it: that is up to
    // the program if it is pinned.
    at::Tensor source = isPinned ? at::Tensor() : from;
    auto *data = isPinned ? from.const_data_ptr() : nullptr;
    enqueue([to = DeviceView(to), source, data, shape = from.sizes().vec(),
             strides = from.strides().vec(), options = from.options()] {
      at::Tensor host =
          data ? at::from_blob(const_cast<void *>(data), shape, strides,
                               options.pinned_memory(false))
               : source;
      to.onHost().copy_(host);
    });
  } else {
    enqueue([from = DeviceView(from), data = to.mutable_data_ptr(),
             shape = to.sizes().vec(), strides = to.strides().vec(),
             options = to.options()] {
      at::from_blob(data, shape, strides, options.pinned_memory(false))
          .copy_(from.onHost());
    });
  }
  if (!isNonBlocking || !isPinned)
    synchronizeStream();
}

} // namespace

at::Tensor &copyInto(at::Tensor &to, const at::Tensor &given,
                     bool isNonBlocking) {
  at::Tensor from = given.expand(to.sizes());
  if (to.numel() == 0)
    return to;
  if (to.is_cuda() && from.is_cuda()) {
    auto &machine = fake::Machine::instance();
    double bytes = double(to.nbytes() + from.nbytes());
    enqueue([to = DeviceView(to),
             from = DeviceView(from)] { to.onHost().copy_(from.onHost()); },
            machine.speed ? machine.speed->kernel(bytes) : 0);
    return to;
  }
  // As with CUDA, the device changes the type, in memory of its own.
  bool changesType = from.scalar_type() != to.scalar_type();
  if (to.is_cuda() && changesType) {
    at::Tensor typed = makeLike(from);
    copyAcross(typed, from, isNonBlocking);
    return to.copy_(typed);
  }
  copyAcross(to, changesType ? from.to(to.scalar_type()) : from, isNonBlocking);
  return to;
}

at::Scalar readNumber(const at::Tensor &tensor) {
  at::Scalar number;
  enqueue([&number, view = DeviceView(tensor)] {
    number = at::_local_scalar_dense(view.onHost());
  });
  synchronizeStream();
  return number;
}

TORCH_LIBRARY_IMPL(aten, CUDA, library) {
  library.impl("empty.memory_format", TORCH_FN(makeEmpty));
  library.impl("empty_strided", TORCH_FN(makeStrided));
  library.impl("copy_", TORCH_FN(copyInto));
  library.impl("_local_scalar_dense", TORCH_FN(readNumber));
}

} // namespace fcdp::emulated
