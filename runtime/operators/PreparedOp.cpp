// SPDX-License-Identifier: Apache-2.0
#include "operators/PreparedOp.h"

namespace fcdp {

std::unique_ptr<PreparedOp> prepare(const plan::OpT &op, const char *what,
                                    StepState &state) {
  switch (op.body.type) {
  case plan::OpBody::aten_call:
    return prepareAtenCall(*op.body.Asaten_call());
  case plan::OpBody::write_buffer:
    return prepareTensorOp(*op.body.Aswrite_buffer(), state);
  case plan::OpBody::loss:
    return prepareTensorOp(*op.body.Asloss(), state);
  case plan::OpBody::cast:
    return prepareTensorOp(*op.body.Ascast(), state);
  case plan::OpBody::pack:
    return prepareTensorOp(*op.body.Aspack(), state);
  case plan::OpBody::accumulate:
    if (op.body.Asaccumulate()->stream != plan::Stream::compute)
      return prepareQueued(op, what, state);
    return prepareTensorOp(*op.body.Asaccumulate(), state);
  case plan::OpBody::add:
    return prepareTensorOp(*op.body.Asadd(), state);
  case plan::OpBody::unscale_gradients:
    return prepareUnscaling(what, state);
  case plan::OpBody::clip_gradients:
    return prepareClipping(*op.body.Asclip_gradients(), what, state);
  case plan::OpBody::shard_update:
    return prepareUpdate(*op.body.Asshard_update(), state);
  case plan::OpBody::outer_difference:
    return prepareOuter(*op.body.Asouter_difference(), state);
  case plan::OpBody::outer_update:
    return prepareOuter(*op.body.Asouter_update(), state);
  default:
    return prepareQueued(op, what, state);
  }
}

} // namespace fcdp
