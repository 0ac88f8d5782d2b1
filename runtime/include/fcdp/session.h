/* SPDX-License-Identifier: Apache-2.0
 *
 * A compiled training step on one rank of a job, for programs in any language:
 * the C face of runtime/session/Session.h. docs/embedding.md has an example.
 *
 * Every rank of the job is a process that opens the step, gives parameters
 * their values, runs steps and closes the session. Functions marked
 * "collective" must be called by all ranks of the job, in the same order.
 *
 * Errors. A function returns FCDP_OK or says why it failed;
 * fcdp_last_error() has the text. FCDP_INPUT_MISMATCH, FCDP_MISUSE and
 * FCDP_BUSY leave the session as it was. After any other error the other ranks
 * are told, and only fcdp_session_destroy is left to call. No function prints,
 * and none ends the process.
 *
 * Threads. A session takes one call at a time: while one runs, a call by
 * another thread is FCDP_BUSY. fcdp_session_fail and fcdp_session_destroy are
 * for any thread at any time. A process has one session at a time: libtorch's
 * random state and its number of threads belong to the process. fcdp_last_error
 * is per thread.
 *
 * Forks. A process that is forked has no part in the job. There, calls are
 * FCDP_MISUSE, and fcdp_session_destroy does nothing.
 *
 * Ownership. The caller owns what it passes, which is not looked at after the
 * call. Names and shapes that functions give out belong to the session and
 * live as long as it does.
 *
 * Units. Bytes, and seconds. Tensors are contiguous, row-major, in host memory.
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
  /* The file is no compiled step, or one of another version. */
  FCDP_BAD_OBJECT = 1,
  /* The launcher's variables make no sense, or it started another mesh of
   * ranks than the step was compiled for. */
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
  /* The call is not allowed now, or an argument is wrong. */
  FCDP_MISUSE = 11,
  /* An operator of the step failed, or anything that has no code of its own. */
  FCDP_FAILED = 12,
  /* A loss or a gradient is infinite or NaN, and the session stops then. */
  FCDP_NOT_FINITE = 13,
  /* Another thread is in a call of the session, which this call did not
   * change. */
  FCDP_BUSY = 14
} fcdp_status;

/* "peer failed", ... */
const char *fcdp_status_name(fcdp_status status);
/* The text of the last error of this thread; "" before the first one. */
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

/* A rank's place in its job, as a launcher gives it. */
typedef struct fcdp_launch {
  uint32_t nodes, ranks_per_node;
  uint32_t node, local; /* this rank's node, and its number there */
  const char *host;     /* where rank 0 listens */
  uint16_t port;
  /* 1 if this process is to serve the job's store at host:port. Exactly one
   * process does. */
  int serves_store;
} fcdp_launch;

/* What happens to a step whose loss or gradients are infinite or NaN. */
typedef enum fcdp_on_nonfinite {
  /* fcdp_session_combine fails with FCDP_NOT_FINITE on all ranks, and
   * fcdp_session_save_checkpoint saves nothing. */
  FCDP_NONFINITE_STOP = 0,
  /* The step makes no update: parameters, optimizer states and counts of
   * updates stay as they are. Its losses are found on any rank; its gradients
   * by their norm, if the step clips them, and otherwise as with
   * FCDP_NONFINITE_STOP. On a GPU, each step waits for its losses. */
  FCDP_NONFINITE_SKIP = 1,
  /* The update is made. */
  FCDP_NONFINITE_CONTINUE = 2
} fcdp_on_nonfinite;

/* What sums gradients over GPUs. */
typedef enum fcdp_reductions_by {
  /* In f32, in the order of ranks, rounded once. */
  FCDP_REDUCTIONS_BY_FCDP = 0,
  /* NCCL's own reductions, where a reduction keeps the gradients' type. They
   * may use switches that sum, and round to that type at each step, so bits
   * depend on the machine. FCDP_NO_DEVICE for a step that was compiled for
   * CPUs. */
  FCDP_REDUCTIONS_BY_NCCL = 1
} fcdp_reductions_by;

