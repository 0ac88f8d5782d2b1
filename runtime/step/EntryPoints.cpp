// SPDX-License-Identifier: Apache-2.0
//
// The C ABI that compiled steps call. Nothing is thrown into them.
#include "step/Step.h"

using fcdp::OpKind;

static void execute(fcdp_step *step, int64_t op, OpKind kind) {
  static_cast<fcdp::Step *>(step)->execute(op, kind);
}

extern "C" {

void fcdp_rt_aten_call(fcdp_step *step, int64_t op) {
  execute(step, op, OpKind::AtenCall);
}
void fcdp_rt_write_buffer(fcdp_step *step, int64_t op) {
  execute(step, op, OpKind::WriteBuffer);
}
void fcdp_rt_loss(fcdp_step *step, int64_t op) {
  execute(step, op, OpKind::Loss);
}
void fcdp_rt_cast(fcdp_step *step, int64_t op) {
  execute(step, op, OpKind::Cast);
}
void fcdp_rt_pack(fcdp_step *step, int64_t op) {
  execute(step, op, OpKind::Pack);
}
void fcdp_rt_accumulate(fcdp_step *step, int64_t op) {
  execute(step, op, OpKind::Accumulate);
}
void fcdp_rt_add(fcdp_step *step, int64_t op) {
  execute(step, op, OpKind::Add);
}
void fcdp_rt_clip_gradients(fcdp_step *step, int64_t op) {
  execute(step, op, OpKind::ClipGradients);
}
void fcdp_rt_shard_update(fcdp_step *step, int64_t op) {
  execute(step, op, OpKind::ShardUpdate);
}
void fcdp_rt_all_gather(fcdp_step *step, int64_t op) {
  execute(step, op, OpKind::AllGather);
}
void fcdp_rt_reduce_scatter(fcdp_step *step, int64_t op) {
  execute(step, op, OpKind::ReduceScatter);
}
void fcdp_rt_cache_store(fcdp_step *step, int64_t op) {
  execute(step, op, OpKind::CacheStore);
}
void fcdp_rt_cache_load(fcdp_step *step, int64_t op) {
  execute(step, op, OpKind::CacheLoad);
}
void fcdp_rt_record(fcdp_step *step, int64_t op) {
  execute(step, op, OpKind::Record);
}
void fcdp_rt_wait(fcdp_step *step, int64_t op) {
  execute(step, op, OpKind::Wait);
}
}
