// Puts with a signal: every type, every form, sizes from nothing to 1 MiB, and many to one PE at
// once.
#include "check.h"

enum { FORM_COUNT = 4, COUNT = 33 };

#define BODY "signals.inc"
#include "each_rma_type.inc"

static void sizes(size_t largest) {
  subject = "sizes";
  unsigned char *const target = symmetric_zeros(largest + 1), *const own = allocate(largest + 1);
  uint64_t *const signal = symmetric_zeros(sizeof *signal);
  uint64_t round = 0;
  for (size_t size = 0; size <= largest; size = size < 8 ? size + 1 : size * 3) {
    for (int blocking = 0; blocking < 2; blocking++) {
      round++;
      fill(own, size, (unsigned)(me + round));
      target[size] = 0xee;
      shmem_barrier_all();
      if (blocking)
        shmem_putmem_signal(target, own, size, signal, round, SHMEM_SIGNAL_SET, target_of(1));
      else
        shmem_putmem_signal_nbi(target, own, size, signal, round, SHMEM_SIGNAL_SET, target_of(1));
      REQUIRE(shmem_signal_wait_until(signal, SHMEM_CMP_GE, round) == round);
      REQUIRE(has_pattern(target, size, (unsigned)(source_of(1) + round)) && target[size] == 0xee);
      shmem_barrier_all();
    }
  }
  shmem_free(signal);
  shmem_free(target);
  free(own);
}

// Elements of a given width, by the calls that name no type.
#define WIDTH(bits)                                                                          \
  do {                                                                                       \
    subject = "elements of " #bits " bits";                                                  \
    uint64_t const before = *signal;                                                         \
    shmem_barrier_all();                                                                     \
    shmem_put##bits##_signal(target, own, 5, signal, 1, SHMEM_SIGNAL_ADD, target_of(1));     \
    shmem_ctx_put##bits##_signal_nbi(                                                        \
        SHMEM_CTX_DEFAULT, target + 256, own, 5, signal, 1, SHMEM_SIGNAL_ADD, target_of(1)); \
    shmem_signal_wait_until(signal, SHMEM_CMP_EQ, before + 2);                               \
    REQUIRE(has_pattern(target, 5 * bits / 8, (unsigned)source_of(1)));                      \
    REQUIRE(has_pattern(target + 256, 5 * bits / 8, (unsigned)source_of(1)) &&               \
            target[5 * bits / 8] == 0);                                                      \
    shmem_barrier_all();                                                                     \
  } while (0)

static void widths(void) {
  unsigned char *const target = symmetric_zeros(512), own[80];
  uint64_t *const signal = symmetric_zeros(sizeof *signal);
  fill(own, sizeof own, (unsigned)me);
  WIDTH(8);
  WIDTH(16);
  WIDTH(32);
  WIDTH(64);
  WIDTH(128);
  shmem_free(signal);
  shmem_free(target);
}

// Every PE sends to every PE, each of `rounds` pieces with an addition: when all have been counted,
// all are there.
static void all_to_all(int rounds) {
  subject = "all to all";
  uint32_t *const target = symmetric_zeros(sizeof(uint32_t) * (size_t)(rounds * pe_count));
  uint64_t *const signal = symmetric_zeros(sizeof *signal);
  uint32_t *const own = allocate(sizeof(uint32_t) * (size_t)rounds);
  for (int i = 0; i < rounds; i++)
    own[i] = (uint32_t)(me * 1000 + i);
  for (int i = 0; i < rounds; i++) {
    for (int k = 0; k < pe_count; k++) {
      shmem_uint32_put_signal_nbi(
          target + me * rounds + i, own + i, 1, signal, 1, SHMEM_SIGNAL_ADD, (me + k) % pe_count);
    }
  }
  shmem_signal_wait_until(signal, SHMEM_CMP_EQ, (uint64_t)(rounds * pe_count));
  for (int pe = 0; pe < pe_count; pe++) {
    for (int i = 0; i < rounds; i++)
      REQUIRE(target[pe * rounds + i] == (uint32_t)(pe * 1000 + i));
  }
  shmem_barrier_all();
  shmem_free(signal);
  shmem_free(target);
  free(own);
}

int main(int count, char **words) {
  start("signals");
#define BODY "run.inc"
#include "each_rma_type.inc"
  sizes((size_t)word_or(count, words, 1, 1 << 20));
  widths();
  all_to_all((int)word_or(count, words, 2, 50));
  return finish();
}
