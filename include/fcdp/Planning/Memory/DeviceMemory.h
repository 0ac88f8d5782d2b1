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

/// Returns the purpose as reports name it: "shards".
llvm::StringRef getName(MemoryUse what);

/// Returns what a state of `role` is for, on the device or in host memory.
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
  /// The most that is in use at once: no packing needs less.
  int64_t bound = 0;
};

/// The place that the plan has for a result of an operator, with the pool's tag
/// in front.
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
  /// States, the function's buffers, and results of ATen operators where these
  /// are not or behind them.
  RegionBytes arena;
  /// The end of states and buffers in it.
  int64_t buffers = 0;
  /// The most that results of ATen operators take at once, with their tags.
  int64_t pool = 0;
  /// The places of those results, in the order of their operators.
  std::vector<ResultPlace> results;
  /// The part of the arena that states and buffers reserve.
  ReservedMemory reserved;
  /// The operation at which most is in use, and what is in use there; null in
  /// an empty function.
  mlir::Operation *fullest = nullptr;
  BytesByUse inUse;
};

/// Device memory of one rank over all functions of a step, without temporary
/// memory of kernels (see findActivations).
struct DeviceMemory {
  /// The arena, as in each function.
  RegionBytes arena;
  int64_t buffers = 0, pool = 0;
  /// Inputs and buffers of the model, which are apart from it.
  int64_t inputs = 0;
  /// The operation at which most is in use; null if all functions are empty.
  mlir::Operation *fullest = nullptr;
  BytesByUse inUse;
  /// The functions in the module's order.
  std::vector<FunctionMemory> functions;

  int64_t total() const { return arena.bytes + inputs; }
};

/// Returns what `function` needs, by the places and times of `layouts`.
/// `byPosition` gets what is in use at each operation, in order.
FunctionMemory
measureFunctionMemory(mlir::func::FuncOp function, const MemoryLayouts &layouts,
                      std::vector<BytesByUse> *byPosition = nullptr);

/// Returns what a scheduled or planned module needs, by the places that it has
/// or that --fcdp-plan-memory would give. Changes nothing. The arena is made
/// once, so that it has the size that the function asks for that needs most.
mlir::FailureOr<DeviceMemory> measureDeviceMemory(mlir::ModuleOp module);

/// The device memory of a module, measured when it is first asked for. An
/// analysis of the pass manager, so that the proof of a plan, the report and
/// the object read one measurement: packing makes it slow.
class DeviceMemoryAnalysis {
public:
  explicit DeviceMemoryAnalysis(mlir::Operation *module);

  /// Returns the result of measureDeviceMemory. Reports an error once.
  mlir::FailureOr<const DeviceMemory *> get();

private:
  mlir::ModuleOp module;
  std::optional<mlir::FailureOr<DeviceMemory>> memory;
};

/// The device bytes of one rank that `module`, scheduled or planned, needs.
mlir::FailureOr<int64_t> peakDeviceBytes(mlir::ModuleOp module);

} // namespace fcdp
