// Ways to begin and to end. usage: starts WAY
//   nested     initialised twice, finalised twice
//   again      used, finalised, and used once more
//   implicit   main returns without finalising
//   exits      exit() without finalising, in a function
//   thread N   initialised for a level of threads
//   global N   one PE ends the job with status N while the others wait
#include "check.h"

static long word = 4;

static void use(void) {
  me = shmem_my_pe();
  pe_count = shmem_n_pes();
  word = 4;
  long *const in_heap = symmetric_zeros(sizeof(long));
  REQUIRE(shmem_long_g(&word, target_of(1)) == 4);
  shmem_barrier_all();
  shmem_long_p(&word, me, target_of(1));
  shmem_long_atomic_add(in_heap, me + 1, 0);
  shmem_barrier_all();
  REQUIRE(word == source_of(1) && (me != 0 || *in_heap == (long)pe_count * (pe_count + 1) / 2));
  shmem_barrier_all();
  shmem_free(in_heap);
}

static void information(void) {
  int major = 0, minor = 0, level = -1;
  char name[SHMEM_MAX_NAME_LEN];
  shmem_info_get_version(&major, &minor);
  REQUIRE(major == SHMEM_MAJOR_VERSION && minor == SHMEM_MINOR_VERSION && major == 1);
  shmem_info_get_name(name);
  REQUIRE(strlen(name) > 0 && strlen(name) < SHMEM_MAX_NAME_LEN &&
          strcmp(name, SHMEM_VENDOR_STRING) == 0);
  shmem_query_thread(&level);
  REQUIRE(level >= SHMEM_THREAD_SINGLE && level <= SHMEM_THREAD_MULTIPLE);
}

static void passed(const char *way) {
  shmem_barrier_all();
  if (me == 0)
    printf("starts %s passed with %d PEs\n", way, pe_count);
  fflush(stdout);
}

static void thread_level(long wanted) {
  int const levels[] = {
      SHMEM_THREAD_SINGLE, SHMEM_THREAD_FUNNELED, SHMEM_THREAD_SERIALIZED, SHMEM_THREAD_MULTIPLE};
  int provided = -1, queried = -2;
  if (shmem_init_thread(levels[wanted], &provided) != 0)
    abort();
  shmem_query_thread(&queried);
  REQUIRE(provided >= levels[wanted] && queried == provided);
  REQUIRE(SHMEM_THREAD_SINGLE < SHMEM_THREAD_FUNNELED &&
          SHMEM_THREAD_FUNNELED < SHMEM_THREAD_SERIALIZED);
  use();
}

#if SHMEM_MINOR_VERSION >= 6
static int is_initialised(void) {
  int answer = -1;
  shmem_query_initialized(&answer);
  return answer;
}
#endif

int main(int count, char **words) {
  if (count < 2)
    return 2;
  const char *const way = words[1];
  subject = way;
#if SHMEM_MINOR_VERSION >= 6
  if (is_initialised() != 0)
    return 3;
#endif
  if (strcmp(way, "thread") == 0)
    thread_level(word_or(count, words, 2, 0));
  else
    shmem_init();
#if SHMEM_MINOR_VERSION >= 6
  REQUIRE(is_initialised() != 0);
#endif
  use();
  information();
  if (strcmp(way, "global") == 0) {
    if (me == pe_count - 1)
      shmem_global_exit((int)word_or(count, words, 2, 3));
    for (;;)
      shmem_barrier_all();
  }
  if (strcmp(way, "nested") == 0) {
    shmem_init();
    use();
    shmem_finalize();
    use();
  }
  passed(way);
  if (strcmp(way, "implicit") == 0)
    return 0;
  if (strcmp(way, "exits") == 0)
    exit(0);
  shmem_finalize();
#if SHMEM_MINOR_VERSION >= 6
  if (is_initialised() != 0)
    return 4;
#endif
  if (strcmp(way, "again") == 0) {
    for (int round = 0; round < 3; round++) {
      shmem_init();
      use();
      shmem_finalize();
    }
  }
  return 0;
}
