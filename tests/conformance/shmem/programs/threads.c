// Eight threads a PE under SHMEM_THREAD_MULTIPLE: mixed traffic on the default context, on shared
// and private contexts, with waits and atomics at the same time.
#include <pthread.h>

#include "check.h"

enum { THREAD_COUNT = 8, COUNT = 200, BULK = 40000 };

static long *words;          // COUNT for each thread
static unsigned char *bulk;  // BULK for each thread
static uint64_t *signals, *counter;
static int rounds;
static shmem_ctx_t common;

static void puts_and_gets(int thread, shmem_ctx_t context) {
  long own[COUNT], got[COUNT];
  long *const mine = words + thread * COUNT;
  unsigned char *const source = malloc(BULK), *const area = bulk + thread * BULK;
  for (int round = 1; round <= rounds; round++) {
    for (long i = 0; i < COUNT; i++)
      own[i] = me * 1000003L + thread * 1009 + round * 17 + i;
    fill(source, BULK, (unsigned)(me * 64 + thread + round));
    shmem_ctx_putmem_nbi(context, area, source, BULK, target_of(1));
    shmem_ctx_long_put(context, mine, own, COUNT, target_of(1));
    shmem_ctx_quiet(context);
    // Only this thread writes this part of the right neighbour's memory.
    shmem_ctx_long_get(context, got, mine, COUNT, target_of(1));
    REQUIRE(memcmp(got, own, sizeof got) == 0);
    memset(source, 0, BULK);
    shmem_ctx_getmem_nbi(context, source, area, BULK, target_of(1));
    shmem_ctx_quiet(context);
    REQUIRE(has_pattern(source, BULK, (unsigned)(me * 64 + thread + round)));
  }
  free(source);
}

static void count_up(int thread, shmem_ctx_t context) {
  (void)thread;
  uint64_t next = 0;
  for (int i = 0; i < rounds * 20; i++) {
    uint64_t const ticket = shmem_ctx_uint64_atomic_fetch_inc(context, counter, i % pe_count);
    if (i % pe_count == 0) {  // the tickets of one counter increase
      REQUIRE(ticket >= next);
      next = ticket + 1;
    }
    shmem_ctx_uint64_atomic_add(context, counter + 1, 2, (i + 1) % pe_count);
  }
  shmem_ctx_quiet(context);
}

// Each thread signals the same thread of the next PE by put_signal, and waits for its own signal.
static void talk(int thread, shmem_ctx_t context) {
  uint64_t *const signal = signals + thread;
  long *const mine = words + thread * COUNT;
  for (uint64_t round = 1; round <= (uint64_t)rounds * 5; round++) {
    long const own[2] = {(long)round, me};
    shmem_ctx_long_put_signal(context, mine, own, 2, signal, 1, SHMEM_SIGNAL_ADD, target_of(1));
    shmem_signal_wait_until(signal, SHMEM_CMP_GE, round);
    REQUIRE(mine[1] == source_of(1) && mine[0] >= (long)round);
  }
}

static void *work(void *argument) {
  int const thread = (int)(intptr_t)argument;
  shmem_ctx_t context = thread % 3 == 0 ? SHMEM_CTX_DEFAULT : common;
  if (thread % 3 == 2)
    REQUIRE(shmem_ctx_create(thread % 2 ? SHMEM_CTX_PRIVATE : 0, &context) == 0);
  if (thread < 4)
    puts_and_gets(thread, context);
  else if (thread < 6)
    count_up(thread, context);
  else
    talk(thread, context);
  if (thread % 3 == 2)
    shmem_ctx_destroy(context);
  return NULL;
}

int main(int count, char **arguments) {
  int provided = -1, queried = -1;
  REQUIRE(shmem_init_thread(SHMEM_THREAD_MULTIPLE, &provided) == 0);
  me = shmem_my_pe();
  pe_count = shmem_n_pes();
  program = "threads";
  shmem_query_thread(&queried);
  REQUIRE(provided == SHMEM_THREAD_MULTIPLE && queried == provided);
  rounds = (int)word_or(count, arguments, 1, 20);
  words = symmetric_zeros(sizeof(long) * COUNT * THREAD_COUNT);
  bulk = symmetric_zeros((size_t)BULK * THREAD_COUNT);
  signals = symmetric_zeros(sizeof(uint64_t) * THREAD_COUNT);
  counter = symmetric_zeros(sizeof(uint64_t) * 2);
  REQUIRE(shmem_ctx_create(0, &common) == 0);
  pthread_t threads[THREAD_COUNT];
  for (intptr_t i = 0; i < THREAD_COUNT; i++)
    REQUIRE(pthread_create(threads + i, NULL, work, (void *)i) == 0);
  for (int i = 0; i < THREAD_COUNT; i++)
    pthread_join(threads[i], NULL);
  shmem_ctx_destroy(common);
  shmem_barrier_all();
  uint64_t both[2] = {0, 0};
  for (int pe = 0; pe < pe_count; pe++) {
    both[0] += shmem_uint64_g(counter, pe);
    both[1] += shmem_uint64_g(counter + 1, pe);
  }
  REQUIRE(both[0] == (uint64_t)(rounds * 20 * 2 * pe_count) && both[1] == 2 * both[0]);
  shmem_barrier_all();
  shmem_free(counter);
  shmem_free(signals);
  shmem_free(bulk);
  shmem_free(words);
  return finish();
}
