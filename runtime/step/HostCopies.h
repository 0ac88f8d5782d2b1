// SPDX-License-Identifier: Apache-2.0
//
// Host memory in which the caller of a step reads and writes values of a GPU.
#pragma once

#include "operators/StepState.h"

#include <map>
#include <optional>
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

  /// Returns what the device has, for which this waits. Until `uploadAll` the
  /// caller may change it, and a later call returns the same memory.
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
  /// By input. Inputs at one address share memory, which the greatest of them
  /// owns; `latest` of its index is the one that was asked for last.
  struct PinnedInputs {
    std::vector<at::Tensor> host;
    std::vector<std::optional<size_t>> latest;
  };
  /// Returns the input with the most elements at the address of input `index`.
  size_t greatestAt(size_t index) const;
  /// Pins the memory of the inputs of a set that are at the address of input
  /// `index`.
  void pin(PinnedInputs &inputs, size_t index);
  std::vector<size_t> greatest; ///< by input
  std::vector<PinnedInputs> sets;
  std::map<const void *, Copy> copies; ///< by address on the device
};

} // namespace fcdp
