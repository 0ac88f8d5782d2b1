/* SPDX-License-Identifier: Apache-2.0
 *
 * The C ABI between a compiled training step and the fcdp runtime.
 *
 * fcdp-compile emits a shared object that exports
 *
 *   const uint32_t      fcdp_abi_version      == FCDP_ABI_VERSION
 *   const char          fcdp_manifest[]       JSON text, see docs/manifest.md
 *   const uint64_t      fcdp_manifest_size    bytes, no terminating zero
 *   const unsigned char fcdp_constants[]      constants of the graph, 64-byte
 *                                             aligned, offsets in the manifest
 *   const uint64_t      fcdp_constants_size   bytes
 *
 * and the family of functions of the step, each `void NAME(fcdp_step *)`:
 * fcdp_init, then fcdp_only_microbatch or fcdp_first_microbatch,
 * fcdp_next_microbatch and fcdp_last_microbatch, then fcdp_update.
 * Legal runs are `init (first next* last update | only update)*`.
 *
 * The functions call the entry points below, in issue order, from one thread.
 * `op` indexes the manifest's "ops" array; everything else about an operation
 * was resolved when the object was loaded, so a call looks nothing up.
 *
 * No call throws or returns a status: the first error is kept in the step,
 * every later call returns at once, and whoever runs the step asks for the
 * error at its end. Values live in slots of the step, never in SSA pointers:
 * that keeps the emitted code linear in the number of operations.
 */
#ifndef FCDP_RUNTIME_H
#define FCDP_RUNTIME_H

#include <stdint.h>

#define FCDP_ABI_VERSION 5u

#ifdef __cplusplus
extern "C" {
#endif

/* One rank's running step. Not thread-safe: one thread issues everything. */
typedef struct fcdp_step fcdp_step;

/* On the compute stream. */
void fcdp_rt_aten_call(fcdp_step *step, int64_t op);
void fcdp_rt_write_buffer(fcdp_step *step, int64_t op);
void fcdp_rt_loss(fcdp_step *step, int64_t op);
void fcdp_rt_cast(fcdp_step *step, int64_t op);
void fcdp_rt_pack(fcdp_step *step, int64_t op);
void fcdp_rt_accumulate(fcdp_step *step, int64_t op);
void fcdp_rt_add(fcdp_step *step, int64_t op);
void fcdp_rt_clip_gradients(fcdp_step *step, int64_t op);
void fcdp_rt_shard_update(fcdp_step *step, int64_t op);

/* On the stream that the op names; they return once the work is queued. */
void fcdp_rt_all_gather(fcdp_step *step, int64_t op);
void fcdp_rt_reduce_scatter(fcdp_step *step, int64_t op);
void fcdp_rt_cache_store(fcdp_step *step, int64_t op);
void fcdp_rt_cache_load(fcdp_step *step, int64_t op);

/* `record` marks the work issued so far on a stream; `wait` holds another
 * stream back until that work is done. */
void fcdp_rt_record(fcdp_step *step, int64_t op);
void fcdp_rt_wait(fcdp_step *step, int64_t op);

#ifdef __cplusplus
}
#endif

#endif /* FCDP_RUNTIME_H */
