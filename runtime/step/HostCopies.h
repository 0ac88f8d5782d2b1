// SPDX-License-Identifier: Apache-2.0
//
// Gives the caller of a step host memory to read and write values of a GPU.
#pragma once

#include "operators/StepState.h"

#include <map>
#include <optional>
#include <span>

namespace fcdp {

/// Returns the bytes of a tensor that is on the CPU.
std::span<std::byte> bytesOf(const at::Tensor &tensor);

/// Copies on the host of a step's inputs, buffers and shards. Not used on the
/// CPU, where the caller accesses the tensors themselves. Used by the issuing
/// thread only; functions enqueue on libtorch's current stream.
class HostCopies {
public:
  explicit HostCopies(StepState &state) : state(state) {}

  /// Returns input `index` of set `set`, in pinned memory. Each micro-batch has
  /// its own set, so that none is overwritten while it is still being copied.
  /// Inputs at one address on the device are at one address on the host.
  std::span<std::byte> input(size_t set, size_t index);
  /// Uploads the inputs of the set that the caller has requested; of several at
  /// one address, the last one.
  void uploadInputs(size_t set);

  /// Returns a copy of the device's data, for which it waits. Until `uploadAll`
  /// the caller may change the copy, and a later call returns the same memory.
  std::span<std::byte> of(const at::Tensor &tensor);
  void uploadAll();
  /// Forgets the copies. Call it after they are uploaded.
  void clear() { copies.clear(); }

private:
  struct Copy {
    at::Tensor device, host;
  };

  StepState &state;
  bool isUploaded = false;
  /// By input. Inputs at one address share memory, which the greatest of them
  /// owns; `latest` of its index is the one that was requested last.
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
