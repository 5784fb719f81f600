// Teams: splits by stride and in two dimensions, numbers, translation, configuration, and contexts
// of teams.
#include "check.h"

static int floor_count(int count, int stride) {
  return (count + stride - 1) / stride;
}

static void predefined(void) {
  subject = "predefined teams";
  REQUIRE(shmem_team_my_pe(SHMEM_TEAM_WORLD) == me &&
          shmem_team_n_pes(SHMEM_TEAM_WORLD) == pe_count);
  REQUIRE(shmem_team_my_pe(SHMEM_TEAM_INVALID) == -1 && shmem_team_n_pes(SHMEM_TEAM_INVALID) == -1);
  int const shared = shmem_team_n_pes(SHMEM_TEAM_SHARED),
            mine = shmem_team_my_pe(SHMEM_TEAM_SHARED);
  REQUIRE(shared >= 1 && shared <= pe_count && mine >= 0 && mine < shared);
  REQUIRE(shmem_team_translate_pe(SHMEM_TEAM_SHARED, mine, SHMEM_TEAM_WORLD) == me);
  static int word;
  for (int pe = 0; pe < shared; pe++) {
    int const world = shmem_team_translate_pe(SHMEM_TEAM_SHARED, pe, SHMEM_TEAM_WORLD);
    REQUIRE(world >= 0 && world < pe_count &&
            shmem_team_translate_pe(SHMEM_TEAM_WORLD, world, SHMEM_TEAM_SHARED) == pe);
    REQUIRE(shmem_ptr(&word, world) != NULL);  // what the shared team is
  }
  REQUIRE(shmem_team_translate_pe(SHMEM_TEAM_WORLD, me, SHMEM_TEAM_INVALID) == -1);
  REQUIRE(shmem_team_translate_pe(SHMEM_TEAM_INVALID, 0, SHMEM_TEAM_WORLD) == -1);
  shmem_team_destroy(SHMEM_TEAM_INVALID);
  shmem_team_t team = SHMEM_TEAM_WORLD;
  REQUIRE(shmem_team_split_strided(SHMEM_TEAM_INVALID, 0, 1, 1, NULL, 0, &team) != 0 &&
          team == SHMEM_TEAM_INVALID);
  shmem_team_sync(SHMEM_TEAM_WORLD);
  shmem_team_sync(SHMEM_TEAM_SHARED);
}

// Members of the team add up the world's numbers of its members, through a context of the team.
static void use(shmem_team_t team) {
  static long total, seen;
  int const size = shmem_team_n_pes(team), mine = shmem_team_my_pe(team);
  shmem_ctx_t context = SHMEM_CTX_INVALID;
  REQUIRE(shmem_team_create_ctx(team, 0, &context) == 0 && context != SHMEM_CTX_INVALID);
  shmem_team_t of_context = SHMEM_TEAM_INVALID;
  REQUIRE(shmem_ctx_get_team(context, &of_context) == 0 && of_context == team);
  total = 0;
  seen = 0;
  shmem_team_sync(team);
  shmem_ctx_long_atomic_add(context, &total, me + 1, 0);
  shmem_ctx_long_p(context, &seen, me, (mine + 1) % size);  // numbers are those of the team
  shmem_ctx_quiet(context);
  shmem_team_sync(team);
  long expected = 0;
  for (int pe = 0; pe < size; pe++)
    expected += shmem_team_translate_pe(team, pe, SHMEM_TEAM_WORLD) + 1;
  REQUIRE(shmem_ctx_long_atomic_fetch(context, &total, 0) == expected);
  REQUIRE(seen == shmem_team_translate_pe(team, (mine + size - 1) % size, SHMEM_TEAM_WORLD));
  shmem_team_sync(team);
  shmem_ctx_destroy(context);
}

static void strided(int begin, int stride, int size) {
  shmem_team_config_t config, found;
  memset(&config, 0, sizeof config);
  memset(&found, 0, sizeof found);
  config.num_contexts = 2;
  shmem_team_t team = SHMEM_TEAM_INVALID;
  REQUIRE(shmem_team_split_strided(
              SHMEM_TEAM_WORLD, begin, stride, size, &config, SHMEM_TEAM_NUM_CONTEXTS, &team) == 0);
  int expected = -1;
  for (int i = 0; i < size; i++)
    expected = begin + i * stride == me ? i : expected;
  REQUIRE((team != SHMEM_TEAM_INVALID) == (expected >= 0));
  REQUIRE(shmem_team_my_pe(team) == expected);
  if (team != SHMEM_TEAM_INVALID) {
    REQUIRE(shmem_team_n_pes(team) == size);
    REQUIRE(shmem_team_get_config(team, SHMEM_TEAM_NUM_CONTEXTS, &found) == 0 &&
            found.num_contexts >= 2);
    REQUIRE(shmem_team_get_config(team, 0, NULL) == 0);
    for (int i = 0; i < size; i++) {
      REQUIRE(shmem_team_translate_pe(team, i, SHMEM_TEAM_WORLD) == begin + i * stride);
      REQUIRE(shmem_team_translate_pe(SHMEM_TEAM_WORLD, begin + i * stride, team) == i);
    }
    REQUIRE(shmem_team_translate_pe(team, size, SHMEM_TEAM_WORLD) == -1);
    for (int pe = 0; pe < pe_count && size < pe_count; pe++) {
      int member = 0;
      for (int i = 0; i < size; i++)
        member |= begin + i * stride == pe;
      if (!member)
        REQUIRE(shmem_team_translate_pe(SHMEM_TEAM_WORLD, pe, team) == -1);
    }
    use(team);
    shmem_team_destroy(team);
  }
  shmem_barrier_all();
}

