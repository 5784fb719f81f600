// Teams of devices and teams split from them; their contexts; contexts for kernels when kernels are
// not supported.
#include "host_check.h"

static void check_team(shmem_team_t team, int own, int members) {
  REQUIRE(shmem_team_my_pe(team) == own && shmem_team_n_pes(team) == members);
  REQUIRE(shmem_team_sync(team) == 0);
  long *const values = symmetric_device(2 * sizeof(long));
  long const mine = own + 1;
  copy_in(values, &mine, sizeof mine);
  REQUIRE(shmem_long_sum_reduce(team, values + 1, values, 1) == 0);
  long sum = 0;
  copy_out(&sum, values + 1, sizeof sum);
  REQUIRE(sum == (long)members * (members + 1) / 2);
  shmemg_free(values);
}

static void check_context(shmem_team_t team) {
  shmem_ctx_t ctx;
  shmem_team_t back;
  long *const word = shmemg_calloc(1, sizeof(long));
  int const members = shmem_team_n_pes(team), own = shmem_team_my_pe(team),
            last = (own + 1) % members;
  REQUIRE(shmem_team_create_ctx(team, 0, &ctx) == 0);
  REQUIRE(shmem_ctx_get_team(ctx, &back) == 0 && back == team);
  shmem_ctx_long_atomic_add(ctx, word, own + 1, last);
  shmem_ctx_quiet(ctx);
  shmem_team_sync(team);
  REQUIRE(shmem_long_g(word, me) == (own + members - 1) % members + 1);
  REQUIRE(shmem_team_ptr(team, word, own) == (void *)word &&
          shmem_team_ptr(team, word, members) == NULL);
  shmem_team_sync(team);
  shmem_ctx_destroy(ctx);
  shmemg_free(word);
}

int main(void) {
  start_device("host_teams");
  shmem_team_t split, again, row, column;
  check_team(SHMEM_DEVICE_TEAM_WORLD, me, pe_count);
  check_team(SHMEM_DEVICE_TEAM_SHARED, me, pe_count);  // one machine, one kind of device
  check_context(SHMEM_DEVICE_TEAM_WORLD);
  check_context(SHMEM_DEVICE_TEAM_SHARED);
  REQUIRE(shmem_team_translate_pe(SHMEM_DEVICE_TEAM_WORLD, me, SHMEM_TEAM_WORLD) == me);
  for (int round = 0; round < 5; round++) {
    int const is_even = me % 2 == 0, evens = (pe_count + 1) / 2;
    REQUIRE(shmem_team_split_strided(SHMEM_DEVICE_TEAM_WORLD, 0, 2, evens, NULL, 0, &split) == 0);
    REQUIRE((split != SHMEM_TEAM_INVALID) == is_even);
    if (is_even) {
      REQUIRE((uintptr_t)split < 4096 &&
              split != SHMEM_DEVICE_TEAM_WORLD);  // a number that kernels can use
      REQUIRE(shmem_team_n_pes(split) == evens && shmem_team_my_pe(split) == me / 2);
      REQUIRE(shmem_team_translate_pe(split, me / 2, SHMEM_DEVICE_TEAM_SHARED) == me);
      REQUIRE(shmem_team_split_strided(split, 0, 1, 1, NULL, 0, &again) == 0);
      if (me == 0)
        shmem_team_destroy(again);
      shmem_team_destroy(split);
    }
    REQUIRE(shmem_team_split_2d(SHMEM_DEVICE_TEAM_SHARED, 2, NULL, 0, &row, NULL, 0, &column) == 0);
    REQUIRE(shmem_team_my_pe(row) == me % 2 && shmem_team_my_pe(column) == me / 2);
    shmem_team_sync(row);
    shmem_team_sync(column);
    shmem_team_destroy(row);
    shmem_team_destroy(column);
  }
  shmem_ctx_t ctx = SHMEM_CTX_DEFAULT;
  REQUIRE(shmem_ctx_create(SHMEM_DEVICE_CTX, &ctx) != 0 && ctx == SHMEM_CTX_INVALID);
  REQUIRE(shmem_team_create_ctx(SHMEM_TEAM_WORLD, SHMEM_DEVICE_CTX, &ctx) != 0 &&
          ctx == SHMEM_CTX_INVALID);
  REQUIRE(shmem_team_my_pe((shmem_team_t)50) == -1);
  shmem_team_t of;
  REQUIRE(shmem_ctx_get_team(SHMEM_DEVICE_CTX_DEFAULT, &of) == 0 && of == SHMEM_DEVICE_TEAM_WORLD);
  return finish();
}
