// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Cluster/DeviceReserve.h"

#include <algorithm>
#include <numeric>

using namespace fcdp;

llvm::StringRef fcdp::stringifyReserveUse(ReserveUse use) {
  static constexpr llvm::StringLiteral names[kNumReserveUses] = {
      "context", "communicators", "workspace", "allocator"};
  return names[static_cast<unsigned>(use)];
}

llvm::StringRef fcdp::explainReserveUse(ReserveUse use) {
  static constexpr llvm::StringLiteral reasons[kNumReserveUses] = {
      "the driver's context and the code of kernels",
      "buffers of communicators", "workspaces of libraries",
      "held by a caching allocator that does not use them"};
  return reasons[static_cast<unsigned>(use)];
}

int64_t DeviceCapacity::getTotal() const {
  return std::accumulate(reserved.begin(), reserved.end(), usable);
}

DeviceCapacity fcdp::divideMemory(int64_t memory, const DeviceReserve &reserve,
                                  int64_t ranks) {
  DeviceCapacity capacity;
  auto &reserved = capacity.reserved;
  int64_t left = memory;
  auto take = [&](ReserveUse use, int64_t bytes) {
    bytes = std::min(bytes, left);
    reserved[static_cast<unsigned>(use)] = bytes;
    left -= bytes;
  };
  take(ReserveUse::context, reserve.context);
  take(ReserveUse::communicators, ranks > 1 ? reserve.communicators : 0);
  take(ReserveUse::workspace, reserve.workspace);
  auto usable =
      static_cast<int64_t>(static_cast<double>(left) / (1 + reserve.allocator));
  take(ReserveUse::allocator, left - usable);
  capacity.usable = left;
  return capacity;
}