static void split_2d(shmem_team_t parent, int range) {
  shmem_team_config_t config;
  memset(&config, 0, sizeof config);
  config.num_contexts = 1;
  int const size = shmem_team_n_pes(parent), mine = shmem_team_my_pe(parent),
            width = range < size ? range : size;
  shmem_team_t x = SHMEM_TEAM_INVALID, y = SHMEM_TEAM_INVALID;
  REQUIRE(shmem_team_split_2d(parent,
                              range,
                              &config,
                              SHMEM_TEAM_NUM_CONTEXTS,
                              &x,
                              &config,
                              SHMEM_TEAM_NUM_CONTEXTS,
                              &y) == 0);
  REQUIRE(shmem_team_my_pe(x) == mine % width && shmem_team_my_pe(y) == mine / width);
  int const row = mine / width * width;
  REQUIRE(shmem_team_n_pes(x) == (row + width <= size ? width : size - row));
  REQUIRE(shmem_team_n_pes(y) == floor_count(size - mine % width, width));
  for (int i = 0; i < shmem_team_n_pes(x); i++)
    REQUIRE(shmem_team_translate_pe(x, i, parent) == row + i);
  for (int i = 0; i < shmem_team_n_pes(y); i++)
    REQUIRE(shmem_team_translate_pe(y, i, parent) == mine % width + i * width);
  use(x);
  use(y);
  shmem_team_destroy(y);
  shmem_team_destroy(x);
}

// Teams of teams of teams, and many at once, destroyed in another order than they were made.
static void nested(int count) {
  subject = "nested teams";
  shmem_team_t team = SHMEM_TEAM_WORLD, kept[16];
  int depth = 0;
  while (team != SHMEM_TEAM_INVALID && shmem_team_n_pes(team) > 1) {
    shmem_team_t half = SHMEM_TEAM_INVALID;
    REQUIRE(shmem_team_split_strided(team, 1, 2, shmem_team_n_pes(team) / 2, NULL, 0, &half) == 0);
    if (half != SHMEM_TEAM_INVALID)
      kept[depth++] = half;
    team = half;
  }
  for (int i = 0; i < depth; i++)
    REQUIRE(shmem_team_n_pes(kept[i]) == pe_count >> (i + 1));
  for (int i = depth - 1; i >= 0; i--)
    shmem_team_destroy(kept[i]);
  shmem_barrier_all();
  shmem_team_t many[12];
  for (int i = 0; i < count; i++)
    REQUIRE(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, pe_count, NULL, 0, many + i) == 0);
  for (int i = 0; i < count; i++)
    REQUIRE(shmem_team_sync(many[i]) == 0);
  for (int i = 0; i < count; i++)
    shmem_team_destroy(many[(i * 5 + 3) % count]);
  for (int i = 0; i < 40; i++) {
    REQUIRE(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, pe_count, NULL, 0, many) == 0);
    shmem_team_destroy(many[0]);
  }
  shmem_barrier_all();
}

int main(void) {
  start("teams");
  predefined();
  subject = "strided";
  strided(0, 1, pe_count);
  strided(0, 1, 1);
  strided(pe_count - 1, 1, 1);
  strided(pe_count - 1, -1, pe_count);
  strided(0, 2, floor_count(pe_count, 2));
  if (pe_count > 1)
    strided(1, 2, floor_count(pe_count - 1, 2));
  if (pe_count > 2)
    strided(2, 3, floor_count(pe_count - 2, 3));
  if (pe_count > 3)
    strided(pe_count - 2, -2, pe_count / 2 - 1);
  subject = "in two dimensions";
  for (int range = 1; range <= 4; range++)
    split_2d(SHMEM_TEAM_WORLD, range);
  split_2d(SHMEM_TEAM_WORLD, pe_count + 5);
  shmem_team_t odd;
  REQUIRE(shmem_team_split_strided(
              SHMEM_TEAM_WORLD, pe_count > 1, 2, pe_count > 1 ? pe_count / 2 : 1, NULL, 0, &odd) ==
          0);
  if (odd != SHMEM_TEAM_INVALID) {
    split_2d(odd, 2);
    shmem_team_destroy(odd);
  }
  shmem_barrier_all();
  nested(7);
  return finish();
}
