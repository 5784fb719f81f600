/* Strided transfers of random shapes compared with plain loops; vectors, values, flags, atomics and
 * mutexes. */
#include <sched.h>

#include "check.h"
#include "iterator.h"

enum { BYTES = 1 << 16, SHAPES = 400 };
static void *places[64];
static unsigned seed;

static int random_below(int limit) {
  seed = seed * 1664525u + 1013904223u;
  return (int)((seed >> 8) % (unsigned)limit);
}

typedef struct {
  int source[3], target[3], count[4], levels;
} shape;

/* Up to three strides; often without gaps, with a dimension of 1, or empty. */
static shape random_shape(void) {
  shape made;
  int source = 8 * (1 + random_below(12)), target = source;
  made.levels = random_below(4);
  made.count[0] = source;
  for (int i = 0; i < made.levels; i++) {
    source += 8 * (random_below(3) == 0 ? random_below(5) : 0);
    target += 8 * (random_below(3) == 0 ? random_below(5) : 0);
    made.source[i] = source;
    made.target[i] = target;
    made.count[i + 1] = random_below(12) == 0 ? 0 : 1 + random_below(4);
    source *= made.count[i + 1] > 0 ? made.count[i + 1] : 1;
    target *= made.count[i + 1] > 0 ? made.count[i + 1] : 1;
  }
  return made;
}

enum { PUT, GET, ADD };

/* The effect of a transfer, in plain loops. */
static void reference(int kind, const shape *what, const char *source, char *target, double scale) {
  int counts[4] = {1, 1, 1, 1};
  for (int i = 0; i <= what->levels; i++)
    counts[i] = what->count[i];
  for (int c = 0; c < counts[3]; c++) {
    for (int b = 0; b < counts[2]; b++) {
      for (int a = 0; a < counts[1]; a++) {
        int index[3] = {a, b, c};
        long from = 0, to = 0;
        for (int i = 0; i < what->levels; i++) {
          from += (long)index[i] * what->source[i];
          to += (long)index[i] * what->target[i];
        }
        for (int k = 0; k < counts[0]; k += 8) {
          double x, y;
          memcpy(&x, source + from + k, 8);
          memcpy(&y, target + to + k, 8);
          if (kind == ADD)
            x = y + scale * x;
          memcpy(target + to + k, &x, 8);
        }
      }
    }
  }
}

static void fill(char *place, int salt) {
  for (int i = 0; i < BYTES / 8; i++) {
    double value = i % 251 + salt;
    memcpy(place + 8 * i, &value, 8);
  }
}

static int transfer(
    int kind, int is_blocking, shape *what, void *source, void *target, double *scale, int rank) {
  armci_hdl_t handle;
  ARMCI_INIT_HANDLE(&handle);
  int status = 0;
  if (is_blocking && kind == PUT)
    return ARMCI_PutS(source, what->source, target, what->target, what->count, what->levels, rank);
  if (is_blocking && kind == GET)
    return ARMCI_GetS(source, what->source, target, what->target, what->count, what->levels, rank);
  if (is_blocking) {
    return ARMCI_AccS(ARMCI_ACC_DBL,
                      scale,
                      source,
                      what->source,
                      target,
                      what->target,
                      what->count,
                      what->levels,
                      rank);
  }
  if (kind == PUT)
    status = ARMCI_NbPutS(
        source, what->source, target, what->target, what->count, what->levels, rank, &handle);
  if (kind == GET)
    status = ARMCI_NbGetS(
        source, what->source, target, what->target, what->count, what->levels, rank, &handle);
  if (kind == ADD) {
    status = ARMCI_NbAccS(ARMCI_ACC_DBL,
                          scale,
                          source,
                          what->source,
                          target,
                          what->target,
                          what->count,
                          what->levels,
                          rank,
                          &handle);
  }
  return status != 0 ? status : ARMCI_Wait(&handle);
}

