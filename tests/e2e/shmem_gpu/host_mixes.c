// Every call that moves data, from each kind of local memory to and from each kind of symmetric
// memory.
#include "host_check.h"

enum { SIZE = 1 << 17, KIND_COUNT = 3 };
static char variables[2][SIZE] __attribute__((aligned(64)));
static uint64_t host_signal;

static unsigned seed = 1;
static char
    *areas[2][KIND_COUNT];  // local and symmetric: of the device, of the host's heap, variables

static void meet(void) {
  shmem_barrier_all();
}

// A transfer of `size` bytes by `call` from local to the next PE's symmetric memory, or back.
#define CHECK_PUT(size, ...)                                            \
  do {                                                                  \
    seed++;                                                             \
    fill_at(local, size, seed + (unsigned)me * 7);                      \
    fill_at(shared, size, 0);                                           \
    meet();                                                             \
    __VA_ARGS__;                                                        \
    shmem_quiet();                                                      \
    meet();                                                             \
    REQUIRE(has_pattern_at(shared, size, seed + (unsigned)before * 7)); \
    meet();                                                             \
  } while (0)
#define CHECK_GET(size, ...)                                         \
  do {                                                               \
    seed++;                                                          \
    fill_at(shared, size, seed + (unsigned)me * 7);                  \
    fill_at(local, size, 0);                                         \
    meet();                                                          \
    __VA_ARGS__;                                                     \
    shmem_quiet();                                                   \
    REQUIRE(has_pattern_at(local, size, seed + (unsigned)next * 7)); \
    meet();                                                          \
  } while (0)

static int next, before;

