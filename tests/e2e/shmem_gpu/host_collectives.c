// Collective operations whose targets and sources are memory of either kind, on teams and active
// sets, against expected results.
#include "host_check.h"

enum { LARGE = 40000, SIZE = LARGE * 8 * 8 };
static long sync_words[4][SHMEM_SYNC_SIZE];
static long work[LARGE];
static long *host_target, *host_source, *device_target, *device_source, *target, *source, *seen;

static long value(int pe, size_t i) {
  return (long)(i % 977) * 5 + pe * 1000 + 1;
}
static void give(size_t count) {
  for (size_t i = 0; i < count; i++)
    seen[i] = value(me, i);
  copy_in(source, seen, count * sizeof(long));
  memset(seen, 0x55, SIZE);
  copy_in(target, seen, SIZE);
  shmem_barrier_all();
}
static void take(void) {
  copy_out(seen, target, SIZE);
}
static void leave(void) {
  shmem_barrier_all();
}

static void moves(shmem_team_t team, size_t count) {
  for (int root = 0; root < pe_count; root += pe_count > 1 ? pe_count - 1 : 1) {
    subject = "broadcast";
    give(count);
    REQUIRE(shmem_long_broadcast(team, target, source, count, root) == 0);
    take();
    for (size_t i = 0; i < count; i++)
      REQUIRE(seen[i] == value(root, i));
    leave();
  }
  subject = "fcollect";
  give(count);
  REQUIRE(shmem_long_fcollect(team, target, source, count) == 0);
  take();
  for (size_t i = 0; i < count * (size_t)pe_count; i++)
    REQUIRE(seen[i] == value((int)(i / count), i % count));
  leave();
  subject = "collect";
  give(count + 3);
  size_t const mine = me == 1 ? 0 : count + (size_t)me;
  REQUIRE(shmem_collectmem(team, target, mine == 0 ? NULL : source, mine * sizeof(long)) == 0);
  take();
  long *at = seen;
  for (int pe = 0; pe < pe_count; pe++) {
    size_t const theirs = pe == 1 ? 0 : count + (size_t)pe;
    for (size_t i = 0; i < theirs; i++, at++)
      REQUIRE(*at == value(pe, i));
  }
  leave();
  subject = "alltoall";
  give(count * (size_t)pe_count);
  REQUIRE(shmem_long_alltoall(team, target, source, count) == 0);
  take();
  for (size_t i = 0; i < count * (size_t)pe_count; i++)
    REQUIRE(seen[i] == value((int)(i / count), (size_t)me * count + i % count));
  leave();
  subject = "alltoalls";
  size_t const few = count / 3 + 1;
  give(few * 2 * (size_t)pe_count);
  REQUIRE(shmem_long_alltoalls(team, target, source, 1, 2, few) == 0);
  take();
  for (size_t i = 0; i < few * (size_t)pe_count; i++) {
    REQUIRE(seen[i] == value((int)(i / few), 2 * ((size_t)me * few + i % few)));
  }
  leave();
}

