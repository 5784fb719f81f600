// Communication contexts: every option, many at once, what each completes for itself, and their
// teams.
#include "check.h"

enum { COUNT = 64 };

static long *slots;      // COUNT for each context
static uint64_t *flags;  // one for each context

static void use(shmem_ctx_t context, int index, int rounds) {
  long own[COUNT], got[COUNT];
  int const right = target_of(1), left = source_of(1);
  long *const mine = slots + index * COUNT;
  for (int round = 1; round <= rounds; round++) {
    for (long i = 0; i < COUNT; i++)
      own[i] = me * 1000000L + index * 1000 + round * 100 + i;
    shmem_ctx_long_put_nbi(context, mine, own, COUNT / 2, right);
    shmem_ctx_long_put(context, mine + COUNT / 2, own + COUNT / 2, COUNT / 2, right);
    shmem_ctx_fence(context);
    shmem_ctx_uint64_atomic_inc(context, flags + index, right);
    shmem_ctx_quiet(context);
    shmem_uint64_wait_until(flags + index, SHMEM_CMP_GE, (uint64_t)round);
    for (long i = 0; i < COUNT; i++)
      REQUIRE(mine[i] == left * 1000000L + index * 1000 + round * 100 + i);
    shmem_ctx_long_get_nbi(context, got, mine, COUNT, me);
    shmem_ctx_quiet(context);
    REQUIRE(memcmp(got, mine, sizeof got) == 0);
    REQUIRE(shmem_ctx_long_g(context, mine + 3, me) == mine[3]);
    shmem_barrier_all();
  }
  flags[index] = 0;
  shmem_barrier_all();
}

static void every_option(void) {
  long const options[] = {0,
                          SHMEM_CTX_PRIVATE,
                          SHMEM_CTX_SERIALIZED,
                          SHMEM_CTX_NOSTORE,
                          SHMEM_CTX_SERIALIZED | SHMEM_CTX_NOSTORE,
                          SHMEM_CTX_PRIVATE | SHMEM_CTX_NOSTORE};
  for (int i = 0; i < 6; i++) {
    shmem_ctx_t context = SHMEM_CTX_INVALID;
    shmem_team_t team = SHMEM_TEAM_INVALID;
    REQUIRE(shmem_ctx_create(options[i], &context) == 0 && context != SHMEM_CTX_INVALID &&
            context != SHMEM_CTX_DEFAULT);
    REQUIRE(shmem_ctx_get_team(context, &team) == 0 && team == SHMEM_TEAM_WORLD);
    use(context, 0, 2);
    shmem_ctx_destroy(context);
  }
  shmem_ctx_destroy(SHMEM_CTX_INVALID);
  shmem_team_t team = SHMEM_TEAM_WORLD;
  REQUIRE(shmem_ctx_get_team(SHMEM_CTX_DEFAULT, &team) == 0 && team == SHMEM_TEAM_WORLD);
  REQUIRE(shmem_ctx_get_team(SHMEM_CTX_INVALID, &team) != 0 && team == SHMEM_TEAM_INVALID);
}

static void several(int count) {
  shmem_ctx_t *const contexts = allocate(sizeof(shmem_ctx_t) * (size_t)count);
  for (int i = 0; i < count; i++) {
    REQUIRE(shmem_ctx_create(i % 2 ? SHMEM_CTX_SERIALIZED : 0, contexts + i) == 0);
    for (int k = 0; k < i; k++)
      REQUIRE(contexts[k] != contexts[i]);
  }
  for (int i = 0; i < count; i++)
    use(contexts[i], i, 1);
  // Destroying one completes what is under way on it.
  long const own = 17 + me;
  for (int i = 0; i < count; i++)
    shmem_ctx_long_put_nbi(contexts[i], slots + i * COUNT, &own, 1, target_of(1));
  for (int i = 0; i < count; i++)
    shmem_ctx_destroy(contexts[i]);
  shmem_barrier_all();
  for (int i = 0; i < count; i++)
    REQUIRE(slots[i * COUNT] == 17 + source_of(1));
  shmem_barrier_all();  // who comes after puts here again
  free(contexts);
}

// Created and destroyed over and over: none leaks.
static void churn(int rounds) {
  for (int i = 0; i < rounds; i++) {
    shmem_ctx_t context;
    REQUIRE(shmem_ctx_create(i % 3 ? 0 : SHMEM_CTX_PRIVATE, &context) == 0);
    shmem_ctx_long_p(context, slots + i % COUNT, i, target_of(1));
    shmem_ctx_destroy(context);
  }
  shmem_barrier_all();
  REQUIRE(slots[(rounds - 1) % COUNT] == rounds - 1);
  shmem_barrier_all();
}

int main(int count, char **words) {
  start("contexts");
  int const several_count = (int)word_or(count, words, 1, 20);
  slots = symmetric_zeros(sizeof(long) * COUNT * (size_t)several_count);
  flags = symmetric_zeros(sizeof(uint64_t) * (size_t)several_count);
  subject = "options";
  every_option();
  subject = "several";
  several(several_count);
  subject = "churn";
  churn((int)word_or(count, words, 2, 200));
  shmem_free(flags);
  shmem_free(slots);
  return finish();
}
