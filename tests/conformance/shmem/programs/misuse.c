// Calls that violate the specification. usage: misuse WAY
// Before the call, the last PE prints "wanted: CALL|PE|ADDRESS", the values that the library's
// message must contain ("-": no value).
#include "check.h"

static long word, words[4];
static int number;

static void wanted(const char *call, const void *addr) {
  printf("wanted: %s|PE %d|", call, me);
  if (addr)
    printf("%p\n", addr);
  else
    puts("-");
  fflush(stdout);
}

static void wrong_pe(const char *way) {
  if (strcmp(way, "pe_put") == 0) {
    wanted("shmem_long_put", &word);
    shmem_long_put(&word, words, 1, pe_count);
  }
  if (strcmp(way, "pe_p") == 0) {
    wanted("shmem_long_p", &word);
    shmem_long_p(&word, 1, pe_count + 5);
  }
  if (strcmp(way, "pe_g") == 0) {
    wanted("shmem_int_g", &number);
    (void)shmem_int_g(&number, -1);
  }
  if (strcmp(way, "pe_get_nbi") == 0) {
    wanted("shmem_getmem_nbi", &word);
    shmem_getmem_nbi(words, &word, 8, 1 << 30);
  }
  if (strcmp(way, "pe_atomic") == 0) {
    wanted("shmem_long_atomic_fetch_inc", &word);
    (void)shmem_long_atomic_fetch_inc(&word, -2);
  }
  if (strcmp(way, "pe_signal") == 0) {
    static uint64_t signal;
    wanted("shmem_long_put_signal", NULL);
    shmem_long_put_signal(&word, words, 1, &signal, 1, SHMEM_SIGNAL_SET, pe_count);
  }
  if (strcmp(way, "pe_iput") == 0) {
    wanted("shmem_iput32", &number);
    shmem_iput32(&number, words, 1, 1, 1, pe_count);
  }
}

static void wrong_address(const char *way, char *heap) {
  long on_stack = 0;
  long *const outside = allocate(1 << 20);
  char *const far = heap + ((size_t)1 << 40);
  int const right = target_of(1);
  if (strcmp(way, "stack") == 0) {
    wanted("shmem_long_p", &on_stack);
    shmem_long_p(&on_stack, 1, right);
  }
  if (strcmp(way, "malloc") == 0) {
    wanted("shmem_putmem", outside);
    shmem_putmem(outside, words, 32, right);
  }
  if (strcmp(way, "malloc_large") == 0) {
    wanted("shmem_putmem_nbi", outside);
    shmem_putmem_nbi(outside, outside, 1 << 20, right);
  }
  if (strcmp(way, "null") == 0) {
    wanted("shmem_long_put", NULL);
    shmem_long_put(NULL, words, 1, right);
  }
  if (strcmp(way, "far") == 0) {
    wanted("shmem_getmem", far);
    shmem_getmem(words, far, 8, right);
  }
  if (strcmp(way, "across") == 0) {  // begins in the heap, ends after it
    wanted("shmem_putmem", heap);
    shmem_putmem(heap, outside, (size_t)1 << 40, right);
  }
  if (strcmp(way, "huge") == 0) {
    wanted("shmem_long_put", heap);
    shmem_long_put((long *)heap, outside, SIZE_MAX / 4, right);
  }
  if (strcmp(way, "stride") == 0) {
    wanted("shmem_long_iput", NULL);
    shmem_long_iput((long *)heap, outside, (ptrdiff_t)1 << 30, 1, 3, right);
  }
  if (strcmp(way, "atomic") == 0) {
    wanted("shmem_long_atomic_add", outside);
    shmem_long_atomic_add(outside, 1, right);
  }
  if (strcmp(way, "constant") == 0) {  // the address of code instead of a variable
    wanted("shmem_putmem", (const void *)(uintptr_t)wrong_pe);
    shmem_putmem((void *)(uintptr_t)wrong_pe, words, 8, right);
  }
  if (strcmp(way, "signal") == 0) {
    wanted("shmem_putmem_signal", &on_stack);
    shmem_putmem_signal(heap, words, 8, (uint64_t *)&on_stack, 1, SHMEM_SIGNAL_SET, right);
  }
  if (strcmp(way, "free") == 0) {
    wanted("shmem_free", outside);
    shmem_free(outside);
  }
  if (strcmp(way, "free_inside") == 0) {
    wanted("shmem_free", heap + 16);
    shmem_free(heap + 16);
  }
  if (strcmp(way, "lock") == 0) {
    wanted("shmem_set_lock", &on_stack);
    shmem_set_lock(&on_stack);
  }
}

