// SPDX-License-Identifier: Apache-2.0
//
// What operators depend on besides their operands: libtorch's settings, which
// are the process's, and the state of the calling thread.
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

  /// The older settings; none if the process has set others since.
  std::optional<at::Float32MatmulPrecision> matmul;
  std::optional<bool> cudnn;
  /// By backend and operation.
  std::array<at::Float32Precision, kNumPlaces> each = {};
};

/// The settings of libtorch, and of the calling thread's floating-point unit,
/// that change what operators compute.
struct TorchSettings {
  static constexpr size_t kNumFlags = 14;

  static TorchSettings current();
  /// Sets those that differ from the current ones.
  void apply() const;
  /// Operators are deterministic, or fail.
  void makeDeterministic();

  /// By getters and setters of at::Context.
  std::array<bool, kNumFlags> flags = {};
  bool deterministic = false, onlyWarns = false;
  at::CuBLASReductionOption halfReduction = {}, bfloat16Reduction = {};
  Float32Precisions float32;
  caffe2::TypeMeta defaultType;
  int threads = 1;
  std::fenv_t floats = {};
};

/// While it lives, the process has that number of threads for operators, or
/// another one that it has set meanwhile and then keeps.
class ThreadsScope {
public:
  explicit ThreadsScope(int threads);
  ~ThreadsScope();
  ThreadsScope(const ThreadsScope &) = delete;
  ThreadsScope &operator=(const ThreadsScope &) = delete;

private:
  const int before, own;
};

/// While it lives, the calling thread runs operators as a new thread of a
/// process with those settings would: without autocast, inference mode, modes
/// and transforms of Python. Profilers go on. Then all is as it was before.
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
