// SPDX-License-Identifier: Apache-2.0
//
// Prints the median seconds in which a thread is started and joined, as NCCL
// does for each call on a communicator that does not block.

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { kThreads = 3001 };

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void *doNothing(void *argument) { return argument; }

static int compare(const void *one, const void *other) {
  double difference = *(const double *)one - *(const double *)other;
  return (difference > 0) - (difference < 0);
}

int main(void) {
  static double seconds[kThreads];
  for (int i = 0; i < kThreads; ++i) {
    pthread_t thread;
    double begin = now();
    if (pthread_create(&thread, NULL, doNothing, NULL) != 0 ||
        pthread_join(thread, NULL) != 0) {
      fprintf(stderr, "cannot start a thread\n");
      return 1;
    }
    seconds[i] = now() - begin;
  }
  qsort(seconds, kThreads, sizeof(seconds[0]), compare);
  printf("%.9f\n", seconds[kThreads / 2]);
  return 0;
}