static void wrong_value(const char *way) {
  static uint64_t signal;
  if (strcmp(way, "strides") == 0) {
    wanted("shmem_long_alltoalls", NULL);
    shmem_long_alltoalls(SHMEM_TEAM_WORLD, words, words, (ptrdiff_t)1 << 60, 1, 2);
  }
  if (strcmp(way, "old_strides") == 0) {
    static long sync[SHMEM_ALLTOALLS_SYNC_SIZE];
    wanted("shmem_alltoalls32", NULL);
    shmem_alltoalls32(words, words, 1, (ptrdiff_t)1 << 60, 4, 0, 0, pe_count, sync);
  }
  if (strcmp(way, "comparison") == 0) {
    wanted("shmem_long_wait_until", NULL);
    shmem_long_wait_until(&word, 99, 1);
  }
  if (strcmp(way, "signal_operation") == 0) {
    wanted("shmem_putmem_signal", NULL);
    shmem_putmem_signal(&word, words, 8, &signal, 1, 99, target_of(1));
  }
}

// Errors that are detected only with SHMEM_DEBUG=1.
static void wrong_in_debug(const char *way) {
  shmem_ctx_t context = SHMEM_CTX_INVALID;
  shmem_team_t team = SHMEM_TEAM_INVALID;
  if (strcmp(way, "debug_context") == 0) {
    (void)shmem_ctx_create(0, &context);
    shmem_ctx_destroy(context);
    wanted("shmem_ctx_long_p", NULL);
    shmem_ctx_long_p(context, &word, 1, 0);
  }
  if (strcmp(way, "debug_wait") == 0) {
    long on_stack = 0;
    wanted("shmem_long_wait_until", &on_stack);
    shmem_long_wait_until(&on_stack, SHMEM_CMP_NE, 0);
  }
  if (strcmp(way, "debug_collective") == 0) {
    wanted("shmem_long_sum_reduce", NULL);
    shmem_long_sum_reduce(SHMEM_TEAM_WORLD, words, words, 2);
  }
  if (strcmp(way, "debug_malloc") == 0) {
    wanted("shmem_malloc", NULL);
    (void)shmem_malloc(100);
  }
  if (strcmp(way, "debug_team") == 0) {
    team = (shmem_team_t)(void *)&word;  // not a team
    wanted("shmem_team_sync", NULL);
    shmem_team_sync(team);
  }
}

int main(int count, char **arguments) {
  const char *const way = count > 1 ? arguments[1] : "";
  if (strcmp(way, "before") == 0) {
    puts("wanted: shmem_long_p|-|-");
    fflush(stdout);
    shmem_long_p(&word, 1, 0);
    return 0;
  }
  if (strcmp(way, "before_malloc") == 0) {
    puts("wanted: shmem_malloc|-|-");
    fflush(stdout);
    return shmem_malloc(8) != NULL;
  }
  start("misuse");
  char *const heap = symmetric_zeros(4096);
  if (strcmp(way, "after") == 0 || strcmp(way, "after_barrier") == 0) {
    shmem_finalize();
    if (me == pe_count - 1)
      printf("wanted: %s|-|-\n", strcmp(way, "after") == 0 ? "shmem_long_g" : "shmem_barrier_all");
    fflush(stdout);
    if (strcmp(way, "after") == 0)
      return (int)shmem_long_g(&word, 0);
    shmem_barrier_all();
    return 0;
  }
  if (me == pe_count - 1) {
    wrong_pe(way);
    wrong_address(way, heap);
    wrong_value(way);
    wrong_in_debug(way);
    puts("nothing happened");
    fflush(stdout);
  }
  // The other PEs make the correct call where the misuse needs them.
  if (strcmp(way, "debug_malloc") == 0)
    (void)shmem_malloc(200);
  if (strcmp(way, "debug_collective") == 0)
    shmem_long_sum_reduce(SHMEM_TEAM_WORLD, words, words, 1);
  for (;;)
    shmem_barrier_all();
}
