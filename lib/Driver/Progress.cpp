// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Driver/Progress.h"

using namespace fcdp;

/// Progress is printed only after this time.
static constexpr std::chrono::seconds kPatience{1};

Progress::Progress(llvm::StringRef tool, llvm::raw_ostream &stream,
                   bool enabled)
    : tool(tool), stream(stream) {
  mlir::applyDefaultTimingManagerCLOptions(timing);
  rootTiming = timing.getRootScope();
  if (!enabled)
    return;
  timer = std::thread([this] {
    std::unique_lock<std::mutex> lock(mutex);
    if (ended.wait_for(lock, kPatience, [this] { return isDone; }))
      return;
    isShown = true;
    print();
  });
}

Progress::~Progress() {
  if (!timer.joinable())
    return;
  {
    std::lock_guard<std::mutex> lock(mutex);
    isDone = true;
  }
  ended.notify_one();
  timer.join();
}

void Progress::start(llvm::StringRef next) {
  stageTiming = rootTiming.nest(next);
  std::lock_guard<std::mutex> lock(mutex);
  stage = next.str();
  if (isShown)
    print();
}

void Progress::print() { stream << tool + ": " + stage + " ...\n"; }
