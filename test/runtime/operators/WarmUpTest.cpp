// SPDX-License-Identifier: Apache-2.0
#include "operators/WarmUp.h"

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>

using namespace fcdp;

namespace {

/// Names of the products that this thread has called, with the number of
/// dimensions of the first operand.
std::vector<std::string> called;

std::unique_ptr<at::ObserverContext> note(const at::RecordFunction &function) {
  std::string name = function.name();
  if (name == "aten::mm" || name == "aten::addmm")
    called.push_back(name + "/" +
                     std::to_string(function.inputs()[0].toTensor().dim()));
  return nullptr;
}

} // namespace

// cuBLASLt is used for products with a bias of one dimension only.
TEST(WarmUp, CallsBothLibrariesOfProducts) {
  auto handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback(&note).needsInputs(true).scopes(
          {at::RecordScope::FUNCTION}));
  warmUpProducts(at::kCPU);
  at::removeCallback(handle);
  EXPECT_EQ(called, (std::vector<std::string>{"aten::mm/2", "aten::addmm/1"}));
}
