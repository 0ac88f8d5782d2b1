// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mlir/Support/Timing.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/raw_ostream.h"

#include <condition_variable>
#include <mutex>
#include <thread>

namespace fcdp {

/// Tells a waiting user what goes on: prints the stage that a long run is in,
/// and those that follow. With `--mlir-timing`, prints how long each stage took
/// when it is destroyed. Used by one thread; a second one keeps the time.
class Progress {
public:
  /// Prints nothing unless `enabled`; `tool` is its name.
  Progress(llvm::StringRef tool, llvm::raw_ostream &stream, bool enabled);
  ~Progress();

  void start(llvm::StringRef stage);

  /// Returns the timer of the present stage, for pass managers that run in it.
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
