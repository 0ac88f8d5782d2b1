// SPDX-License-Identifier: Apache-2.0
//
// Graphs of the CPU's operators.
#pragma once

#include "memory/Pool.h"
#include "streams/GraphCapture.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>
#include <c10/core/CPUAllocator.h>
#include <string>
#include <vector>

namespace fcdp::test {

/// Writes down the operators that this thread calls, with the addresses of what
/// they read and write. As on a device, a launch does them again with those
/// addresses, whatever is there by then, and allocates nothing. The first
/// launch does nothing: here they have run while they were captured.
class EmulatedCapture final : public GraphCapture {
public:
  ~EmulatedCapture() override;
  void begin() override;
  std::unique_ptr<ComputeGraph> end() override;
  void abandon() noexcept override;

  struct Call {
    c10::OperatorName name;
    torch::jit::Stack arguments, results;
  };

  /// The captured operators, and how often graphs were launched.
  std::vector<std::string> captured;
  size_t numGraphs = 0, numLaunches = 0, numAbandoned = 0;
  bool isOpen() const { return handle.has_value(); }

private:
  class Graph;

  void close();
  static std::unique_ptr<at::ObserverContext>
  beginCall(const at::RecordFunction &function);
  static void endCall(const at::RecordFunction &function,
                      at::ObserverContext *context);

  std::optional<at::CallbackHandle> handle;
  std::vector<Call> calls;
  /// Calls that others are made in.
  size_t depth = 0;
  ResultPool nobodys{{}, *c10::GetDefaultCPUAllocator()};
};

} // namespace fcdp::test
