// PE 0 leaves the job in the middle; the others wait for what may, or can no
// longer, come. usage: stalls WAY
#include <pthread.h>
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { busy_s = 10 };

static long word, words[4], lock_word;
static long *heap_word;
static const char *way;

static int is(const char *name) {
  return strcmp(way, name) == 0;
}

static double now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

// The program's own code, which calls nothing.
static void compute(void) {
  volatile unsigned long work = 0;
  for (double const end = now_s() + busy_s; now_s() < end;)
    work++;
}

// What the job cannot come out of, by PE.
static void wait_in_vain(int me, int count, shmem_team_t rest) {
  if (me == 1 && is("any"))
    shmem_long_wait_until_any(words, 4, NULL, SHMEM_CMP_EQ, 1);
  if (me == 2 && is("lock"))
    shmem_set_lock(&lock_word);
  if (me == count - 1 && is("lock"))
    shmem_set_lock(&lock_word);
  if (me >= 2 && is("team"))
    shmem_team_sync(rest);
  if (me >= 2 && is("barrier"))
    shmem_barrier_all();
  shmem_long_wait_until(&word, SHMEM_CMP_EQ, 1);
}

static void release(int me, int count) {
  for (int pe = 1; pe < count; pe++) {
    if (pe != me)
      shmem_long_p(&word, 1, pe);
  }
  shmem_quiet();
}

static void *store_later(void *unused) {
  compute();
  __atomic_store_n(&word, 1, __ATOMIC_RELEASE);
  return unused;
}

// What the last PE does while the others wait, so that they can go on.
static void help_late(int me, int count) {
  if (is("computes"))
    compute();
  if (is("sleeps"))
    sleep(busy_s);
  if (is("tests")) {
    double const end = now_s() + busy_s;
    while (!shmem_long_test(&word, SHMEM_CMP_EQ, 1) && now_s() < end) {}
  }
  if (is("polls-lock")) {
    double const end = now_s() + busy_s;
    while (shmem_test_lock(&lock_word) != 0 && now_s() < end) {}
  }
  if (is("child")) {
    if (fork() == 0) {
      compute();
      __atomic_store_n(heap_word, 1, __ATOMIC_RELEASE);
      _exit(0);
    }
    shmem_long_wait_until(heap_word, SHMEM_CMP_EQ, 1);
  }
  if (is("thread")) {
    pthread_t helper;
    pthread_create(&helper, NULL, store_later, NULL);
    shmem_long_wait_until(&word, SHMEM_CMP_EQ, 1);
    pthread_join(helper, NULL);
  }
  release(me, count);
}

int main(int argc, char **argv) {
  if (argc != 2)
    return 2;
  way = argv[1];
  int provided = 0;
  shmem_init_thread(is("thread") ? SHMEM_THREAD_MULTIPLE : SHMEM_THREAD_SINGLE, &provided);
  int const me = shmem_my_pe(), count = shmem_n_pes();
  heap_word = shmem_calloc(1, sizeof(long));
  shmem_team_t rest = SHMEM_TEAM_INVALID;
  shmem_team_split_strided(SHMEM_TEAM_WORLD, 1, 1, count - 1, NULL, 0, &rest);
  if (me == 0) {
    shmem_set_lock(&lock_word);
    if (!is("polls-lock"))
      shmem_put_nbi(&words[1], &words[0], 1, 1);
  }
  shmem_barrier_all();
  if (me == 0 && is("finalize"))
    shmem_finalize();
  if (me == 0)
    exit(0);
  int const can_go_on = is("computes") || is("sleeps") || is("tests") || is("polls-lock") ||
                        is("child") || is("thread");
  if (!can_go_on)
    wait_in_vain(me, count, rest);
  if (me == count - 1)
    help_late(me, count);
  else
    shmem_long_wait_until(&word, SHMEM_CMP_EQ, 1);
  printf("PE %d has gone on\n", me);
  return 0;
}
