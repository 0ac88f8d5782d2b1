/* SPDX-License-Identifier: Apache-2.0
 *
 * A compiled training step on one rank of a job, for programs in any language.
 * This is the C interface of runtime/session/Session.h. docs/embedding.md has
 * an example.
 *
 * Every rank of the job is a process that opens the step, sets the values of
 * parameters, runs steps and closes the session. Functions marked "collective"
 * must be called by all ranks of the job, in the same order.
 *
 * Errors. A function returns FCDP_OK or the reason of its failure;
 * fcdp_last_error() has the text. FCDP_INPUT_MISMATCH, FCDP_MISUSE and
 * FCDP_BUSY leave the session as it was. Any other error is reported to the
 * other ranks, and after it only fcdp_session_destroy may be called. No
 * function prints, and none ends the process.
 *
 * Threads. A session takes one call at a time: while one runs, a call by
 * another thread returns FCDP_BUSY. Any thread may call fcdp_session_fail and
 * fcdp_session_destroy at any time. A process has one session at a time:
 * libtorch's random state and its number of threads belong to the process.
 * fcdp_last_error is per thread.
 *
 * Forks. A forked process has no part in the job. There, calls return
 * FCDP_MISUSE, and fcdp_session_destroy does nothing.
 *
 * Ownership. The caller owns its arguments, which are not used after the call.
 * Names and shapes that functions return belong to the session and live as
 * long as it does.
 *
 * Units. Sizes are in bytes, and times in seconds. Tensors are contiguous,
 * row-major, in host memory.
 */
#ifndef FCDP_SESSION_H
#define FCDP_SESSION_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fcdp_session fcdp_session;

typedef enum fcdp_status {
  FCDP_OK = 0,
  /* The file is not a compiled step, or has another version. */
  FCDP_BAD_OBJECT = 1,
  /* The launcher's variables contradict each other, or it started another mesh
   * of ranks than the step was compiled for. */
  FCDP_BAD_LAUNCH = 2,
  /* A file of weights or a checkpoint cannot be read, or does not fit the
   * step. */
  FCDP_BAD_WEIGHTS = 3,
  /* Inputs differ in number, shape, type or range from those of the step. */
  FCDP_INPUT_MISMATCH = 4,
  /* This process has no device that the step can run on. */
  FCDP_NO_DEVICE = 5,
  /* The ranks did not meet in time, or do not have the same step. */
  FCDP_RENDEZVOUS_FAILED = 6,
  /* Another rank has died, or failed by itself. */
  FCDP_PEER_FAILED = 7,
  /* A collective did not end in time, and no rank is known to have failed. */
  FCDP_TIMED_OUT = 8,
  FCDP_OUT_OF_MEMORY = 9,
  /* A file cannot be written. */
  FCDP_FILE_FAILED = 10,
  /* The call is not allowed in the session's state, or an argument is wrong. */
  FCDP_MISUSE = 11,
  /* An operator of the step failed, or there was an error without a code of its
   * own. */
  FCDP_FAILED = 12,
  /* A loss or a gradient is infinite or NaN, and the session is set to stop
   * then. */
  FCDP_NOT_FINITE = 13,
  /* Another thread is in a call of the session. This call changed nothing. */
  FCDP_BUSY = 14
} fcdp_status;

/* Returns the status in words: "peer failed". */
const char *fcdp_status_name(fcdp_status status);
/* Returns the text of the last error of this thread; "" before the first one.
 */
const char *fcdp_last_error(void);

typedef enum fcdp_dtype {
  FCDP_F16 = 0,
  FCDP_BF16 = 1,
  FCDP_F32 = 2,
  FCDP_F64 = 3,
  FCDP_I8 = 4,
  FCDP_I16 = 5,
  FCDP_I32 = 6,
  FCDP_I64 = 7,
  FCDP_U8 = 8,
  FCDP_BOOL = 9,
  FCDP_C64 = 10, /* complex, of two FCDP_F32 */
  FCDP_C128 = 11
} fcdp_dtype;