typedef struct fcdp_options {
  /* Null: the variables of torchrun, mpirun or srun say it, and without them
   * this process is the only rank. */
  const fcdp_launch *launch;
  /* Must differ between the sessions that a job opens one after the other,
   * and be equal on all ranks. Default: 0. */
  uint32_t number;
  /* How long to wait for other ranks. Default: 0, which is 60 to meet and 300
   * in a collective. */
  double timeout_seconds;
  /* libtorch's threads for operators. Default: 0, which is the cores of this
   * machine divided by the ranks of a node. */
  int32_t threads;
  /* The random state of rank r starts from seed + r. Default: 0. */
  uint64_t seed;
  /* 1: launch operators as CUDA graphs where that is possible. Default: 0. */
  int cuda_graphs;
  /* The network interface for traffic between ranks. Default: null, which is
   * the one by which the store is reached. */
  const char *network_interface;
  /* Equal on all ranks. Default: FCDP_NONFINITE_STOP. */
  fcdp_on_nonfinite on_nonfinite;
  /* The loss scale of a step that was compiled with one, as fcdp-run
   * --loss-scale has it: "init=65536,growth=2,backoff=0.5,interval=2000", or a
   * number. Equal on all ranks. Default: null, which is that of the checkpoint
   * that is loaded, or else these numbers. FCDP_MISUSE for other steps. */
  const char *loss_scale;
  /* The values of elements with which smaller inputs of a step of several
   * shapes are padded: "labels=-100,mask=0". Equal on all ranks. Default: null,
   * which is 0 for all inputs. */
  const char *padding;
  /* 1: operators give the same bits in each run on the same device, which makes
   * some slower; an operator that cannot fails the step (docs/cuda.md). In
   * force while the session works. Equal on all ranks. Default: 0. */
  int deterministic;
  /* Equal on all ranks. Default: FCDP_REDUCTIONS_BY_FCDP. */
  fcdp_reductions_by reductions_by;
} fcdp_options;

/* Sets the defaults. */
void fcdp_options_init(fcdp_options *options);

/* Collective. Loads the object that fcdp-compile made, meets the other ranks
 * and makes the step. Parameters have no values yet. `options` may be null,
 * for the defaults. *session is null after an error. */
fcdp_status fcdp_session_open(const char *object, const fcdp_options *options,
                              fcdp_session **session);
/* Collective. Returns when all ranks are done. */
fcdp_status fcdp_session_close(fcdp_session *session);
/* Frees the session; null is allowed. Without fcdp_session_close before it the
 * other ranks fail. While another thread is in a call, the session is freed at
 * the end of that call. Later calls are FCDP_MISUSE. */
void fcdp_session_destroy(fcdp_session *session);
/* Tells the other ranks that this one cannot go on, and why. A call that
 * another thread is in ends with FCDP_FAILED and this message. */
void fcdp_session_fail(fcdp_session *session, const char *message);

/* Functions that return a number return 0 for a null session and for one that
 * was destroyed. fcdp_session_num_steps, fcdp_session_learning_rate,
 * fcdp_session_num_unread and fcdp_session_max_unread also do while another
 * thread is in a call. */
uint32_t fcdp_session_rank(const fcdp_session *session);
uint32_t fcdp_session_num_ranks(const fcdp_session *session);
/* Micro-batches of one optimizer step, each with inputs and a loss. */
uint32_t fcdp_session_num_micro_batches(const fcdp_session *session);

/* The inputs of a micro-batch, and the parameters and buffers by name. */
size_t fcdp_session_num_inputs(const fcdp_session *session);
fcdp_status fcdp_session_input(const fcdp_session *session, size_t index,
                               fcdp_tensor_info *info);
size_t fcdp_session_num_states(const fcdp_session *session);
fcdp_status fcdp_session_state(const fcdp_session *session, size_t index,
                               fcdp_tensor_info *info);

/* Collective. Values of all parameters, and of the buffers that the step has
 * none of, from a .pt2 or safetensors file. Before the first step only. */
fcdp_status fcdp_session_load_weights(fcdp_session *session, const char *path);
/* Collective. Rank 0 writes parameters and persistent buffers to a safetensors
 * file. */
fcdp_status fcdp_session_save_weights(fcdp_session *session, const char *path);

/* Checkpoints: docs/checkpoints.md.
 *
 * Collective. Loads all states, counts of updates and the random state from a
 * checkpoint or, if `path` is the folder of a run, from its latest one. It may
 * be of another mesh and strategy, and have masters or not. Each rank may name
 * the checkpoint or the run by a path of its own; all fail if the contents
 * differ. Before the first step only, instead of fcdp_session_load_weights.
 * *step becomes its number of steps, or -1 if there is no complete checkpoint,
 * which changes nothing. *job becomes the text that
 * fcdp_session_save_checkpoint was given; it lives until the next call. Both
 * may be null. */
fcdp_status fcdp_session_load_checkpoint(fcdp_session *session,
                                         const char *path, int64_t *step,
                                         const char **job);
/* Collective. Makes the folder for checkpoints, which all nodes share, and
 * allocates host memory for a copy of the states. Once, before the first save
 * and after a checkpoint is loaded. Keeps the `keep` latest checkpoints; 0 is
 * all. A folder with checkpoints of later steps is FCDP_FILE_FAILED. */
fcdp_status fcdp_session_open_checkpoints(fcdp_session *session,
                                          const char *folder, uint32_t keep);
/* Collective. Copies the states after the last step that was run, and has a
 * thread write them while training goes on. Waits if the last checkpoint is not
 * complete. If it cannot be written, a later call is FCDP_FILE_FAILED. `job` is
 * a JSON object of the caller's own, such as the position in its data; null
 * is "{}". */
fcdp_status fcdp_session_save_checkpoint(fcdp_session *session,
                                         const char *job);
