// SPDX-License-Identifier: Apache-2.0
//
// Captures device work that one call can launch many times (a CUDA graph).
#pragma once

#include <memory>

namespace fcdp {

/// A captured graph. Only the issuer may use it. Functions throw
/// std::runtime_error.
class ComputeGraph {
public:
  virtual ~ComputeGraph() = default;
  /// Enqueues all of the graph's work on the compute stream.
  virtual void launch() = 0;
};

/// Captures graphs. Only the issuer may use it. Functions throw
/// std::runtime_error.
class GraphCapture {
public:
  virtual ~GraphCapture() = default;
  /// Begins a capture. Work that is put on the compute stream is recorded and
  /// not run until `end` or `abandon` is called. No other work may be issued in
  /// between.
  virtual void begin() = 0;
  /// Ends the capture and returns its graph, which must not outlive this
  /// object.
  virtual std::unique_ptr<ComputeGraph> end() = 0;
  /// Discards the capture after an error.
  virtual void abandon() noexcept = 0;
};

} // namespace fcdp
