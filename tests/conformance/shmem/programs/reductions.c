// Reductions: every type and operation against answers computed here, on several teams, and of many
// elements.
#include <complex.h>

#include "check.h"

enum { COUNT = 19, PRODUCT_COUNT = 6 };  // as many factors of 2 as every type can hold

static shmem_team_t team;
static void *source_area, *target_area;

#define BODY "reduce.inc"
#include "each_rma_type.inc"
#define BODY "reduce.inc"
#include "each_complex_type.inc"
#define BODY "reduce_order.inc"
#include "each_rma_type.inc"
#define BODY "reduce_bits.inc"
#include "each_bitwise_reduce_type.inc"

static void types(void) {
#define BODY "run.inc"
#include "each_rma_type.inc"
#define BODY "run.inc"
#include "each_complex_type.inc"
#define BODY "run_order.inc"
#include "each_rma_type.inc"
#define BODY "run_bits.inc"
#include "each_bitwise_reduce_type.inc"
}

static void large(size_t count) {
  subject = "many elements";
  int const size = shmem_team_n_pes(team), mine = shmem_team_my_pe(team);
  double *const source = source_area, *const target = target_area;
  for (size_t i = 0; i < count; i++)
    source[i] = (double)(mine + 1) * (double)(i + 1);
  target[count] = 0.5;
  shmem_team_sync(team);
  REQUIRE(shmem_double_sum_reduce(team, target, source, count) == 0);
  double const factor = size * (size + 1) / 2.0;
  for (size_t i = 0; i < count; i++)
    REQUIRE(target[i] == factor * (double)(i + 1));
  REQUIRE(target[count] == 0.5);
  shmem_team_sync(team);
  REQUIRE(shmem_double_max_reduce(team, source, source, count) == 0);
  for (size_t i = 0; i < count; i++)
    REQUIRE(source[i] == (double)size * (double)(i + 1));
  shmem_team_sync(team);
}

int main(int words_count, char **words) {
  start("reductions");
  size_t const largest = (size_t)word_or(words_count, words, 1, 300000);
  source_area = symmetric_zeros(sizeof(double) * (largest + 64));
  target_area = symmetric_zeros(sizeof(double) * (largest + 64));
  for (int kind = 0; kind < 3; kind++) {
    team = SHMEM_TEAM_WORLD;
    if (kind == 1)
      REQUIRE(shmem_team_split_strided(
                  SHMEM_TEAM_WORLD, pe_count - 1, -1, pe_count, NULL, 0, &team) == 0);
    if (kind == 2)
      REQUIRE(
          shmem_team_split_strided(
              SHMEM_TEAM_WORLD, pe_count > 1, 2, pe_count > 1 ? pe_count / 2 : 1, NULL, 0, &team) ==
          0);
    if (team != SHMEM_TEAM_INVALID) {
      types();
      size_t const counts[] = {0, 1, 2, 100, 1000, 4099, 70001, 300000};
      for (int i = 0; i < 8 && counts[i] <= largest; i++)
        large(counts[i]);
    }
    shmem_barrier_all();
    if (kind > 0)
      shmem_team_destroy(team);
  }
  shmem_free(target_area);
  shmem_free(source_area);
  return finish();
}
