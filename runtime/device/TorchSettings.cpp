// SPDX-License-Identifier: Apache-2.0
#include "device/TorchSettings.h"

#include "core/Thread.h"

#include <ATen/Parallel.h>
#include <c10/core/DefaultDtype.h>
#include <memory>

namespace fcdp {

namespace {

using at::Context;

struct Flag {
  bool (Context::*get)() const;
  void (Context::*set)(bool);
};

constexpr Flag kFlags[] = {
    {&Context::userEnabledCuDNN, &Context::setUserEnabledCuDNN},
    {&Context::benchmarkCuDNN, &Context::setBenchmarkCuDNN},
    {&Context::deterministicCuDNN, &Context::setDeterministicCuDNN},
    {&Context::userEnabledMkldnn, &Context::setUserEnabledMkldnn},
    {&Context::deterministicMkldnn, &Context::setDeterministicMkldnn},
    {&Context::userEnabledNNPACK, &Context::setUserEnabledNNPACK},
    {&Context::userEnabledFlashSDP, &Context::setSDPUseFlash},
    {&Context::userEnabledMemEfficientSDP, &Context::setSDPUseMemEfficient},
    {&Context::userEnabledMathSDP, &Context::setSDPUseMath},
    {&Context::userEnabledCuDNNSDP, &Context::setSDPUseCuDNN},
    {&Context::allowFP16BF16ReductionMathSDP,
     &Context::setAllowFP16BF16ReductionMathSDP},
    {&Context::allowFP16ReductionCPU, &Context::setAllowFP16ReductionCPU},
    {&Context::allowFP16AccumulationCuBLAS,
     &Context::setAllowFP16AccumulationCuBLAS},
    {&Context::deterministicFillUninitializedMemory,
     &Context::setDeterministicFillUninitializedMemory}};
static_assert(std::size(kFlags) == TorchSettings::kNumFlags);
constexpr size_t kBenchmark = 1, kDeterministicCuDNN = 2, kFill = 13;

/// A backend and an operation of it that have a precision.
struct Float32Place {
  at::Float32Backend backend;
  at::Float32Op op;
};

constexpr Float32Place kPlaces[] = {
    {at::Float32Backend::GENERIC, at::Float32Op::ALL},
    {at::Float32Backend::CUDA, at::Float32Op::ALL},
    {at::Float32Backend::CUDA, at::Float32Op::CONV},
    {at::Float32Backend::CUDA, at::Float32Op::RNN},
    {at::Float32Backend::CUDA, at::Float32Op::MATMUL},
    {at::Float32Backend::MKLDNN, at::Float32Op::ALL},
    {at::Float32Backend::MKLDNN, at::Float32Op::CONV},
    {at::Float32Backend::MKLDNN, at::Float32Op::RNN},
    {at::Float32Backend::MKLDNN, at::Float32Op::MATMUL}};
static_assert(std::size(kPlaces) == Float32Precisions::kNumPlaces);

Context &context() { return at::globalContext(); }

void applyReduction(at::CuBLASReductionOption option,
                    at::CuBLASReductionOption now,
                    void (Context::*set)(bool, bool)) {
  if (option != now)
    (context().*set)(
        option == at::CuBLASReductionOption::AllowReducedPrecisionWithSplitK,
        option !=
            at::CuBLASReductionOption::DisallowReducedPrecisionDisallowSplitK);
}

const char *name(at::Float32MatmulPrecision precision) {
  switch (precision) {
  case at::Float32MatmulPrecision::HIGHEST:
    return "highest";
  case at::Float32MatmulPrecision::HIGH:
    return "high";
  case at::Float32MatmulPrecision::MEDIUM:
    return "medium";
  }
  return "highest";
}

/// Returns a setting, or none if libtorch refuses to return it.
template <typename Get>
auto valueOf(Get get) -> std::optional<decltype(get())> {
  try {
    return get();
  } catch (const c10::Error &) {
    return std::nullopt;
  }
}

/// Returns the state of a thread that has just begun.
const at::ThreadLocalState &newThreadState() {
  static const std::unique_ptr<const at::ThreadLocalState> state = [] {
    std::unique_ptr<const at::ThreadLocalState> made;
    startThread("fcdp-settings", [&] {
      made = std::make_unique<const at::ThreadLocalState>();
    }).join();
    return made;
  }();
  return *state;
}

} // namespace

Float32Precisions Float32Precisions::current() {
  Float32Precisions found;
  for (size_t i = 0; i < kNumPlaces; ++i)
    found.each[i] =
        context().float32Precision(kPlaces[i].backend, kPlaces[i].op);
  found.matmul = valueOf([] { return context().float32MatmulPrecision(); });
  found.cudnn = valueOf([] { return context().allowTF32CuDNN(); });
  return found;
}

void Float32Precisions::apply() const {
  Float32Precisions now = current();
  if (now == *this)
    return;
  if (matmul && matmul != now.matmul)
    context().setFloat32MatmulPrecision(name(*matmul));
  if (cudnn && cudnn != now.cudnn)
    context().setAllowTF32CuDNN(*cudnn);
  for (size_t i = 0; i < kNumPlaces; ++i)
    if (auto [backend, op] = kPlaces[i];
        context().float32Precision(backend, op) != each[i])
      context().setFloat32Precision(backend, op, each[i]);
}

TorchSettings TorchSettings::current() {
  TorchSettings found;
  for (size_t i = 0; i < kNumFlags; ++i)
    found.flags[i] = (context().*kFlags[i].get)();
  found.deterministic = context().deterministicAlgorithms();
  found.onlyWarns = context().deterministicAlgorithmsWarnOnly();
  found.halfReduction = context().allowFP16ReductionCuBLAS();
  found.bfloat16Reduction = context().allowBF16ReductionCuBLAS();
  found.float32 = Float32Precisions::current();
  found.defaultType = c10::get_default_dtype();
  found.threads = at::get_num_threads();
  std::fegetenv(&found.floats);
  return found;
}

void TorchSettings::apply() const {
  TorchSettings now = current();
  for (size_t i = 0; i < kNumFlags; ++i)
    if (flags[i] != now.flags[i])
      (context().*kFlags[i].set)(flags[i]);
  if (deterministic != now.deterministic || onlyWarns != now.onlyWarns)
    context().setDeterministicAlgorithms(deterministic, onlyWarns);
  applyReduction(halfReduction, now.halfReduction,
                 &Context::setAllowFP16ReductionCuBLAS);
  applyReduction(bfloat16Reduction, now.bfloat16Reduction,
                 &Context::setAllowBF16ReductionCuBLAS);
  float32.apply();
  if (defaultType != now.defaultType)
    c10::set_default_dtype(defaultType);
  // This also empties the caches of kernels.
  if (threads != now.threads)
    at::set_num_threads(threads);
  std::fesetenv(&floats);
}

void TorchSettings::makeDeterministic() {
  deterministic = true;
  onlyWarns = false;
  flags[kFill] = false;
  flags[kDeterministicCuDNN] = true;
  flags[kBenchmark] = false;
}

ThreadsScope::ThreadsScope(int threads)
    : before(at::get_num_threads()), own(threads) {
  at::set_num_threads(own);
}

ThreadsScope::~ThreadsScope() {
  if (at::get_num_threads() == own)
    at::set_num_threads(before);
}

TorchScope::TorchScope(const TorchSettings &settings)
    : before(TorchSettings::current()) {
  at::RecordFunctionTLS profiler = at::get_record_function_tls_();
  std::shared_ptr<c10::ThreadLocalDebugInfo> information =
      c10::ThreadLocalDebugInfo::current();
  threadState.emplace(newThreadState());
  c10::ThreadLocalDebugInfo::_forceCurrentDebugInfo(std::move(information));
  at::set_record_function_tls_(profiler);
  settings.apply();
}

TorchScope::~TorchScope() { before.apply(); }

} // namespace fcdp