/* Collective. Waits until the last checkpoint is complete. fcdp_session_close
 * does it, too. */
fcdp_status fcdp_session_finish_checkpoint(fcdp_session *session);
/* Optimizer steps that were run, those before a loaded checkpoint included. */
int64_t fcdp_session_num_steps(const fcdp_session *session);

/* Sets the base learning rate instead of the one that was compiled in. It is
 * finite and at least 0. */
fcdp_status fcdp_session_set_learning_rate(fcdp_session *session, double base);
/* Sets by which factor of the base rate each step trains, as fcdp-run
 * --schedule does: "cosine,warmup=100,steps=10000,min=0.1". docs/optimizers.md
 * has all of them. */
fcdp_status fcdp_session_set_schedule(fcdp_session *session,
                                      const char *schedule);
/* Both hold from the next step on, and must be the same on all ranks, as
 * fcdp_session_combine checks. Checkpoints have what was set, as the members
 * "learning_rate" and "schedule" of `job`, and loading one sets it again. */

/* The learning rate of the next step. */
double fcdp_session_learning_rate(const fcdp_session *session);

typedef enum fcdp_state_role {
  FCDP_VALUE = 0,
  FCDP_EXP_AVG = 1,         /* a parameter's moment: AdamW's first, Lion's */
  FCDP_EXP_AVG_SQ = 2,      /* AdamW's second moment */
  FCDP_MOMENTUM_BUFFER = 3, /* SGD's or Muon's */
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
 * which each rank keeps its shard. Before the first step only. A parameter that
 * has a master sets it, too, and a master sets its parameter, rounded. */
fcdp_status fcdp_session_set_state(fcdp_session *session, const char *name,
                                   fcdp_state_role role,
                                   const fcdp_tensor *value);
/* Collective. Collects the whole tensor on rank 0, where `bytes` is its size;
 * other ranks may pass null and 0. Moments have the parameter's type, or
 * FCDP_F32 if it has a master. */
fcdp_status fcdp_session_get_state(fcdp_session *session, const char *name,
                                   fcdp_state_role role, void *data,
                                   size_t bytes);
/* How many updates the optimizer has made of a parameter. Setting it is for
 * before the first step only. */
fcdp_status fcdp_session_get_update_count(fcdp_session *session,
                                          const char *name, int64_t *count);
fcdp_status fcdp_session_set_update_count(fcdp_session *session,
                                          const char *name, int64_t count);

/* Collective. Runs one optimizer step on `count` tensors: all inputs of
 * micro-batch 0 in the step's order, then those of micro-batch 1, and so on.
 * Those of a step of several shapes may be smaller than its inputs: the step
 * runs in the smallest shape that the tensors of all ranks fit into, to which
 * they are padded with zeros. Ranks agree on that before the step, and on the
 * sum of the weights of a step that weights its losses. */
fcdp_status fcdp_session_run(fcdp_session *session, const fcdp_tensor *inputs,
                             size_t count);

/* Byte counts are of the step or evaluation alone. */
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
  /* The norm of all gradients before they are clipped, and what the loss was
   * scaled by; -1 in a step that does not clip, or does not scale. */
  double gradient_norm, loss_scale;
} fcdp_figures;

/* Waits for the oldest step that was run and not read. `losses` receives this
 * rank's, one for each micro-batch; `figures` are this rank's. Both may be
 * null. On the CPU each step must be read before the next is run; on a GPU two
 * may be unread, so that reading one does not keep the device waiting. */
fcdp_status fcdp_session_read(fcdp_session *session, double *losses,
                              fcdp_figures *figures);
/* Steps that were run and not read, and how many there may be. */
size_t fcdp_session_num_unread(const fcdp_session *session);
size_t fcdp_session_max_unread(const fcdp_session *session);
/* Collective. The figures of the step that was read last, over all ranks:
 * bytes are summed over a node's ranks, the greatest over nodes; the loss is
 * the mean; times and peaks are the greatest. */
fcdp_status fcdp_session_combine(fcdp_session *session, fcdp_figures *figures);

/* Evaluations: docs/batches.md. The inputs of a batch; none if the step was
 * compiled without an evaluation. */
size_t fcdp_session_num_eval_inputs(const fcdp_session *session);
fcdp_status fcdp_session_eval_input(const fcdp_session *session, size_t index,
                                    fcdp_tensor_info *info);
/* Collective. Evaluates the model between steps, all of which must have been
 * read, on as many batches on each rank. `inputs` has `count` tensors: all
 * inputs of batch 0, then those of batch 1, and so on. `figures`, which may be
 * null, are those of all ranks, as in fcdp_session_combine; the loss is the
 * mean over batches and ranks. Training does not notice. */
fcdp_status fcdp_session_evaluate(fcdp_session *session,
                                  const fcdp_tensor *inputs, size_t count,
                                  size_t batches, fcdp_figures *figures);

#ifdef __cplusplus
}
#endif

#endif /* FCDP_SESSION_H */
