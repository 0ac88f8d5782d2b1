// SPDX-License-Identifier: Apache-2.0
// For LD_PRELOAD: pthread_create fails, as under a limit on threads, after
// FCDP_THREADS threads or those that a program allows by allow_threads.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

static atomic_int left = 1 << 30;

void allow_threads(int count) { atomic_store(&left, count); }

__attribute__((constructor)) static void begin(void) {
  const char *count = getenv("FCDP_THREADS");
  if (count)
    allow_threads(atoi(count));
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                   void *(*run)(void *), void *argument) {
  if (atomic_fetch_sub(&left, 1) <= 0)
    return EAGAIN;
  int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *),
                void *) = dlsym(RTLD_NEXT, "pthread_create");
  return create(thread, attributes, run, argument);
}
