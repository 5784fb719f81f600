// Between PE 0 and PE 1: an 8-byte put and quiet, a get, a fetching add, and the one-way time of a
// word in a ping-pong; then puts of 1 MiB, WINDOW of them in flight. Except in the ping-pong, PE 1
// waits in a barrier.
#include "measure.h"

enum { WINDOW = 16, LARGE = 1 << 20 };
static const long KNOWN = 0x123456789abcdef;

struct words {
  long *target;   // written by puts at PE 1
  long *known;    // read by gets from PE 1
  long *counter;  // added to at PE 1
  long *flag;     // of the ping-pong
  long value;     // the last value put, or expected of the counter, or of the ping-pong
};

static double puts_8(long count, void *context) {
  struct words *const words = context;
  double const start = now_s();
  if (shmem_my_pe() == 0)
    for (long i = 0; i < count; i++) {
      words->value++;
      shmem_putmem(words->target, &words->value, sizeof words->value, 1);
      shmem_quiet();
    }
  return now_s() - start;
}

static double words_put(long count, void *context) {
  struct words *const words = context;
  double const start = now_s();
  if (shmem_my_pe() == 0)
    for (long i = 0; i < count; i++) {
      shmem_long_p(words->target, ++words->value, 1);
      shmem_quiet();
    }
  return now_s() - start;
}

static double gets_8(long count, void *context) {
  struct words *const words = context;
  double const start = now_s();
  if (shmem_my_pe() == 0)
    for (long i = 0; i < count; i++) {
      long got = 0;
      shmem_getmem(&got, words->known, sizeof got, 1);
      REQUIRE(got == KNOWN);
    }
  return now_s() - start;
}

static double words_got(long count, void *context) {
  struct words *const words = context;
  double const start = now_s();
  if (shmem_my_pe() == 0)
    for (long i = 0; i < count; i++)
      REQUIRE(shmem_long_g(words->known, 1) == KNOWN);
  return now_s() - start;
}

static double fetch_adds(long count, void *context) {
  struct words *const words = context;
  double const start = now_s();
  if (shmem_my_pe() == 0)
    for (long i = 0; i < count; i++)
      REQUIRE(shmem_long_atomic_fetch_add(words->counter, 1, 1) == words->value++);
  return now_s() - start;
}

static double ping_pongs(long count, void *context) {
  struct words *const words = context;
  int const me = shmem_my_pe();
  double const start = now_s();
  for (long i = 0; i < count; i++) {
    long const turn = ++words->value;
    if (me == 0)
      shmem_long_p(words->flag, turn, 1);
    shmem_long_wait_until(words->flag, SHMEM_CMP_GE, turn);
    if (me == 1)
      shmem_long_p(words->flag, turn, 0);
  }
  return (now_s() - start) / 2;
}

// Checks that PE 0's last put has arrived at PE 1.
static void check_put(const struct words *words, const struct meeting *meeting) {
  long value = words->value, unused = 0;
  agree(meeting, &value, &unused);
  if (shmem_my_pe() == 1)
    REQUIRE(*words->target == value);
  shmem_barrier_all();
}

struct blocks {
  char *source;
  char *target;
  size_t step;  // distance between the targets of puts
};

static double large_puts(long count, void *context) {
  struct blocks *const blocks = context;
  double const start = now_s();
  if (shmem_my_pe() == 0)
    for (long i = 0; i < count; i++) {
      for (size_t k = 0; k < WINDOW; k++)
        shmem_putmem_nbi(
            blocks->target + k * blocks->step, blocks->source + k * blocks->step, LARGE, 1);
      shmem_quiet();
    }
  return now_s() - start;
}

static double bandwidth(const struct meeting *meeting, struct blocks blocks) {
  for (size_t i = 0; i < (size_t)LARGE * WINDOW; i += sizeof(uint64_t)) {
    uint64_t const word = shmem_my_pe() == 0 ? random_of(i + blocks.step) : 0;
    memcpy(blocks.source + i, &word, sizeof word);
  }
  double const each = seconds_of(meeting, (struct experiment){large_puts, &blocks, false});
  shmem_barrier_all();
  if (shmem_my_pe() == 1)
    for (size_t i = 0; i < blocks.step * (WINDOW - 1) + LARGE; i += sizeof(uint64_t)) {
      uint64_t const word = random_of(i + blocks.step);
      REQUIRE(memcmp(blocks.target + i, &word, sizeof word) == 0);
    }
  shmem_barrier_all();
  return (double)LARGE * WINDOW / each * 1e-9;
}

int main(void) {
  shmem_init();
  REQUIRE(shmem_n_pes() >= 2);
  struct meeting const meeting = meet();
  // Each word in its own cache line, away from neighbours.
  char *const memory = symmetric(4 * 256);
  struct words words = {
      (long *)memory, (long *)(memory + 256), (long *)(memory + 512), (long *)(memory + 768), 0};
  *words.known = shmem_my_pe() == 1 ? KNOWN : 0;
  shmem_barrier_all();

  figure("8-byte put + quiet",
         "us",
         1e6 * seconds_of(&meeting, (struct experiment){puts_8, &words, false}));
  check_put(&words, &meeting);
  figure("long p + quiet",
         "us",
         1e6 * seconds_of(&meeting, (struct experiment){words_put, &words, false}));
  check_put(&words, &meeting);
  figure(
      "8-byte get", "us", 1e6 * seconds_of(&meeting, (struct experiment){gets_8, &words, false}));
  figure("long g", "us", 1e6 * seconds_of(&meeting, (struct experiment){words_got, &words, false}));
  words.value = 0;
  figure("fetch-add",
         "us",
         1e6 * seconds_of(&meeting, (struct experiment){fetch_adds, &words, false}));
  words.value = 0;
  figure("ping-pong, one way",
         "us",
         1e6 * seconds_of(&meeting, (struct experiment){ping_pongs, &words, false}));

  struct blocks blocks = {symmetric((size_t)LARGE * WINDOW), symmetric((size_t)LARGE * WINDOW), 0};
  figure("1 MiB put_nbi, one place", "GB/s", bandwidth(&meeting, blocks));
  blocks.step = LARGE;
  figure("1 MiB put_nbi, 16 places", "GB/s", bandwidth(&meeting, blocks));
  shmem_finalize();
}