static void plain(char *local, char *shared) {
  size_t const counts[] = {1, 3, 500, 8000};
  for (int i = 0; i < 4; i++) {
    size_t const count = counts[i];
#define BOTH(SUFFIX, UNIT)                                                       \
  CHECK_PUT(count *(UNIT), shmem_put##SUFFIX(shared, local, count, next));       \
  CHECK_PUT(count *(UNIT), shmem_put##SUFFIX##_nbi(shared, local, count, next)); \
  CHECK_GET(count *(UNIT), shmem_get##SUFFIX(local, shared, count, next));       \
  CHECK_GET(count *(UNIT), shmem_get##SUFFIX##_nbi(local, shared, count, next))
    BOTH(mem, 1);
    BOTH(8, 1);
    BOTH(16, 2);
    BOTH(32, 4);
    BOTH(64, 8);
    BOTH(128, 16);
#define TYPED(NAME, TYPE)                                                                          \
  CHECK_PUT(count * sizeof(TYPE), shmem_##NAME##_put((TYPE *)shared, (TYPE *)local, count, next)); \
  CHECK_GET(count * sizeof(TYPE),                                                                  \
            shmem_##NAME##_get_nbi((TYPE *)local, (TYPE *)shared, count, next));                   \
  CHECK_GET(count * sizeof(TYPE), shmem_##NAME##_get((TYPE *)local, (TYPE *)shared, count, next))
    TYPED(int, int);
    TYPED(double, double);
  }
  CHECK_PUT(100000, shmem_putmem(shared, local, 100000, next));
  CHECK_GET(100000, shmem_getmem(local, shared, 100000, next));
}

// The rest of a strided transfer is completed by other ones, one element or block after another.
static void strided(char *local, char *shared) {
  int *const to = (int *)shared, *const from = (int *)local;
  CHECK_PUT(300 * 4, {
    for (int part = 0; part < 3; part++)
      shmem_int_iput(to + part, from + part, 3, 3, 100, next);
  });
  CHECK_PUT(300 * 4, {
    for (int part = 0; part < 3; part++)
      shmem_int_ibput(to + part * 5, from + part * 5, 15, 15, 5, 20, next);
  });
  CHECK_GET(300 * 4, {
    for (int part = 0; part < 3; part++)
      shmem_int_iget(from + part, to + part, 3, 3, 100, next);
  });
  CHECK_GET(300 * 4, {
    for (int part = 0; part < 3; part++)
      shmem_int_ibget(from + part * 5, to + part * 5, 15, 15, 5, 20, next);
  });
  CHECK_PUT(64 * 8, {
    shmem_iput64(to, from, 1, 1, 32, next);
    shmem_iput64(to + 64, from + 64, 1, 1, 32, next);
  });
  CHECK_GET(16 * 16, {
    shmem_iget128(from, to, 2, 2, 8, next);
    shmem_iget128(from + 4, to + 4, 2, 2, 8, next);
  });
}

// Local values of p and g are the program's.
#define CHECK_VALUE(NAME, TYPE)                                          \
  do {                                                                   \
    TYPE const mine = (TYPE)(me + 3);                                    \
    meet();                                                              \
    shmem_##NAME##_p((TYPE *)shared, mine, next);                        \
    shmem_quiet();                                                       \
    meet();                                                              \
    REQUIRE(shmem_##NAME##_g((TYPE *)shared, me) == (TYPE)(before + 3)); \
    REQUIRE(shmem_##NAME##_g((TYPE *)shared, next) == mine);             \
    meet();                                                              \
  } while (0)
static void values(char *shared) {
  CHECK_VALUE(char, char);
  CHECK_VALUE(short, short);
  CHECK_VALUE(int, int);
  CHECK_VALUE(long, long);
  CHECK_VALUE(float, float);
  CHECK_VALUE(double, double);
  CHECK_VALUE(longdouble, long double);
}

// A PE that sees the signal sees the data.
static void signals(char *local, char *shared, uint64_t *signal) {
  uint64_t const zero = 0;
  size_t const sizes[] = {8, 4000, 100000};
  copy_in(signal, &zero, sizeof zero);
  meet();
  uint64_t turn = 0;
  for (int round = 0; round < 6; round++) {
    size_t const size = sizes[round % 3];
    seed++;
    turn++;
    fill_at(local, size, seed + (unsigned)me * 7);
    meet();
    if (round % 2 == 0) {
      shmem_putmem_signal(shared, local, size, signal, turn, SHMEM_SIGNAL_SET, next);
    } else {
      shmem_put64_signal_nbi(shared, local, size / 8, signal, 1, SHMEM_SIGNAL_ADD, next);
    }
    REQUIRE(shmem_signal_wait_until(signal, SHMEM_CMP_GE, turn) == turn);
    REQUIRE(shmem_signal_fetch(signal) == turn);
    REQUIRE(has_pattern_at(shared, size, seed + (unsigned)before * 7));
    shmem_quiet();
    meet();
  }
}

int main(void) {
  start_device("host_mixes");
  next = (me + 1) % pe_count;
  before = (me + pe_count - 1) % pe_count;
  for (int side = 0; side < 2; side++) {
    areas[side][0] = symmetric_device(SIZE);
    areas[side][1] = symmetric(SIZE);
    areas[side][2] = variables[side];
  }
  uint64_t *const device_signal = symmetric_device(sizeof(uint64_t));
  for (int from = 0; from < KIND_COUNT; from++) {
    for (int to = 0; to < KIND_COUNT; to++) {
      if (from != 0 && to != 0)
        continue;  // the programs of OpenSHMEM's own
      plain(areas[0][from], areas[1][to]);
      strided(areas[0][from], areas[1][to]);
      signals(areas[0][from], areas[1][to], device_signal);
      signals(areas[0][from], areas[1][to], &host_signal);
    }
  }
  signals(areas[0][1], areas[1][1], device_signal);
  values(areas[1][0]);
  shmem_ctx_t ctx;
  REQUIRE(shmem_ctx_create(0, &ctx) == 0);
  char *const local = allocate(SIZE), *const shared = areas[1][0];
  fill(local, SIZE, 77);
  shmem_ctx_putmem_nbi(ctx, shared, local, SIZE, next);
  shmem_ctx_fence(ctx);
  shmem_ctx_quiet(ctx);
  meet();
  REQUIRE(has_pattern_at(shared, SIZE, 77));
  shmem_ctx_destroy(ctx);
  return finish();
}
