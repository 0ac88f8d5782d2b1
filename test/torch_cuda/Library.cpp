// SPDX-License-Identifier: Apache-2.0
//
// The emulation where libtorch has its own part for CUDA. Streams, memory,
// copies, views, workspaces and graphs are libtorch's; kernels are the CPU's.
// They draw the CPU's random numbers, or, with FCDP_FAKE_RANDOM=generator,
// numbers that follow from the state of libtorch's generator for CUDA.

#include "emulated/EmulatedTorch.h"
#include "fake/Machine.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/cuda/CUDAContextLight.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/ops/copy_native.h>
#include <c10/cuda/CUDAStream.h>
#include <cstdlib>
#include <mutex>
#include <set>
#include <string>
#include <torch/library.h>

namespace fcdp::emulated {

cudaStream_t currentStream() {
  return c10::cuda::getCurrentCUDAStream().stream();
}

/// Operators that launch no kernel of the device.
static bool launchesNothing(const c10::OperatorHandle &op) {
  static const std::set<std::string> names{"aten::_local_scalar_dense",
                                           "aten::copy_",
                                           "aten::empty",
                                           "aten::empty_strided",
                                           "aten::resize_",
                                           "aten::record_stream",
                                           "aten::set_"};
  if (names.count(op.schema().name()))
    return true;
  const auto &returns = op.schema().returns();
  return !returns.empty() &&
         std::all_of(returns.begin(), returns.end(), [](const auto &result) {
           return result.alias_info() && !result.alias_info()->isWrite();
         });
}

bool keepsKernel(const c10::OperatorHandle &op) {
  return launchesNothing(op) &&
         op.hasKernelForDispatchKey(c10::DispatchKey::CUDA);
}

void beforeLaunch(const c10::OperatorHandle &op) {
  const std::string &name = op.schema().name();
  // These take the workspaces of the current stream.
  if (name == "aten::mm" || name == "aten::bmm" || name == "aten::addmm")
    (void)at::cuda::getCurrentCUDABlasHandle();
  if (name == "aten::addmm")
    (void)at::cuda::getCUDABlasLtWorkspace();
}

std::optional<uint64_t> reserveRandomNumbers(const c10::OperatorHandle &op) {
  static const bool isByGenerator = [] {
    const char *given = std::getenv("FCDP_FAKE_RANDOM");
    TORCH_CHECK(!given || given == std::string("generator"),
                "expected FCDP_FAKE_RANDOM to be generator, got ", given);
    return given != nullptr;
  }();
  if (!isByGenerator || !op.hasTag(at::Tag::nondeterministic_seeded))
    return std::nullopt;
  at::Generator generator = at::cuda::detail::getDefaultCUDAGenerator();
  std::lock_guard<std::mutex> lock(generator.mutex());
  // As many numbers a thread as one call of Philox gives.
  auto [seed, offset] =
      generator.get<at::CUDAGeneratorImpl>()->philox_engine_inputs(4);
  // The CPU's generator takes 32 bits.
  return (seed << 20) + offset;
}

/// Copies of bytes are libtorch's own; a kernel of the device would change
/// the order or the type of elements.
static at::Tensor &copyInto(at::Tensor &to, const at::Tensor &given,
                            bool isNonBlocking) {
  at::Tensor from = given.expand(to.sizes());
  bool isOfBytes =
      to.scalar_type() == from.scalar_type() &&
      to.strides() == from.strides() && to.is_non_overlapping_and_dense() &&
      to.is_conj() == from.is_conj() && to.is_neg() == from.is_neg();
  if (to.is_cuda() && from.is_cuda() && !isOfBytes) {
    enqueue([to = DeviceView(to), from = DeviceView(from)] {
      to.onHost().copy_(from.onHost());
    });
    return to;
  }
  return at::native::copy_(to, from, isNonBlocking);
}

/// libtorch's allocator frees memory that queued operators use.
[[maybe_unused]] static const bool freesWait =
    fake::Machine::instance().freesWait = true;

TORCH_LIBRARY_IMPL(aten, CUDA, library) {
  library.impl("copy_", TORCH_FN(copyInto));
}

} // namespace fcdp::emulated
