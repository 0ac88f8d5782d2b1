// SPDX-License-Identifier: Apache-2.0
//
// Saves and applies the inputs of operators besides their operands: libtorch's
// settings, which belong to the process, and the state of the calling thread.
#pragma once

#include <ATen/Context.h>
#include <ATen/ThreadLocalState.h>
#include <ATen/record_function.h>
#include <array>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <c10/util/typeid.h>
#include <cfenv>
#include <optional>

namespace fcdp {

/// Precisions of products in float32, which depend on each other.
struct Float32Precisions {
  static constexpr size_t kNumPlaces = 9;

  static Float32Precisions current();
  void apply() const;
  bool operator==(const Float32Precisions &) const = default;

  /// The older settings; none if the process has used the newer ones since.
  std::optional<at::Float32MatmulPrecision> matmul;
  std::optional<bool> cudnn;
  /// The precisions by backend and operation.
  std::array<at::Float32Precision, kNumPlaces> each = {};
};

/// The settings of libtorch, and of the calling thread's floating-point unit,
/// that change the results of operators.
struct TorchSettings {
  static constexpr size_t kNumFlags = 14;

  static TorchSettings current();
  /// Applies the settings that differ from the current ones.
  void apply() const;
  /// Makes operators deterministic, or fail.
  void makeDeterministic();

  /// The flags, which are read and set by functions of at::Context.
  std::array<bool, kNumFlags> flags = {};
  bool deterministic = false, onlyWarns = false;
  at::CuBLASReductionOption halfReduction = {}, bfloat16Reduction = {};
  Float32Precisions float32;
  caffe2::TypeMeta defaultType;
  int threads = 1;
  std::fenv_t floats = {};
};

/// Sets the process's number of threads for operators while it lives. If the
/// process has set another number in the meantime, that number stays.
class ThreadsScope {
public:
  explicit ThreadsScope(int threads);
  ~ThreadsScope();
  ThreadsScope(const ThreadsScope &) = delete;
  ThreadsScope &operator=(const ThreadsScope &) = delete;

private:
  const int before, own;
};

/// Lets the calling thread run operators, while it lives, as a new thread of a
/// process with those settings would: without autocast, inference mode, and
/// modes and transforms of Python. Profilers stay active. The destructor
/// restores the former state.
class TorchScope {
public:
  explicit TorchScope(const TorchSettings &settings);
  ~TorchScope();
  TorchScope(const TorchScope &) = delete;
  TorchScope &operator=(const TorchScope &) = delete;

private:
  const TorchSettings before;
  std::optional<at::ThreadLocalStateGuard> threadState;
};

} // namespace fcdp