static void reductions(shmem_team_t team, size_t count) {
  subject = "sum";
  give(count);
  REQUIRE(shmem_long_sum_reduce(team, target, source, count) == 0);
  take();
  for (size_t i = 0; i < count; i++) {
    long sum = 0;
    for (int pe = 0; pe < pe_count; pe++)
      sum += value(pe, i);
    REQUIRE(seen[i] == sum);
  }
  leave();
  subject = "max in place";
  give(count);
  REQUIRE(shmem_long_max_reduce(team, source, source, count) == 0);
  copy_out(seen, source, count * sizeof(long));
  for (size_t i = 0; i < count; i++)
    REQUIRE(seen[i] == value(pe_count - 1, i));
  leave();
  subject = "xor";
  give(count);
  REQUIRE(shmem_uint64_xor_reduce(team, (uint64_t *)target, (uint64_t *)source, count) == 0);
  take();
  for (size_t i = 0; i < count; i++) {
    long all = 0;
    for (int pe = 0; pe < pe_count; pe++)
      all ^= value(pe, i);
    REQUIRE(seen[i] == all);
  }
  leave();
  subject = "double";
  double *const numbers = (double *)seen;
  for (size_t i = 0; i < count; i++)
    numbers[i] = (double)value(me, i);
  copy_in(source, numbers, count * sizeof(double));
  leave();
  REQUIRE(shmem_double_min_reduce(team, (double *)target, (double *)source, count) == 0);
  take();
  for (size_t i = 0; i < count; i++)
    REQUIRE(numbers[i] == (double)value(0, i));
  leave();
  subject = "scans";
  for (int exclusive = 0; exclusive < 2; exclusive++) {
    give(count);
    int const code = exclusive ? shmem_long_sum_exscan(team, target, source, count)
                               : shmem_long_sum_inscan(team, target, source, count);
    REQUIRE(code == 0);
    take();
    for (size_t i = 0; i < count; i++) {
      long sum = 0;
      for (int pe = 0; pe < me + !exclusive; pe++)
        sum += value(pe, i);
      REQUIRE(seen[i] == sum);
    }
    leave();
  }
}

// Of all PEs, and of those from the second on.
static void old_forms(size_t count) {
  for (int first = 0; first < 2 && first < pe_count; first++) {
    int const members = pe_count - first, turn = first * 2;
    long *const words = sync_words[turn], *const other = sync_words[turn + 1];
    subject = "old fcollect";
    give(count);
    if (me >= first)
      shmem_fcollect64(target, source, count, first, 0, members, words);
    take();
    for (size_t i = 0; me >= first && i < count * (size_t)members; i++) {
      REQUIRE(seen[i] == value(first + (int)(i / count), i % count));
    }
    leave();
    subject = "old sum";
    give(count);
    if (me >= first)
      shmem_long_sum_to_all(target, source, (int)count, first, 0, members, work, other);
    take();
    for (size_t i = 0; me >= first && i < count; i++) {
      long sum = 0;
      for (int pe = first; pe < pe_count; pe++)
        sum += value(pe, i);
      REQUIRE(seen[i] == sum);
    }
    leave();
    subject = "old broadcast";
    give(count);
    if (me >= first)
      shmem_broadcast64(target, source, count, 0, first, 0, members, words);
    take();
    for (size_t i = 0; me > first && i < count; i++)
      REQUIRE(seen[i] == value(first, i));
    leave();
    subject = "old alltoall";
    give(count * (size_t)members);
    if (me >= first)
      shmem_alltoall64(target, source, count, first, 0, members, other);
    take();
    for (size_t i = 0; me >= first && i < count * (size_t)members; i++) {
      REQUIRE(seen[i] == value(first + (int)(i / count), (size_t)(me - first) * count + i % count));
    }
    leave();
    if (me >= first)
      shmem_barrier(first, 0, members, words);
    leave();
  }
}

int main(void) {
  start_device("host_collectives");
  host_target = symmetric(SIZE);
  host_source = symmetric(SIZE);
  device_target = symmetric_device(SIZE);
  device_source = symmetric_device(SIZE);
  seen = allocate(SIZE);
  size_t const counts[] = {1, 100, LARGE};
  for (int mix = 0; mix < 4; mix++) {
    target = mix & 1 ? device_target : host_target;
    source = mix & 2 ? device_source : host_source;
    for (int i = 0; i < 3; i++) {
      moves(SHMEM_TEAM_WORLD, counts[i]);
      reductions(SHMEM_TEAM_WORLD, counts[i]);
    }
    moves(SHMEM_DEVICE_TEAM_WORLD, 50);
    reductions(SHMEM_DEVICE_TEAM_SHARED, 2000);
    old_forms(40);
    old_forms(3000);
  }
  return finish();
}
