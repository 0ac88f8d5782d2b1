// SPDX-License-Identifier: Apache-2.0
//
// The memory of a device that no plan may use. This code does not depend on the
// IR.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <array>
#include <cstdint>

namespace fcdp {

/// The reasons for which a plan may not use some device memory.
enum class ReserveUse {
  /// The context of the driver, and the code of kernels.
  context,
  /// The buffers of communicators, such as NCCL's.
  communicators,
  /// The workspaces of libraries, such as cuBLAS's.
  workspace,
  /// Memory that a caching allocator keeps but does not use.
  allocator
};
inline constexpr unsigned kNumReserveUses =
    static_cast<unsigned>(ReserveUse::allocator) + 1;
/// Returns the name in descriptions and reports: "context".
llvm::StringRef stringifyReserveUse(ReserveUse use);
/// Returns a description of what needs the memory.
llvm::StringRef explainReserveUse(ReserveUse use);

/// The memory that the description of a cluster reserves on each device.
struct DeviceReserve {
  /// Bytes.
  int64_t context = 0, communicators = 0, workspace = 0;
  /// Relative to the memory of the plan. It is 0 for plans that fcdp runs,
  /// whose memory has fixed places.
  double allocator = 0;
};

/// The memory of one device.
struct DeviceCapacity {
  /// Bytes that a plan may use.
  int64_t usable = 0;
  /// Bytes that are reserved, by ReserveUse.
  std::array<int64_t, kNumReserveUses> reserved{};

  /// Returns all bytes of the device.
  int64_t getTotal() const;
};

/// Divides `memory` bytes of a device. `usable` is 0 if the reserve leaves
/// nothing. A job of one rank has no communicators.
DeviceCapacity divideMemory(int64_t memory, const DeviceReserve &reserve,
                            int64_t ranks);

} // namespace fcdp