typedef struct fcdp_tensor {
  const void *data;
  fcdp_dtype dtype;
  uint32_t num_dims;
  const int64_t *shape; /* of num_dims extents; may be null if there are none */
} fcdp_tensor;

typedef struct fcdp_tensor_info {
  const char *name;
  fcdp_dtype dtype;
  uint32_t num_dims;
  const int64_t *shape;
  uint64_t bytes;
} fcdp_tensor_info;

/* A rank's place in its job, which a launcher assigns. */
typedef struct fcdp_launch {
  uint32_t nodes, ranks_per_node;
  uint32_t node, local; /* this rank's node, and its number there */
  const char *host;     /* the address at which rank 0 listens */
  uint16_t port;
  /* 1 if this process serves the job's store at host:port. Exactly one process
   * of the job must. */
  int serves_store;
} fcdp_launch;

/* The treatment of a step whose loss or gradients are infinite or NaN. */
typedef enum fcdp_on_nonfinite {
  /* fcdp_session_combine fails with FCDP_NOT_FINITE on all ranks, and
   * fcdp_session_save_checkpoint saves nothing. */
  FCDP_NONFINITE_STOP = 0,
  /* The step makes no update: parameters, optimizer states and counts of
   * updates stay as they are. A nonfinite loss is found on any rank. A
   * nonfinite gradient is found by the norm, if the step clips gradients;
   * otherwise it has the effect of FCDP_NONFINITE_STOP. On a GPU, each step
   * waits for its losses. */
  FCDP_NONFINITE_SKIP = 1,
  /* The update is made. */
  FCDP_NONFINITE_CONTINUE = 2
} fcdp_on_nonfinite;

/* The way in which gradients are summed over GPUs. */
typedef enum fcdp_reductions_by {
  /* In f32, in the order of ranks, rounded once. */
  FCDP_REDUCTIONS_BY_FCDP = 0,
  /* By NCCL's own reductions, if a reduction keeps the gradients' type. They
   * may use switches that add, and round to that type at each step, so bits
   * depend on the machine. A step that was compiled for CPUs fails with
   * FCDP_NO_DEVICE. */
  FCDP_REDUCTIONS_BY_NCCL = 1
} fcdp_reductions_by;

typedef struct fcdp_options {
  /* The rank's place. Default: null, which is the place in the variables of
   * torchrun, mpirun or srun; without these, this process is the only rank. */
  const fcdp_launch *launch;
  /* A number of the session. It must differ between the sessions that a job
   * opens one after the other, and be equal on all ranks. Default: 0. */
  uint32_t number;
  /* The time limit of waits for other ranks, in seconds. Default: 0, which is
   * 60 to meet and 300 in a collective. */
  double timeout_seconds;
  /* The number of libtorch's threads for operators. Default: 0, which is the
   * cores of this machine divided by the ranks of a node. */
  int32_t threads;
  /* The random state of rank r starts from seed + r. Default: 0. */
  uint64_t seed;
  /* With 1, operators are launched as CUDA graphs where that is possible.
   * Default: 0. */
  int cuda_graphs;
  /* The network interface for traffic between ranks. Default: null, which is
   * the interface by which the store is reached. */
  const char *network_interface;
  /* The treatment of nonfinite steps. Equal on all ranks. Default:
   * FCDP_NONFINITE_STOP. */
  fcdp_on_nonfinite on_nonfinite;
  /* The loss scale of a step that was compiled with one, in the form of
   * fcdp-run --loss-scale: "init=65536,growth=2,backoff=0.5,interval=2000", or
   * a number. Equal on all ranks. Default: null, which is the scale of the
   * loaded checkpoint, or else these numbers. Other steps fail with
   * FCDP_MISUSE. */
  const char *loss_scale;
  /* The values that pad smaller inputs of a step of several shapes:
   * "labels=-100,mask=0". Equal on all ranks. Default: null, which is 0 for all
   * inputs. */
  const char *padding;
  /* With 1, operators give the same bits in each run on the same device, which
   * makes some slower. An operator that cannot fails the step (docs/cuda.md).
   * In effect while the session works. Equal on all ranks. Default: 0. */
  int deterministic;
  /* The way in which gradients are summed. Equal on all ranks. Default:
   * FCDP_REDUCTIONS_BY_FCDP. */
  fcdp_reductions_by reductions_by;
  /* Folders on local disks for states in files, as fcdp-run --state-path has
   * them: "DIR[,DIR]". Default: null, with which the open of a step with such
   * states fails. */
  const char *state_path;
} fcdp_options;

