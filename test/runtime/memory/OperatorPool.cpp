// SPDX-License-Identifier: Apache-2.0
//
// A pool that Python runs operators in, torch.classes.fcdp_test.OperatorPool.
// A step of it has two operations. Python calls an operator in the first. From
// the second on, all free memory is overwritten: a buffer of the plan comes to
// where scratch memory may be, and other operators take what the first has
// freed. test/python/test_operator_memory.py looks at what is left of results.
#include "memory/Pool.h"
#include "operators/CpuPool.h"
#include "step/LocalBackend.h"
#include "step/StepArena.h"

#include <c10/core/CPUAllocator.h>
#include <cstring>
#include <optional>
#include <torch/custom_class.h>

using namespace fcdp;

namespace {

constexpr uint64_t kBufferBytes = 1 << 20;

class OperatorPool : public torch::CustomClassHolder {
public:
  OperatorPool()
      : reserved({{/*from=*/1, /*to=*/2, /*offset=*/0, kBufferBytes}}) {
    plan.deviceBytes = 2 * kBufferBytes;
    pool.emplace(stepArena(state, nullptr), routeCpuAllocations());
  }

  /// The next calls of operators are the step's first operation.
  void begin() {
    before = pool->systemAllocations();
    pool->beginStep();
    scope.emplace(*pool);
    pool->beginFunction(reserved);
    pool->reach(0);
  }

  /// Ends the first operation, whose results are given, and overwrites what is
  /// free. Returns whether the operation was like the recorded one.
  bool overwrite(const std::vector<at::Tensor> &results) {
    state.slots = results;
    pool->endOperation();
    bool isExact = pool->isExact();
    pool->reach(1);
    std::memset(backend.deviceBase(), 0xAB, kBufferBytes);
    pool->reach(2);
    for (size_t bytes = 32; bytes < kBufferBytes; bytes *= 2) {
      c10::DataPtr other = c10::GetCPUAllocator()->allocate(bytes);
      std::memset(other.get(), 0xCD, bytes);
    }
    return isExact;
  }

  /// Ends the step. Returns how often it asked the system for memory.
  int64_t end() {
    pool->endFunction();
    scope.reset();
    state.slots.clear();
    return int64_t(pool->systemAllocations() - before);
  }
  /// Ends the step, of which Python has no results any more.
  void finish() { pool->endStep(); }

private:
  StepPlan plan;
  test::LocalBackend backend{2 * kBufferBytes, 0};
  StepState state{.plan = plan, .backend = backend, .place = {}};
  const Reservations reserved;
  std::optional<ResultPool> pool;
  std::optional<ResultPool::Scope> scope;
  uint64_t before = 0;
};

} // namespace

TORCH_LIBRARY(fcdp_test, library) {
  library.class_<OperatorPool>("OperatorPool")
      .def(torch::init<>())
      .def("begin", &OperatorPool::begin)
      .def("overwrite", &OperatorPool::overwrite)
      .def("end", &OperatorPool::end)
      .def("finish", &OperatorPool::finish);
}
