// Collectives that move data: every type, several teams, sizes up to 1 MiB, and a storm without a
// pause between them.
#include "check.h"

enum { COUNT = 12 };

static shmem_team_t team;
static void *source_area, *target_area;

#define BODY "collectives.inc"
#include "each_rma_type.inc"

static void memory(size_t size) {
  subject = "bytes";
  int const count = shmem_team_n_pes(team), mine = shmem_team_my_pe(team);
  unsigned char *const source = source_area, *const target = target_area;
  fill(source, size, (unsigned)mine);
  shmem_team_sync(team);
  REQUIRE(shmem_broadcastmem(team, target, source, size, count - 1) == 0);
  REQUIRE(has_pattern(target, size, (unsigned)(count - 1)));
  shmem_team_sync(team);
  REQUIRE(shmem_fcollectmem(team, target, source, size) == 0);
  for (int pe = 0; pe < count; pe++)
    REQUIRE(has_pattern(target + (size_t)pe * size, size, (unsigned)pe));
  shmem_team_sync(team);
  REQUIRE(shmem_collectmem(team, target, source, mine % 2 ? size : size / 2) == 0);
  size_t at = 0;
  for (int pe = 0; pe < count; pe++) {
    REQUIRE(has_pattern(target + at, pe % 2 ? size : size / 2, (unsigned)pe));
    at += pe % 2 ? size : size / 2;
  }
  for (int pe = 0; pe < count; pe++)
    fill(source + (size_t)pe * size, size, (unsigned)(mine * 1000 + pe));
  shmem_team_sync(team);
  REQUIRE(shmem_alltoallmem(team, target, source, size) == 0);
  for (int pe = 0; pe < count; pe++)
    REQUIRE(has_pattern(target + (size_t)pe * size, size, (unsigned)(pe * 1000 + mine)));
  shmem_team_sync(team);
  // No more than two elements of each PE fit: strides 2 and 2.
  size_t const block = size / 4;
  for (size_t i = 0; i < size * (size_t)count; i++)
    target[i] = 0;
  shmem_team_sync(team);
  REQUIRE(shmem_alltoallsmem(team, target, source, 2, 1, block) == 0);
  for (int pe = 0; pe < count; pe++) {
    for (size_t i = 0; i < block; i++) {
      size_t const there = (size_t)mine * block + i;
      REQUIRE(target[2 * ((size_t)pe * block + i)] ==
              pattern(there % size, (unsigned)(pe * 1000) + (unsigned)(there / size)));
    }
  }
  shmem_team_sync(team);
}

// Round after round of one collective after the other, each with memory of its own, and no wait but
// theirs.
static void storm(int rounds) {
  subject = "storm";
  int const count = shmem_team_n_pes(team), mine = shmem_team_my_pe(team);
  long *const source = symmetric_zeros(sizeof(long) * (size_t)(rounds * count));
  long *const target = symmetric_zeros(sizeof(long) * (size_t)(rounds * count));
  for (int i = 0; i < rounds * count; i++)
    source[i] = mine * 1000000L + i;
  for (int i = 0; i < rounds; i++) {
    long *const to = target + i * count, *const from = source + i * count;
    switch ((i * 7 + i / 5) % 6) {
      case 0:
        shmem_long_broadcast(team, to, from, 1, i % count);
        break;
      case 1:
        shmem_long_fcollect(team, to, from, 1);
        break;
      case 2:
        shmem_long_alltoall(team, to, from, 1);
        break;
      case 3:
        shmem_long_sum_reduce(team, to, from, 1);
        break;
      case 4:
        shmem_long_collect(team, to, from, (size_t)(mine == i % count));
        break;
      default:
        shmem_team_sync(team);
    }
  }
  for (int i = 0; i < rounds; i++) {
    const long *const to = target + i * count;
    long const first = i * count, sum = 1000000L * (count * (count - 1L) / 2) + first * count,
               one = (i % count) * 1000000L + first;
    switch ((i * 7 + i / 5) % 6) {
      case 0:
      case 4:
        REQUIRE(to[0] == one);
        break;
      case 1:
        for (int pe = 0; pe < count; pe++)
          REQUIRE(to[pe] == pe * 1000000L + first);
        break;
      case 2:
        for (int pe = 0; pe < count; pe++)
          REQUIRE(to[pe] == pe * 1000000L + first + mine);
        break;
      case 3:
        REQUIRE(to[0] == sum);
        break;
      default:
        break;
    }
  }
  shmem_barrier_all();
  shmem_free(target);
  shmem_free(source);
}

int main(int words_count, char **words) {
  start("collectives");
  size_t const largest = (size_t)word_or(words_count, words, 1, 1 << 20);
  size_t const area = (largest > 4096 ? largest : 4096) * (size_t)pe_count + 64;
  source_area = symmetric_zeros(area);
  target_area = symmetric_zeros(area);
  for (int kind = 0; kind < 3; kind++) {
    team = SHMEM_TEAM_WORLD;
    if (kind == 1)
      REQUIRE(shmem_team_split_strided(
                  SHMEM_TEAM_WORLD, pe_count - 1, -1, pe_count, NULL, 0, &team) == 0);
    if (kind == 2)
      REQUIRE(shmem_team_split_strided(
                  SHMEM_TEAM_WORLD, 0, 2, (pe_count + 1) / 2, NULL, 0, &team) == 0);
    if (team != SHMEM_TEAM_INVALID) {
#define BODY "run.inc"
#include "each_rma_type.inc"
      size_t const sizes[] = {4, 100, 4096, 70000, 1 << 20};
      for (int i = 0; i < 5 && sizes[i] <= largest; i++)
        memory(sizes[i]);
    }
    shmem_barrier_all();
    if (kind < 2)
      storm((int)word_or(words_count, words, 2, 200));
    if (kind > 0)
      shmem_team_destroy(team);
  }
  shmem_free(target_area);
  shmem_free(source_area);
  return finish();
}
