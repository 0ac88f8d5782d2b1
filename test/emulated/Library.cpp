// SPDX-License-Identifier: Apache-2.0
//
// The emulation where libtorch has no part for CUDA.

#include "EmulatedTorch.h"
#include "fake/Machine.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <map>
#include <tuple>

namespace fcdp::emulated {

bool keepsKernel(const c10::OperatorHandle &op) {
  return op.hasKernelForDispatchKey(c10::DispatchKey::CUDA);
}

/// The first product on a stream takes memory that it keeps, from the allocator
/// of results, as cuBLAS's workspaces do. Products with a bias have another
/// workspace, that of cuBLASLt.
void beforeLaunch(const c10::OperatorHandle &op) {
  constexpr size_t bytes = 4 << 20;
  static std::map<std::tuple<int, cudaStream_t, bool>, c10::DataPtr> taken;
  const std::string &name = op.schema().name();
  bool hasBias = name == "aten::addmm";
  if (!hasBias && name != "aten::mm" && name != "aten::bmm")
    return;
  c10::DataPtr &workspace =
      taken[{fake::deviceOfThread(), currentStream(), hasBias}];
  if (!workspace)
    workspace = currentAllocator()->allocate(bytes);
}

/// The device's generator is the CPU's.
std::optional<uint64_t> reserveRandomNumbers(const c10::OperatorHandle &) {
  return std::nullopt;
}

} // namespace fcdp::emulated