/* Sets the defaults. */
void fcdp_options_init(fcdp_options *options);

/* Loads the object that fcdp-compile made, meets the other ranks and makes the
 * step. Collective. Parameters have no values yet. If `options` is null, the
 * defaults apply. *session is null after an error. */
fcdp_status fcdp_session_open(const char *object, const fcdp_options *options,
                              fcdp_session **session);
/* Closes the session, and returns when all ranks are done. Collective. */
fcdp_status fcdp_session_close(fcdp_session *session);
/* Frees the session; null is allowed. Without an earlier fcdp_session_close the
 * other ranks fail. While another thread is in a call, the session is freed at
 * the end of that call. Later calls return FCDP_MISUSE. */
void fcdp_session_destroy(fcdp_session *session);
/* Reports to the other ranks that this rank cannot continue, with the reason
 * `message`. A running call of another thread ends with FCDP_FAILED and this
 * message. */
void fcdp_session_fail(fcdp_session *session, const char *message);

/* Functions that return a number return 0 for a null session and for one that
 * was destroyed. fcdp_session_num_steps, fcdp_session_learning_rate,
 * fcdp_session_num_unread and fcdp_session_max_unread also return 0 while
 * another thread is in a call. */
uint32_t fcdp_session_rank(const fcdp_session *session);
uint32_t fcdp_session_num_ranks(const fcdp_session *session);
/* Returns the number of micro-batches of one optimizer step, each of which has
 * inputs and a loss. */
uint32_t fcdp_session_num_micro_batches(const fcdp_session *session);

/* Return the inputs of a micro-batch, and the parameters and buffers by name.
 */
size_t fcdp_session_num_inputs(const fcdp_session *session);
fcdp_status fcdp_session_input(const fcdp_session *session, size_t index,
                               fcdp_tensor_info *info);
size_t fcdp_session_num_states(const fcdp_session *session);
fcdp_status fcdp_session_state(const fcdp_session *session, size_t index,
                               fcdp_tensor_info *info);

/* Reads the values of all parameters, and of the buffers for which the step has
 * no values, from a .pt2 or safetensors file. Collective. Before the first step
 * only. */
fcdp_status fcdp_session_load_weights(fcdp_session *session, const char *path);
/* Writes parameters and persistent buffers to a safetensors file, on rank 0.
 * Collective. */
fcdp_status fcdp_session_save_weights(fcdp_session *session, const char *path);

/* Checkpoints: docs/checkpoints.md.
 *
 * Loads all states, counts of updates and the random state from a checkpoint
 * or, if `path` is the folder of a run, from its latest one. Collective. The
 * checkpoint may have another mesh and strategy, with or without masters. Each
 * rank may name the checkpoint or the run by a path of its own; all fail if the
 * contents differ. Before the first step only, instead of
 * fcdp_session_load_weights. Sets *step to the checkpoint's number of steps, or
 * to -1 if there is no complete checkpoint, and then changes nothing. Sets *job
 * to the text that was passed to fcdp_session_save_checkpoint; it lives until
 * the next call. Both may be null. */
fcdp_status fcdp_session_load_checkpoint(fcdp_session *session,
                                         const char *path, int64_t *step,
                                         const char **job);