/* Each rank works on the memory of the next one. */
static void strided(void) {
  char *mine = malloc(BYTES), *wanted = malloc(BYTES), *seen = malloc(BYTES);
  int rank = (me + 1) % count;
  for (int i = 0; i < SHAPES; i++) {
    shape what = random_shape();
    int kind = i % 3, is_blocking = i / 3 % 2;
    double scale = i % 5 - 2;
    fill(mine, 1 + i);
    fill(wanted, 1000 + i);
    CHECK(ARMCI_Put(wanted, places[rank], BYTES, rank) == 0, "put");
    ARMCI_Fence(rank);
    if (kind == GET) {
      memcpy(seen, mine, BYTES);
      reference(kind, &what, wanted, mine, 1);
      CHECK(
          transfer(kind, is_blocking, &what, places[rank], seen, &scale, rank) == 0, "shape %d", i);
      CHECK(memcmp(mine, seen, BYTES) == 0, "shape %d", i);
    } else {
      reference(kind, &what, mine, wanted, scale);
      CHECK(
          transfer(kind, is_blocking, &what, mine, places[rank], &scale, rank) == 0, "shape %d", i);
      ARMCI_Fence(rank);
      CHECK(ARMCI_Get(places[rank], seen, BYTES, rank) == 0, "get");
      CHECK(memcmp(wanted, seen, BYTES) == 0, "shape %d of kind %d", i, kind);
    }
  }
  armci_msg_barrier();
  free(mine);
  free(wanted);
  free(seen);
}

static void vectors(void) {
  enum { PIECES = 20 };
  int rank = (me + 1) % count, values[PIECES], back[PIECES], scale = 3;
  void *here[PIECES], *there[PIECES], *back_here[PIECES];
  armci_hdl_t handle;
  for (int i = 0; i < PIECES; i++) {
    values[i] = i * i + me;
    here[i] = &values[i];
    there[i] = (char *)places[rank] + 64 * ((i * 7) % PIECES);
    back_here[i] = &back[i];
  }
  armci_giov_t out = {here, there, PIECES, sizeof(int)},
               in = {there, back_here, PIECES, sizeof(int)};
  CHECK(ARMCI_PutV(&out, 1, rank) == 0, "put");
  ARMCI_Fence(rank);
  CHECK(ARMCI_AccV(ARMCI_ACC_INT, &scale, &out, 1, rank) == 0, "acc");
  ARMCI_Fence(rank);
  CHECK(ARMCI_NbGetV(&in, 1, rank, &handle) == 0 && ARMCI_Wait(&handle) == 0, "get");
  for (int i = 0; i < PIECES; i++)
    CHECK(back[i] == 4 * values[i], "%d: %d", i, back[i]);
  armci_msg_barrier();
}

static void values(void) {
  int rank = (me + 1) % count;
  char *place = places[rank];
  armci_hdl_t handle;
  CHECK(ARMCI_PutValueInt(me - 5, place, rank) == 0 &&
            ARMCI_PutValueLong(me * 10000000000L, place + 8, rank) == 0,
        "put");
  CHECK(ARMCI_PutValueFloat(0.5f * (float)me, place + 16, rank) == 0, "put");
  CHECK(ARMCI_PutValueDouble(0.25 * me, place + 24, rank) == 0, "put");
  CHECK(
      ARMCI_NbPutValueDouble(1.25 * me, place + 32, rank, &handle) == 0 && ARMCI_Wait(&handle) == 0,
      "start");
  CHECK(ARMCI_NbPutValueInt(7 * me, place + 40, rank, &handle) == 0, "start");
  while (ARMCI_Test(&handle) != 0)
    continue;
  ARMCI_Fence(rank);
  CHECK(ARMCI_GetValueInt(place, rank) == me - 5 &&
            ARMCI_GetValueLong(place + 8, rank) == me * 10000000000L,
        "get");
  CHECK(ARMCI_GetValueFloat(place + 16, rank) == 0.5f * (float)me &&
            ARMCI_GetValueDouble(place + 24, rank) == 0.25 * me,
        "get");
  CHECK(ARMCI_GetValueDouble(place + 32, rank) == 1.25 * me &&
            ARMCI_GetValueInt(place + 40, rank) == 7 * me,
        "get");
  CHECK(ARMCI_WaitProc(rank) == 0 && ARMCI_WaitAll() == 0, "wait");
  armci_msg_barrier();
}

