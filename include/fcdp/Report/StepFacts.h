// SPDX-License-Identifier: Apache-2.0
//
// The storage, memory and traffic of a planned step, independent of the
// cluster.
#pragma once

#include "fcdp/Analysis/Traffic.h"
#include "fcdp/Planning/Memory/DeviceMemory.h"
#include "fcdp/Report/FamilyFacts.h"

#include <optional>
#include <string>

namespace fcdp {

/// Counts of parameters and of the buckets that store them. Bytes and elements
/// are totals over all ranks.
struct StorageFacts {
  int64_t parameters = 0, trainable = 0, elements = 0, bytes = 0;
  int64_t buckets = 0, padding = 0;
  /// Buckets that are sharded over the ranks of a node only, and buckets that
  /// are replicated on every rank.
  int64_t shardedOverNode = 0, replicated = 0;
  /// Buckets that are gathered or reduced over all ranks in one step.
  int64_t flat = 0;
  /// The number of buckets whose messages have as many bytes as their values
  /// need, so that the report gives an upper bound, in words. Empty if there
  /// are none.
  std::string boundedMessages;
};

/// Location of an operation in the user's terms. Fields are empty or 0 if
/// unknown.
struct OperationPlace {
  /// Name of the operation, or of the ATen operator for a call, and its
  /// function.
  std::string operation, function;
  std::string file;
  unsigned line = 0;
  /// Path of the module in the user's model.
  std::string module;
};
OperationPlace describePlace(mlir::Operation *op);

struct StepFacts {
  std::string strategy;
  int64_t nodes = 0, ranksPerNode = 0;
  /// Micro-batches per optimizer step.
  int64_t microBatches = 1;
  StorageFacts storage;
  /// Device memory of one rank. `device.fullest` is null; `fullest` describes
  /// it.
  DeviceMemory device;
  std::optional<OperationPlace> fullest;
  /// Bytes of the files of a rank, which have states.
  int64_t files = 0;
  /// Bytes of a node's host memory, and the part that states use.
  int64_t host = 0;
  BytesByUse hostInUse;
  /// Bytes of one node per optimizer step, of the greatest variant if the step
  /// has several shapes, and once per job.
  LinkBytes step, init;
  FamilyFacts family;
};

/// Returns StorageFacts::boundedMessages.
std::string describeBoundedMessages(mlir::ModuleOp module);

/// Measures a module in phase planned that needs the device memory `device`.
StepFacts measureStep(mlir::ModuleOp module, const DeviceMemory &device);

} // namespace fcdp
