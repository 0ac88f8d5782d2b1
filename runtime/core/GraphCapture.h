// SPDX-License-Identifier: Apache-2.0
//
// Work that a device is given once, and told to do again by one call: what CUDA
// calls a graph.
#pragma once

#include <memory>

namespace fcdp {

/// Used by the issuer, as is the class below. Functions throw
/// std::runtime_error.
class ComputeGraph {
public:
  virtual ~ComputeGraph() = default;
  /// Enqueues all of its work on the compute stream.
  virtual void launch() = 0;
};

class GraphCapture {
public:
  virtual ~GraphCapture() = default;
  /// What is put on the compute stream from now on is kept, and not done, until
  /// one of the functions below is called. Nothing else may be issued.
  virtual void begin() = 0;
  /// What was kept; it must not outlive this object.
  virtual std::unique_ptr<ComputeGraph> end() = 0;
  /// Forgets what was kept, after an error.
  virtual void abandon() noexcept = 0;
};

} // namespace fcdp
