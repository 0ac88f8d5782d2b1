// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fcdp/Planning/Memory/MemoryLayout.h"
#include "fcdp/Planning/Memory/MemoryRanges.h"

#include <array>
#include <optional>
#include <vector>

namespace fcdp {

/// The purposes that memory is used for.
enum class MemoryUse {
  Shards,
  Optimizer,
  Gathered,
  Gradients,
  Activations,
  Scratch,
  Inputs
};
inline constexpr size_t kMemoryUseCount = 7;

/// Returns the name of the purpose in reports: "shards".
llvm::StringRef getName(MemoryUse what);

/// Returns the purpose of a state of `role`, on the device or in host memory.
MemoryUse getMemoryUse(StateRole role);

/// Bytes in use, by purpose.
struct BytesByUse {
  std::array<int64_t, kMemoryUseCount> bytes{};
  int64_t &operator[](MemoryUse what) {
    return bytes[static_cast<size_t>(what)];
  }
  int64_t operator[](MemoryUse what) const {
    return bytes[static_cast<size_t>(what)];
  }
  int64_t total() const;
};

/// A region in which places are given by lifetime.
struct RegionBytes {
  /// The size of the region.
  int64_t bytes = 0;
  /// The greatest number of bytes in use at once, below which no packing can
  /// go.
  int64_t bound = 0;
};

/// The planned place of an operator's result, with the pool's tag in front of
/// it.
struct ResultPlace {
  mlir::Operation *op;
  int64_t offset, bytes;
  /// Whether another result of the operator has the same size and is in use for
  /// another time. Operators allocate their results in any order, so the
  /// runtime cannot tell them apart.
  bool isAmbiguous = false;
};

/// Device memory of one rank while a function runs.
struct FunctionMemory {
  /// The states, the function's buffers, and the results of ATen operators
  /// between or after them.
  RegionBytes arena;
  /// The end of states and buffers in the arena.
  int64_t buffers = 0;
  /// The most bytes that results of ATen operators use at once, with their
  /// tags.
  int64_t pool = 0;
  /// The places of those results, in the order of their operators.
  std::vector<ResultPlace> results;
  /// The part of the arena that states and buffers reserve.
  ReservedMemory reserved;
  /// The operation at which the most memory is in use, and the bytes in use
  /// there; null in an empty function.
  mlir::Operation *fullest = nullptr;
  BytesByUse inUse;
};

/// Device memory of one rank over all functions of a step, without temporary
/// memory of kernels (see findActivations).
struct DeviceMemory {
  /// The arena, as in each function.
  RegionBytes arena;
  int64_t buffers = 0, pool = 0;
  /// Inputs and buffers of the model, which are outside of the arena.
  int64_t inputs = 0;
  /// The operation at which the most memory is in use; null if all functions
  /// are empty.
  mlir::Operation *fullest = nullptr;
  BytesByUse inUse;
  /// The functions in the module's order.
  std::vector<FunctionMemory> functions;

  int64_t total() const { return arena.bytes + inputs; }
};

/// Returns the memory that `function` needs, by the places and times of
/// `layouts`. `byPosition` gets the bytes in use at each operation, in order.
FunctionMemory
measureFunctionMemory(mlir::func::FuncOp function, const MemoryLayouts &layouts,
                      std::vector<BytesByUse> *byPosition = nullptr);

/// Returns the memory that a scheduled or planned module needs, by the places
/// that it has or that --fcdp-plan-memory would give. Changes nothing. The
/// arena is allocated once, so it has the size of the function that needs the
/// most.
mlir::FailureOr<DeviceMemory> measureDeviceMemory(mlir::ModuleOp module);

/// The device memory of a module, measured when it is first requested. It is an
/// analysis of the pass manager, so that the proof of a plan, the report and
/// the object share one measurement: packing makes it slow.
class DeviceMemoryAnalysis {
public:
  explicit DeviceMemoryAnalysis(mlir::Operation *module);

  /// Returns the result of measureDeviceMemory. Reports an error once.
  mlir::FailureOr<const DeviceMemory *> get();

private:
  mlir::ModuleOp module;
  std::optional<mlir::FailureOr<DeviceMemory>> memory;
};

/// Returns the device bytes of one rank that `module`, scheduled or planned,
/// needs.
mlir::FailureOr<int64_t> peakDeviceBytes(mlir::ModuleOp module);

} // namespace fcdp
