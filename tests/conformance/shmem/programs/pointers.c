// shmem_ptr, shmem_team_ptr, and the queries whether memory and PEs are accessible.
#include "check.h"

static long in_data = 5, in_bss;

static void mapped(long *word, shmem_team_t team, int number) {
  long *const there =
      team == SHMEM_TEAM_INVALID ? shmem_ptr(word, number) : shmem_team_ptr(team, word, number);
  int const pe =
      team == SHMEM_TEAM_INVALID ? number : shmem_team_translate_pe(team, number, SHMEM_TEAM_WORLD);
  if (pe == me)
    REQUIRE(there == word);
  if (there == NULL)
    return;
  *there = me * 100 + pe;
  shmem_quiet();
  REQUIRE(shmem_long_g(word, pe) == me * 100 + pe);
  shmem_long_p(word, 3, pe);
  shmem_quiet();
  REQUIRE(*(volatile long *)there == 3);
}

int main(void) {
  start("pointers");
  long *const in_heap = symmetric_zeros(sizeof(long) * 2);
  long *const places[] = {&in_data, &in_bss, in_heap, in_heap + 1};
  for (int turn = 0; turn < pe_count; turn++) {  // one PE at a time, since all use the same words
    if (turn == me) {
      for (int pe = 0; pe < pe_count; pe++) {
        for (int i = 0; i < 4; i++) {
          mapped(places[i], SHMEM_TEAM_INVALID, pe);
          mapped(places[i], SHMEM_TEAM_WORLD, pe);
        }
      }
      for (int pe = 0; pe < shmem_team_n_pes(SHMEM_TEAM_SHARED); pe++) {
        REQUIRE(shmem_team_ptr(SHMEM_TEAM_SHARED, in_heap, pe) != NULL);
        mapped(in_heap, SHMEM_TEAM_SHARED, pe);
      }
    }
    shmem_barrier_all();
  }
  REQUIRE(shmem_team_ptr(SHMEM_TEAM_INVALID, in_heap, 0) == NULL);
  long on_stack = 0;
  long *const elsewhere = allocate(sizeof(long));
  for (int pe = 0; pe < pe_count; pe++) {
    REQUIRE(shmem_pe_accessible(pe) == 1);
    for (int i = 0; i < 4; i++)
      REQUIRE(shmem_addr_accessible(places[i], pe) == 1);
    REQUIRE(shmem_addr_accessible(&on_stack, pe) == 0 && shmem_addr_accessible(elsewhere, pe) == 0);
    REQUIRE(shmem_addr_accessible(NULL, pe) == 0);
  }
  REQUIRE(shmem_pe_accessible(-1) == 0 && shmem_pe_accessible(pe_count) == 0);
  free(elsewhere);
  shmem_barrier_all();
  shmem_free(in_heap);
  return finish();
}