/* A rank that sees the flag must see the data. The first int of each rank's memory is its flag. */
static void flags(void) {
  int rank = (me + 1) % count, lines[32][32], stride = sizeof lines[0],
      counts[2] = {16 * sizeof(int), 32};
  volatile int *flag = places[me];
  int *there = (int *)places[rank] + 1;
  *flag = 0;
  armci_msg_barrier();
  for (int round = 1; round <= 30; round++) {
    for (int i = 0; i < 32 * 32; i++)
      lines[i / 32][i % 32] = round;
    int status =
        round % 3 == 0 ? ARMCI_Put_flag(lines, there, sizeof lines, places[rank], round, rank)
        : round % 3 == 1
            ? ARMCI_PutS_flag(lines, &stride, there, &stride, counts, 1, places[rank], round, rank)
            : ARMCI_PutS_flag_dir(
                  lines, &stride, there, &stride, counts, 1, places[rank], round, rank);
    CHECK(status == 0, "round %d", round);
    while (*flag != round)
      sched_yield(); /* the flag must arrive without library calls */
    volatile int *data = (volatile int *)places[me] + 1;
    for (int i = 0; i < 16; i++)
      CHECK(data[31 * 32 + i] == round, "%d in round %d", data[31 * 32 + i], round);
    armci_msg_barrier();
  }
}

static void atomics(void) {
  enum { TIMES = 200 };
  long *counter = places[0], sum = 0;
  int swapped = 42, *small = (int *)places[count - 1] + 100;
  if (me == 0)
    *counter = 0;
  if (me == count - 1)
    *small = 17;
  armci_msg_barrier();
  for (int i = 0; i < TIMES; i++) {
    long old = -1;
    CHECK(ARMCI_Rmw(ARMCI_FETCH_AND_ADD_LONG, &old, counter, 2, 0) == 0 && old >= 0 && old % 2 == 0,
          "%ld",
          old);
    sum += old;
  }
  armci_msg_lgop(&sum, 1, "+");
  long all = (long)TIMES * count;
  CHECK(sum == all * (all - 1), "%ld", sum);
  if (me == 0)
    CHECK(
        ARMCI_Rmw(ARMCI_SWAP, &swapped, small, 0, count - 1) == 0 && swapped == 17, "%d", swapped);
  armci_msg_barrier();
  CHECK(ARMCI_GetValueInt(small, count - 1) == 42, "swapped");
  CHECK(ARMCI_Create_mutexes(me == 0 ? 2 : 0) == 0, "mutexes");
  if (me == 0)
    *counter = 0;
  armci_msg_barrier();
  for (int i = 0; i < TIMES / 4; i++) {
    ARMCI_Lock(1, 0);
    long value = ARMCI_GetValueLong(counter, 0);
    ARMCI_PutValueLong(value + 1, counter, 0);
    ARMCI_Fence(0);
    ARMCI_Unlock(1, 0);
  }
  armci_msg_barrier();
  CHECK(ARMCI_GetValueLong(counter, 0) == (long)TIMES / 4 * count,
        "%ld",
        ARMCI_GetValueLong(counter, 0));
  armci_msg_barrier();
  CHECK(ARMCI_Destroy_mutexes() == 0, "mutexes");
}

