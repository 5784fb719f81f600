// Puts and gets of many sizes and alignments, by the calls that name no type; bytes beside the
// target stay as they are.
#include "check.h"

enum { GUARD = 64, LARGEST = 4 << 20 };

static unsigned char in_bss[STEP_COUNT][70000 + 2 * GUARD];

static void check_guards(const unsigned char *area, size_t begin, size_t size, size_t whole) {
  for (size_t i = begin - GUARD; i < begin; i++)
    REQUIRE(area[i] == 0xee);
  for (size_t i = begin + size; i < begin + size + GUARD && i < whole; i++)
    REQUIRE(area[i] == 0xee);
}

// One size at one misalignment: put and get, blocking and not. `area` has `whole` bytes for each
// step.
static void one(unsigned char *area, size_t whole, size_t size, size_t shift) {
  size_t const begin = GUARD + shift;
  if (begin + size + GUARD > whole)
    return;
  unsigned char *const own = allocate(size + 16), *const got = allocate(size + 16);
  for (int blocking = 0; blocking < 2; blocking++) {
    for (int step = 0; step < STEP_COUNT; step++)
      memset(area + step * whole + shift, 0xee, size + 2 * GUARD);
    shmem_barrier_all();
    for (int step = 0; step < STEP_COUNT; step++) {
      unsigned const seed = (unsigned)(me * 8 + step * 2 + blocking);
      unsigned char *const source = own + (shift * 7 + 3) % 16;
      fill(source, size, seed);
      if (blocking)
        shmem_putmem(area + step * whole + begin, source, size, target_of(step));
      else
        shmem_putmem_nbi(area + step * whole + begin, source, size, target_of(step));
      if (!blocking)
        shmem_quiet();
    }
    shmem_barrier_all();
    for (int step = 0; step < STEP_COUNT; step++) {
      unsigned char *const row = area + step * whole;
      REQUIRE(
          has_pattern(row + begin, size, (unsigned)(source_of(step) * 8 + step * 2 + blocking)));
      check_guards(row, begin, size, whole);
      memset(got, 0xdd, size + 16);
      if (blocking)
        shmem_getmem(got + shift % 8, row + begin, size, target_of(step));
      else
        shmem_getmem_nbi(got + shift % 8, row + begin, size, target_of(step));
      if (!blocking)
        shmem_quiet();
      REQUIRE(has_pattern(got + shift % 8, size, (unsigned)(me * 8 + step * 2 + blocking)));
      for (size_t i = 0; i < shift % 8; i++)
        REQUIRE(got[i] == 0xdd);
      for (size_t i = shift % 8 + size; i < size + 16; i++)
        REQUIRE(got[i] == 0xdd);
    }
    shmem_barrier_all();
  }
  free(own);
  free(got);
}

// Elements of `bits` bits: the count is one of elements, not of bytes.
#define ELEMENTS(bits, area)                                                             \
  do {                                                                                   \
    subject = "elements of " #bits " bits";                                              \
    enum { SIZE = bits / 8, COUNT = 30 };                                                \
    unsigned char own[COUNT * SIZE], got[COUNT * SIZE];                                  \
    memset(area, 0, 4096);                                                               \
    shmem_barrier_all();                                                                 \
    fill(own, sizeof own, (unsigned)me);                                                 \
    shmem_put##bits(area, own, COUNT, target_of(1));                                     \
    shmem_ctx_put##bits##_nbi(SHMEM_CTX_DEFAULT, area + 1024, own, COUNT, target_of(1)); \
    shmem_iput##bits(area + 2048, own, 2, 1, COUNT / 2, target_of(1));                   \
    shmem_barrier_all();                                                                 \
    REQUIRE(has_pattern(area, sizeof own, (unsigned)source_of(1)));                      \
    REQUIRE(has_pattern(area + 1024, sizeof own, (unsigned)source_of(1)));               \
    REQUIRE(area[sizeof own] == 0 && area[1024 + sizeof own] == 0);                      \
    for (int i = 0; i < COUNT / 2; i++) {                                                \
      REQUIRE(memcmp(area + 2048 + 2 * i * SIZE, area + i * SIZE, SIZE) == 0);           \
    }                                                                                    \
    shmem_ctx_get##bits(SHMEM_CTX_DEFAULT, got, area, COUNT, target_of(1));              \
    REQUIRE(memcmp(got, own, sizeof own) == 0);                                          \
    memset(got, 0, sizeof got);                                                          \
    shmem_get##bits##_nbi(got, area, COUNT, target_of(1));                               \
    shmem_quiet();                                                                       \
    REQUIRE(memcmp(got, own, sizeof own) == 0);                                          \
    memset(got, 0, sizeof got);                                                          \
    shmem_iget##bits(got, area + 2048, 1, 2, COUNT / 2, target_of(1));                   \
    REQUIRE(memcmp(got, own, sizeof own / 2) == 0);                                      \
    shmem_barrier_all();                                                                 \
  } while (0)

int main(int count, char **words) {
  start("sizes");
  size_t const largest = (size_t)word_or(count, words, 1, LARGEST);
  size_t const whole = largest + 2 * GUARD + 16;
  unsigned char *const heap = symmetric(STEP_COUNT * whole);
  size_t const sizes[] = {
      0,     1,      2,      3,      4,      5,       7,       8,       9,      12,    15,    16,
      17,    31,     32,     33,     63,     64,      65,      100,     127,    128,   129,   255,
      256,   257,    511,    512,    513,    1000,    1023,    1024,    1025,   2047,  2048,  2049,
      4095,  4096,   4097,   8191,   8192,   8193,    16383,   16384,   16385,  32768, 65535, 65536,
      65537, 131072, 200001, 262144, 524289, 1048576, 1048577, 2097152, LARGEST};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    subject = "allocated memory";
    for (size_t shift = 0; shift < (sizes[i] <= 65537 ? 3 : 1); shift++)
      one(heap, whole, sizes[i], shift * 5 % 8);
    subject = "static memory";
    one(in_bss[0], sizeof in_bss[0], sizes[i], i % 8);
  }
  ELEMENTS(8, heap);
  ELEMENTS(16, heap);
  ELEMENTS(32, heap);
  ELEMENTS(64, heap);
  ELEMENTS(128, heap);
  shmem_free(heap);
  return finish();
}