/* Creates the folder for checkpoints, which all nodes share, and allocates host
 * memory for a copy of the states. Collective. Call it once, before the first
 * save and after loading a checkpoint. The `keep` latest checkpoints are kept;
 * 0 keeps all. If the folder has checkpoints of later steps, returns
 * FCDP_FILE_FAILED. */
fcdp_status fcdp_session_open_checkpoints(fcdp_session *session,
                                          const char *folder, uint32_t keep);
/* Copies the states after the last step that was run. A thread writes them
 * while training continues. Collective. Waits if the last checkpoint is not
 * complete. If it cannot be written, a later call returns FCDP_FILE_FAILED.
 * `job` is a JSON object of the caller, such as the position in its data; null
 * means "{}". */
fcdp_status fcdp_session_save_checkpoint(fcdp_session *session,
                                         const char *job);
/* Waits until the last checkpoint is complete. Collective. fcdp_session_close
 * does it, too. */
fcdp_status fcdp_session_finish_checkpoint(fcdp_session *session);
/* Returns the number of optimizer steps that were run, including those before a
 * loaded checkpoint. */
int64_t fcdp_session_num_steps(const fcdp_session *session);

/* Sets the base learning rate instead of the one that was compiled in. It must
 * be finite and at least 0. */
fcdp_status fcdp_session_set_learning_rate(fcdp_session *session, double base);
/* Sets the factor on the base rate for each step, in the form of fcdp-run
 * --schedule: "cosine,warmup=100,steps=10000,min=0.1". docs/optimizers.md
 * describes all schedules. */
fcdp_status fcdp_session_set_schedule(fcdp_session *session,
                                      const char *schedule);
/* Base rate and schedule apply from the next step on, and must be equal on all
 * ranks, which fcdp_session_combine checks. Checkpoints store them as the
 * members "learning_rate" and "schedule" of `job`, and loading a checkpoint
 * sets them again. */

/* Returns the learning rate of the next step. */
double fcdp_session_learning_rate(const fcdp_session *session);

/* The roles that have a number. All roles have a name, in the states that
 * docs/optimizers.md lists. */
typedef enum fcdp_state_role {
  FCDP_VALUE = 0,
  FCDP_EXP_AVG = 1,         /* a parameter's moment: AdamW's first, Lion's */
  FCDP_EXP_AVG_SQ = 2,      /* AdamW's second moment */
  FCDP_MOMENTUM_BUFFER = 3, /* SGD's or Muon's, AdEMAMix's slower average */
  FCDP_MASTER = 4,       /* the parameter in f32, which the optimizer updates */
  FCDP_EXP_AVG_CODE = 5, /* moments in 8 bits: codes in u8, and a scale in */
  FCDP_EXP_AVG_SCALE = 6, /* f32 for each block of 256 elements */
  FCDP_EXP_AVG_SQ_CODE = 7,
  FCDP_EXP_AVG_SQ_SCALE = 8,
  FCDP_ROW_VAR = 9,  /* Adafactor's second moment: its means over the last */
  FCDP_COL_VAR = 10, /* dimension and the one before, or, of a parameter of */
  FCDP_VARIANCE = 11 /* fewer than two dimensions, that of each element */
} fcdp_state_role;

/* Sets a parameter, a buffer or an optimizer state from its whole tensor, of
 * which each rank keeps its shard. Before the first step only. A parameter with
 * a master sets the master, too, and a master sets its parameter, rounded. */
fcdp_status fcdp_session_set_state(fcdp_session *session, const char *name,
                                   fcdp_state_role role,
                                   const fcdp_tensor *value);
/* Collects the whole tensor on rank 0, where `bytes` is its size; other ranks
 * may pass null and 0. Collective. Moments have the parameter's type, or
 * FCDP_F32 if it has a master. */
fcdp_status fcdp_session_get_state(fcdp_session *session, const char *name,
                                   fcdp_state_role role, void *data,
                                   size_t bytes);
