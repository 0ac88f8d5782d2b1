// SPDX-License-Identifier: Apache-2.0
#include "operators/PreparedOp.h"

namespace fcdp {

PreparedOpPtr prepare(const plan::OpT &op, const char *what, StepState &state) {
  return plan::visit(op.body, [&](const auto &table, auto kind) {
    if constexpr (requires { prepare(table, kind, state); })
      return prepare(table, kind, state);
    else
      return prepare(table, what, state);
  });
}

} // namespace fcdp