static void gathered(void) {
  char memory[10][10], packed[12], want[13] = "222324323334";
  int stride = 10, counts[2] = {3, 2}, pieces = 0;
  stride_info_t iterator;
  memset(memory, '.', sizeof memory);
  for (int i = 0; i < 3; i++) {
    memcpy(memory[2] + 2 * i, want + 2 * i, 2);
    memcpy(memory[3] + 2 * i, want + 6 + 2 * i, 2);
  }
  armci_write_strided(memory[2], 1, &stride, counts, packed);
  CHECK(memcmp(packed, "222323", 3) == 0 && memcmp(packed + 3, "323", 3) == 0, "%.6s", packed);
  memset(packed, 'x', 6);
  armci_read_strided(memory[2], 1, &stride, counts, packed);
  CHECK(memcmp(memory[2], "xxx", 3) == 0 && memcmp(memory[3], "xxx3", 4) == 0, "%.4s", memory[3]);
  armci_stride_info_init(&iterator, memory, 1, &stride, counts);
  CHECK(armci_stride_info_size(&iterator) == 2 && armci_stride_info_count(&iterator) == 2, "size");
  for (; armci_stride_info_has_more(&iterator); armci_stride_info_next(&iterator), pieces++) {
    CHECK(armci_stride_info_pos(&iterator) == pieces && armci_stride_info_seg_size(&iterator) == 3,
          "piece %d",
          pieces);
    CHECK(armci_stride_info_seg_off(&iterator) == 10 * pieces &&
              armci_stride_info_seg_ptr(&iterator) == memory[pieces],
          "piece");
  }
  CHECK(pieces == 2, "%d", pieces);
  armci_stride_info_destroy(&iterator);
}

static void own_memory(void) {
  armci_meminfo_t information;
  ARMCI_Memget(1000, &information, 0);
  CHECK(information.cpid == me && information.size == 1000 &&
            ARMCI_Memat(&information, 10) == information.addr + 10,
        "memory");
  memset(information.addr, 1, 1000);
  ARMCI_Memdt(&information, 0);
  ARMCI_Memctl(&information);
  CHECK(information.addr == NULL && information.armci_addr == NULL, "freed");
  void *local = ARMCI_Malloc_local(100);
  CHECK(local != NULL && ARMCI_Free_local(local) == 0, "local");
}

/* Device memory of a group; its content is not accessed here. */
static int on_devices(void) {
  int ranks[2] = {0, count - 1}, is_member = me == 0 || me == count - 1;
  ARMCI_Group group;
  CHECK(ARMCI_Malloc_memdev(places, BYTES, "gpu") == 0, "memory");
  armci_msg_barrier();
  strided();
  vectors();
  values();
  CHECK(ARMCI_Free_memdev(places[me]) == 0, "free");
  if (count == 1)
    return end();
  ARMCI_Group_create(2, ranks, &group);
  if (is_member) {
    void *theirs[2];
    CHECK(ARMCI_Malloc_group_memdev(theirs, me == 0 ? 0 : 800, &group, "gpu") == 0,
          "memory of a group");
    CHECK(theirs[0] == NULL && theirs[1] != NULL, "%p, %p", theirs[0], theirs[1]);
    if (me == 0) {
      double value = 2.5;
      CHECK(ARMCI_Put(&value, (char *)theirs[1] + 792, 8, count - 1) == 0, "put");
      CHECK(ARMCI_GetValueDouble((char *)theirs[1] + 792, count - 1) == 2.5, "get");
    }
    CHECK(ARMCI_Free_group(theirs[me != 0], &group) == 0, "free");
    ARMCI_Group_free(&group);
  }
  return end();
}

/* With "gpu": in device memory. */
int main(int argc, char **argv) {
  begin(&argc, &argv);
  seed = (unsigned)me + 1;
  if (argc > 1 && strcmp(argv[1], "gpu") == 0)
    return on_devices();
  CHECK(ARMCI_Malloc(places, BYTES) == 0, "memory");
  armci_msg_barrier();
  strided();
  vectors();
  values();
  flags();
  atomics();
  gathered();
  own_memory();
  CHECK(ARMCI_Free(places[me]) == 0, "free");
  return end();
}
