// SPDX-License-Identifier: Apache-2.0
//
// What a planned step stores, keeps in memory and sends, whatever it runs on.
#pragma once

#include "fcdp/Analysis/Traffic.h"
#include "fcdp/Planning/Memory/DeviceMemory.h"

#include <optional>
#include <string>

namespace fcdp {

/// Parameters and the buckets that they are stored in; bytes and elements of
/// all ranks together.
struct StorageFacts {
  int64_t parameters = 0, trainable = 0, elements = 0, bytes = 0;
  int64_t buckets = 0, padding = 0;
  /// Buckets that are cut over the ranks of a node only, and over none.
  int64_t cutOverNode = 0, whole = 0;
  /// Buckets that are gathered or reduced over all ranks in one step.
  int64_t flat = 0;
};

/// Where an operation stands, as a user knows it; empty or 0 where it is not
/// known.
struct Place {
  /// Its name, of an ATen operator that one's; and the function it is in.
  std::string operation, function;
  std::string file;
  unsigned line = 0;
  /// Path of the user's module.
  std::string module;
};
Place describePlace(mlir::Operation *op);

struct StepFacts {
  std::string strategy;
  int64_t nodes = 0, ranksPerNode = 0;
  /// Of an optimizer step.
  int64_t microBatches = 1;
  StorageFacts storage;
  /// Of one rank; `device.fullest` is null, and `fullest` tells what it was.
  DeviceMemory device;
  std::optional<Place> fullest;
  /// Bytes of a node's host memory, and those of them that states have.
  int64_t host = 0;
  HeldBytes hostHeld;
  /// Bytes of one node in an optimizer step, and once per job.
  LinkBytes step, init;
};

/// Measures a module in phase planned. An error is reported.
mlir::FailureOr<StepFacts> measureStep(mlir::ModuleOp module);

} // namespace fcdp
