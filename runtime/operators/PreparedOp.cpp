// SPDX-License-Identifier: Apache-2.0
#include "operators/PreparedOp.h"

namespace fcdp {

/// Declares an overload for each table that CMakeLists.txt lists, which is
/// defined beside the operation's class. `what` is the operation's name in
/// messages. The visitor below does not compile without a table's overload.
#define FCDP_OPERATION(Table)                                                  \
  PreparedOpPtr prepare(const plan::Table &op, const char *what,               \
                        StepState &state);
#include "operators/Operations.inc"
#undef FCDP_OPERATION

/// For a table of several kinds, they take the kind.
PreparedOpPtr prepare(const plan::EventT &op,
                      plan::Kind<plan::OpBody::record> kind, StepState &state);
PreparedOpPtr prepare(const plan::EventT &op,
                      plan::Kind<plan::OpBody::wait> kind, StepState &state);

PreparedOpPtr prepare(const plan::OpT &op, const char *what, StepState &state) {
  return plan::visit(op.body, [&](const auto &table, auto kind) {
    if constexpr (requires { prepare(table, kind, state); })
      return prepare(table, kind, state);
    else
      return prepare(table, what, state);
  });
}

} // namespace fcdp
