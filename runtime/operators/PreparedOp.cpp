// SPDX-License-Identifier: Apache-2.0
#include "operators/PreparedOp.h"

namespace fcdp {

std::unique_ptr<PreparedOp> prepare(const Op &op, StepState &state) {
  switch (op.kind) {
  case OpKind::AtenCall:
    return prepareAtenCall(std::get<ops::AtenCall>(op.body));
  case OpKind::WriteBuffer:
    return prepareTensorOp(std::get<ops::WriteBuffer>(op.body), state);
  case OpKind::Loss:
    return prepareTensorOp(std::get<ops::Loss>(op.body), state);
  case OpKind::Cast:
    return prepareTensorOp(std::get<ops::Cast>(op.body), state);
  case OpKind::Pack:
    return prepareTensorOp(std::get<ops::Pack>(op.body), state);
  case OpKind::Accumulate:
    if (std::get<ops::Accumulate>(op.body).stream != StreamId::Compute)
      return prepareQueued(op, state);
    return prepareTensorOp(std::get<ops::Accumulate>(op.body), state);
  case OpKind::Add:
    return prepareTensorOp(std::get<ops::Add>(op.body), state);
  case OpKind::ClipGradients:
    return prepareClipping(op, state);
  case OpKind::ShardUpdate:
    return prepareUpdate(std::get<ops::ShardUpdate>(op.body), state);
  default:
    return prepareQueued(op, state);
  }
}

} // namespace fcdp
