// What OpenSHMEM 1.6 adds: strided blocks, prefix sums, quiet for some PEs, signals without data,
// sessions, the state of the library.
#include <complex.h>

#include "check.h"

enum { BLOCKS = 6, AREA = 60, COUNT = 5 };

static shmem_team_t team;

#define BODY "blocks.inc"
#include "each_rma_type.inc"
#define BODY "scans.inc"
#include "each_rma_type.inc"
#define BODY "scans.inc"
#include "each_complex_type.inc"

#define WIDTH(bits)                                                                    \
  do {                                                                                 \
    subject = "blocks of " #bits " bits";                                              \
    enum { SIZE = bits / 8 };                                                          \
    unsigned char own[10 * SIZE], got[10 * SIZE];                                      \
    unsigned char *const target = symmetric_zeros(20 * SIZE);                          \
    fill(own, sizeof own, (unsigned)me);                                               \
    shmem_ibput##bits(target, own, 4, 2, 2, 5, target_of(1));                          \
    shmem_barrier_all();                                                               \
    fill(own, sizeof own, (unsigned)source_of(1));                                     \
    for (int i = 0; i < 5; i++) {                                                      \
      REQUIRE(memcmp(target + i * 4 * SIZE, own + i * 2 * SIZE, 2 * SIZE) == 0);       \
      REQUIRE(target[(i * 4 + 2) * SIZE] == 0 && target[(i * 4 + 4) * SIZE - 1] == 0); \
    }                                                                                  \
    shmem_ctx_ibget##bits(SHMEM_CTX_DEFAULT, got, target, 2, 4, 2, 5, target_of(1));   \
    REQUIRE(has_pattern(got, sizeof got, (unsigned)me));                               \
    shmem_barrier_all();                                                               \
    shmem_free(target);                                                                \
  } while (0)

static void signals_alone(void) {
  subject = "signals without data";
  uint64_t *const signal = symmetric_zeros(sizeof *signal);
  int const right = target_of(1);
  shmem_signal_set(signal, 10, right);
  shmem_signal_wait_until(signal, SHMEM_CMP_EQ, 10);
  shmem_barrier_all();
  shmem_signal_add(signal, 5, right);
  shmem_signal_wait_until(signal, SHMEM_CMP_EQ, 15);
  shmem_barrier_all();
  shmem_ctx_signal_add(SHMEM_CTX_DEFAULT, signal, (uint64_t)-5, right);
  shmem_signal_wait_until(signal, SHMEM_CMP_EQ, 10);
  shmem_barrier_all();
  shmem_ctx_signal_set(SHMEM_CTX_DEFAULT, signal, UINT64_MAX, right);
  shmem_signal_wait_until(signal, SHMEM_CMP_EQ, UINT64_MAX);
  shmem_barrier_all();
  for (int pe = 0; pe < pe_count; pe++)
    shmem_signal_add(signal, 1, pe);  // from UINT64_MAX on
  shmem_signal_wait_until(signal, SHMEM_CMP_EQ, (uint64_t)pe_count - 1);
  shmem_barrier_all();
  shmem_free(signal);
}

static void quiet_for_some(void) {
  subject = "quiet for some PEs";
  long *const words = symmetric_zeros(sizeof(long) * (size_t)pe_count);
  shmem_ctx_t context;
  REQUIRE(shmem_ctx_create(0, &context) == 0);
  for (int round = 1; round <= 20; round++) {
    long const own = me * 100 + round;
    int const targets[2] = {target_of(1), target_of(2)};
    for (int i = 0; i < 2; i++)
      shmem_ctx_long_put_nbi(
          round % 2 ? context : SHMEM_CTX_DEFAULT, words + me, &own, 1, targets[i]);
    if (round % 2)
      shmem_ctx_pe_quiet(context, targets, 2);
    else
      shmem_pe_quiet(targets, 2);
    for (int i = 0; i < 2; i++)
      REQUIRE(shmem_long_g(words + me, targets[i]) == own);
  }
  shmem_pe_quiet(NULL, 0);
  shmem_ctx_pe_quiet(context, NULL, 0);
  shmem_ctx_destroy(context);
  shmem_barrier_all();
  shmem_free(words);
}

static void sessions(void) {
  subject = "sessions";
  long *const words = symmetric_zeros(sizeof(long) * 64);
  shmem_ctx_session_config_t config;
  memset(&config, 0, sizeof config);
  config.total_ops = 64;
  shmem_ctx_t context;
  REQUIRE(shmem_ctx_create(SHMEM_CTX_PRIVATE, &context) == 0);
  for (int round = 0; round < 3; round++) {
    shmem_ctx_t const used = round ? context : SHMEM_CTX_DEFAULT;
    shmem_ctx_session_start(used,
                            round == 2 ? SHMEM_CTX_SESSION_BATCH : 0,
                            &config,
                            round ? SHMEM_CTX_SESSION_TOTAL_OPS : 0);
    long own[64];
    for (int i = 0; i < 64; i++)
      own[i] = me * 64 + i + round;
    for (int i = 0; i < 64; i++)
      shmem_ctx_long_put_nbi(used, words + i, own + i, 1, target_of(1));
    shmem_ctx_session_stop(used);
    shmem_ctx_quiet(used);
    shmem_barrier_all();
    for (int i = 0; i < 64; i++)
      REQUIRE(words[i] == source_of(1) * 64 + i + round);
    shmem_barrier_all();
  }
  shmem_ctx_session_start(context, 0, NULL, 0);
  shmem_ctx_session_stop(context);
  shmem_ctx_destroy(context);
  shmem_free(words);
}

static void generic(void) {
  subject = "generic forms";
  static int target[8], sum;
  int const own[4] = {me, me + 1, me + 2, me + 3};
  int got[4];
  shmem_ibput(target, own, 4, 2, 2, 2, target_of(1));
  shmem_barrier_all();
  REQUIRE(target[0] == source_of(1) && target[1] == source_of(1) + 1 &&
          target[4] == source_of(1) + 2 && target[2] == 0);
  shmem_ibget(SHMEM_CTX_DEFAULT, got, target, 2, 4, 2, 2, target_of(1));
  REQUIRE(memcmp(got, own, sizeof got) == 0);
  shmem_barrier_all();
  target[0] = 1;
  shmem_sync(SHMEM_TEAM_WORLD);
  REQUIRE(shmem_sum_inscan(SHMEM_TEAM_WORLD, &sum, target, 1) == 0 && sum == me + 1);
  shmem_sync(SHMEM_TEAM_WORLD);
  REQUIRE(shmem_sum_exscan(SHMEM_TEAM_WORLD, &sum, target, 1) == 0 && sum == me);
  shmem_barrier_all();
}

int main(void) {
  start("since_1_6");
#define BODY "run.inc"
#include "each_rma_type.inc"
  WIDTH(8);
  WIDTH(16);
  WIDTH(32);
  WIDTH(64);
  WIDTH(128);
  team = SHMEM_TEAM_WORLD;
#define BODY "run_scan.inc"
#include "each_rma_type.inc"
#define BODY "run_scan.inc"
#include "each_complex_type.inc"
  REQUIRE(shmem_team_split_strided(SHMEM_TEAM_WORLD, pe_count - 1, -1, pe_count, NULL, 0, &team) ==
          0);
#define BODY "run_scan.inc"
#include "each_rma_type.inc"
  shmem_team_destroy(team);
  signals_alone();
  quiet_for_some();
  sessions();
  generic();
  return finish();
}