/* Do the same for a role by its name: "value", "master", or a state of an
 * optimizer, such as "exp_avg". */
fcdp_status fcdp_session_set_named_state(fcdp_session *session,
                                         const char *name, const char *role,
                                         const fcdp_tensor *value);
fcdp_status fcdp_session_get_named_state(fcdp_session *session,
                                         const char *name, const char *role,
                                         void *data, size_t bytes);
/* Return and set the number of updates that the optimizer has made of a
 * parameter. It may be set before the first step only. */
fcdp_status fcdp_session_get_update_count(fcdp_session *session,
                                          const char *name, int64_t *count);
fcdp_status fcdp_session_set_update_count(fcdp_session *session,
                                          const char *name, int64_t count);

/* Runs one optimizer step on `count` tensors: all inputs of micro-batch 0 in
 * the step's order, then those of micro-batch 1, and so on. Collective. For a
 * step of several shapes, tensors may be smaller than the inputs. The step runs
 * in the smallest shape that the tensors of all ranks fit into, and pads them
 * as the option `padding` says. Ranks agree on the shape before the step, and
 * on the sum of the weights if the step weights its losses. */
fcdp_status fcdp_session_run(fcdp_session *session, const fcdp_tensor *inputs,
                             size_t count);

/* The figures of a step or an evaluation. Byte counts are for it alone. */
typedef struct fcdp_figures {
  /* The mean, weighted if the step weights its losses (docs/batches.md). */
  double loss;
  double seconds;
  uint64_t inter_bytes, intra_bytes; /* sent between nodes, and within one */
  uint64_t h2d_bytes, d2h_bytes;     /* copied to and from a device */
  uint64_t control_bytes;
  uint64_t device_peak_bytes;
  uint64_t host_cache_bytes; /* of a node */
  double learning_rate;
  /* Steps of this session, up to this one, that made no update because a loss
   * or a gradient was not finite. */
  uint64_t skipped_steps;
  /* The norm of all gradients before they are clipped, and the loss scale; -1
   * in a step that does not clip, or does not scale. */
  double gradient_norm, loss_scale;
} fcdp_figures;

/* Waits for the oldest step that was run and not read. `losses` gets this
 * rank's losses, one for each micro-batch, and `figures` this rank's figures.
 * Both may be null. On the CPU each step must be read before the next is run.
 * On a GPU two may be unread, so that the device works while one is read. */
fcdp_status fcdp_session_read(fcdp_session *session, double *losses,
                              fcdp_figures *figures);
/* Return the number of steps that were run and not read, and its limit. */
size_t fcdp_session_num_unread(const fcdp_session *session);
size_t fcdp_session_max_unread(const fcdp_session *session);
/* Combines the figures of the step that was read last over all ranks.
 * Collective. Bytes are summed over a node's ranks, the greatest over nodes;
 * the loss is the mean; times and peaks are the greatest. */
fcdp_status fcdp_session_combine(fcdp_session *session, fcdp_figures *figures);

/* Return the inputs of a batch of an evaluation (docs/batches.md); none if
 * the step was compiled without an evaluation. */
size_t fcdp_session_num_eval_inputs(const fcdp_session *session);
fcdp_status fcdp_session_eval_input(const fcdp_session *session, size_t index,
                                    fcdp_tensor_info *info);
/* Evaluates the model between steps, all of which must have been read, on the
 * same number of batches on each rank. Collective. `inputs` has `count`
 * tensors: all inputs of batch 0, then those of batch 1, and so on. `figures`,
 * which may be null, gets the figures of all ranks, as in fcdp_session_combine;
 * the loss is the mean over batches and ranks. Training is not affected. */
fcdp_status fcdp_session_evaluate(fcdp_session *session,
                                  const fcdp_tensor *inputs, size_t count,
                                  size_t batches, fcdp_figures *figures);

#ifdef __cplusplus
}
#endif

#endif /* FCDP_SESSION_H */
