// SPDX-License-Identifier: Apache-2.0
//
// Host memory in which the caller of a step reads and writes values of a GPU.
#pragma once

#include "operators/StepState.h"

#include <map>
#include <span>

namespace fcdp {

/// The bytes of a tensor that is on the CPU.
std::span<std::byte> bytesOf(const at::Tensor &tensor);

/// Copies on the host of a step's inputs, buffers and shards. Not used on the
/// CPU, where the caller has the tensors themselves. Used by the issuing thread
/// only; functions enqueue on libtorch's current stream.
class HostCopies {
public:
  explicit HostCopies(StepState &state) : state(state) {}

  /// Input `index` of set `set`, in pinned memory. A micro-batch has a set of
  /// its own, so that none is overwritten while it is still being copied.
  /// Inputs at one address on the device are at one address on the host.
  std::span<std::byte> input(size_t set, size_t index);
  /// Uploads those inputs of the set that were asked for; of those at one
  /// address the last one.
  void uploadInputs(size_t set);

  /// Until `uploadAll` zeros for the caller to write to; after it what the
  /// device has, for which this waits.
  std::span<std::byte> of(const at::Tensor &tensor);
  void uploadAll();
  /// Once the uploading is done.
  void clear() { copies.clear(); }

private:
  struct Copy {
    at::Tensor device, host;
  };

  StepState &state;
  bool isUploaded = false;
  struct PinnedInput {
    at::Tensor memory, host;
    size_t index;
  };
  /// The input with the most elements at the address of input `index`.
  const at::Tensor &greatestAt(size_t index) const;
  /// By set and address on the device.
  std::vector<std::map<const void *, PinnedInput>> inputs;
  std::map<const void *, Copy> copies; ///< by address on the device
};

} // namespace fcdp
