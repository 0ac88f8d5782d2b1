// SPDX-License-Identifier: Apache-2.0
#include "operators/PreparedOp.h"

namespace fcdp {

/// Declares two overloads for each table that CMakeLists.txt lists, which are
/// defined beside the operation's class. `what` is the operation's name in
/// messages. The visitors below do not compile without a table's overloads.
#define FCDP_OPERATION(Table)                                                  \
  PreparedOpPtr prepare(const plan::Table &op, const char *what,               \
                        StepState &state);                                     \
  std::optional<uint64_t> countBytes(const plan::Table &op,                    \
                                     const StepPlan &plan);
#include "operators/Operations.inc"
#undef FCDP_OPERATION

/// For a table of several kinds, they take the kind.
PreparedOpPtr prepare(const plan::EventT &op,
                      plan::Kind<plan::OpBody::record> kind, StepState &state);
PreparedOpPtr prepare(const plan::EventT &op,
                      plan::Kind<plan::OpBody::wait> kind, StepState &state);

/// Records and waits take no time.
static std::optional<uint64_t> countBytes(const plan::EventT &,
                                          const StepPlan &) {
  return {};
}

PreparedOpPtr prepare(const plan::OpT &op, const char *what, StepState &state) {
  return plan::visit(op.body, [&](const auto &table, auto kind) {
    if constexpr (requires { prepare(table, kind, state); })
      return prepare(table, kind, state);
    else
      return prepare(table, what, state);
  });
}

std::optional<uint64_t> countProfiledBytes(const plan::OpT &op,
                                           const StepPlan &plan) {
  return plan::visit(op.body,
                     [&](const auto &table) -> std::optional<uint64_t> {
                       return countBytes(table, plan);
                     });
}

} // namespace fcdp
