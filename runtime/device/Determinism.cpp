// SPDX-License-Identifier: Apache-2.0
#include "device/Determinism.h"

#include "core/LibrarySettings.h"

#include <cstdlib>
#include <stdexcept>
#include <string>

namespace fcdp {

namespace {

/// The values with which cuBLAS is deterministic (cuBLAS documentation,
/// "Results Reproducibility"). The first one is faster, and takes 32 MiB more.
constexpr const char *kWorkspaces[] = {":4096:8", ":16:8"};
constexpr const char *kWorkspaceVariable = "CUBLAS_WORKSPACE_CONFIG";

constexpr const char *kCudnnAttention =
    "aten::_scaled_dot_product_cudnn_attention_backward";

} // namespace

void makeDeterministic(TorchSettings &settings) {
  // libtorch refuses products on a GPU without it, and says what to set.
  setLibrarySetting(kWorkspaceVariable, kWorkspaces[0]);
  const char *variable = std::getenv(kWorkspaceVariable);
  const std::string chosen = variable ? variable : kWorkspaces[0];
  if (chosen != kWorkspaces[0] && chosen != kWorkspaces[1])
    throw std::runtime_error(std::string("deterministic operators: expected ") +
                             kWorkspaceVariable + " to be " + kWorkspaces[0] +
                             " or " + kWorkspaces[1] +
                             ", or not to be set, got '" + chosen + "'");
  settings.makeDeterministic();
}

void requireDeterministic(const StepPlan &plan) {
  for (const auto &op : plan.ops)
    if (const auto *call = op->body.Asaten_call();
        call && call->callee == kCudnnAttention)
      throw std::runtime_error(
          std::string("deterministic operators: '") + kCudnnAttention +
          "' has no deterministic version; compile the step with "
          "--compute-capability=8.0, which has flash attention instead, or "
          "export it with torch.use_deterministic_algorithms(True)");
}

} // namespace fcdp
