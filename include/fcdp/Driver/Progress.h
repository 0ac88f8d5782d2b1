// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mlir/Support/Timing.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/raw_ostream.h"

#include <condition_variable>
#include <mutex>
#include <thread>

namespace fcdp {

/// Shows a waiting user the progress of a long run: prints its stage and those
/// that follow. With `--mlir-timing`, the destructor prints the duration of
/// each stage. One thread uses it; a second one measures the time.
class Progress {
public:
  /// Prints nothing unless `enabled`; messages begin with the name `tool`.
  Progress(llvm::StringRef tool, llvm::raw_ostream &stream, bool enabled);
  ~Progress();

  void start(llvm::StringRef stage);

  /// Returns the timer of the current stage, for pass managers that run in it.
  mlir::TimingScope &getTiming() { return stageTiming; }

private:
  void print();

  std::string tool;
  llvm::raw_ostream &stream;
  std::mutex mutex;
  std::condition_variable ended;
  /// Guarded by the mutex, as the stream is.
  bool isShown = false, isDone = false;
  std::string stage;
  std::thread timer;
  mlir::DefaultTimingManager timing;
  mlir::TimingScope rootTiming, stageTiming;
};

} // namespace fcdp
