/* SPDX-License-Identifier: Apache-2.0
 *
 * Trains a compiled step from C: one process of this program for each rank.
 *
 *   train STEP.so WEIGHTS STEPS INPUT... [RUN]
 *
 * Each INPUT is a file of rows, one for each input of the step in its order. A
 * row has the bytes of one micro-batch. Rank r reads row (s * K + k) * ranks +
 * r for micro-batch k of step s, modulo the rows of the file.
 *
 * With the folder RUN a checkpoint is saved after each step, the last two are
 * kept, and training goes on from the latest one. STEPS is the total.
 */
#include "fcdp/session.h"

#include <stdio.h>
#include <stdlib.h>

/* Prints what failed on this rank, ends the session and the program. */
static void check(fcdp_session *session, fcdp_status status) {
  if (status == FCDP_OK)
    return;
  fprintf(stderr, "train: %s: %s\n", fcdp_status_name(status),
          fcdp_last_error());
  fcdp_session_destroy(session);
  exit(EXIT_FAILURE);
}

/* Ends the program for an error of its own, which other ranks hear of. */
static void fail(fcdp_session *session, const char *message) {
  fcdp_session_fail(session, message);
  fprintf(stderr, "train: %s\n", message);
  fcdp_session_destroy(session);
  exit(EXIT_FAILURE);
}

/* Reads row `row` of a file that has rows of `bytes` bytes each. */
static void *read_row(fcdp_session *session, const char *path, uint64_t bytes,
                      long row) {
  void *data = malloc(bytes ? bytes : 1);
  FILE *file = fopen(path, "rb");
  long rows = 0;
  if (file && bytes && fseek(file, 0, SEEK_END) == 0)
    rows = ftell(file) / (long)bytes;
  if (!data || rows == 0 ||
      fseek(file, row % rows * (long)bytes, SEEK_SET) != 0 ||
      fread(data, 1, bytes, file) != bytes)
    fail(session, "cannot read a row of an input file");
  fclose(file);
  return data;
}

int main(int argc, char **argv) {
  if (argc < 4) {
    fprintf(stderr, "usage: train STEP.so WEIGHTS STEPS INPUT... [RUN]\n");
    return EXIT_FAILURE;
  }

  fcdp_session *session;
  check(NULL, fcdp_session_open(argv[1], NULL, &session));

  const long steps = atol(argv[3]);
  const uint32_t rank = fcdp_session_rank(session);
  const uint32_t ranks = fcdp_session_num_ranks(session);
  const uint32_t batches = fcdp_session_num_micro_batches(session);
  const size_t inputs = fcdp_session_num_inputs(session);
  if ((size_t)argc != 4 + inputs && (size_t)argc != 5 + inputs)
    fail(session, "expected a file for each input of the step");
  const char *run = (size_t)argc == 5 + inputs ? argv[4 + inputs] : NULL;
  int64_t first = -1; /* no checkpoint */
  if (run)
    check(session, fcdp_session_load_checkpoint(session, run, &first, NULL));
  if (first < 0)
    check(session, fcdp_session_load_weights(session, argv[2]));
  if (run)
    check(session, fcdp_session_open_checkpoints(session, run, /*keep=*/2));

  const size_t count = batches * inputs;
  fcdp_tensor *tensors = calloc(count + 1, sizeof(fcdp_tensor));
  void **rows = calloc(count + 1, sizeof(void *));
  if (!tensors || !rows)
    fail(session, "out of memory");

  for (long step = (long)fcdp_session_num_steps(session); step < steps;
       ++step) {
    for (uint32_t batch = 0; batch < batches; ++batch)
      for (size_t i = 0; i < inputs; ++i) {
        fcdp_tensor_info info;
        check(session, fcdp_session_input(session, i, &info));
        long row = (step * batches + batch) * ranks + rank;
        const size_t place = batch * inputs + i;
        rows[place] = read_row(session, argv[4 + i], info.bytes, row);
        tensors[place].data = rows[place];
        tensors[place].dtype = info.dtype;
        tensors[place].num_dims = info.num_dims;
        tensors[place].shape = info.shape;
      }
    check(session, fcdp_session_run(session, tensors, count));
    for (size_t i = 0; i < count; ++i)
      free(rows[i]);

    fcdp_figures figures;
    check(session, fcdp_session_read(session, NULL, NULL));
    check(session, fcdp_session_combine(session, &figures));
    if (rank == 0)
      printf("step %ld loss %.17g inter_bytes %llu\n", step + 1, figures.loss,
             (unsigned long long)figures.inter_bytes);
    if (run)
      check(session, fcdp_session_save_checkpoint(session, NULL));
  }

  free(rows);
  free(tensors);
  check(session, fcdp_session_close(session));
  fcdp_session_destroy(session);
  return EXIT_SUCCESS;
}
