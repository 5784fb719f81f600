/* Random operations of all ranks on the memory of all, compared with a model of each rank's own
 * memory. Operations of a phase commute. So the result depends only on the seed and the rank count,
 * wherever memory is and in whichever order ranks run. Rank 0 prints a checksum. Usage:
 * random_operations SEED MEGABYTES PHASES. TEST_DIES="1 9": rank 1 gets signal 9 after a second.
 * TEST_LAUNCHER_DIES: the launcher gets a signal at that time. TEST_FILE_SIZE: limits the size of
 * files from the start on. */
#include <signal.h>
#include <stdint.h>
#include <sys/resource.h>
#include <unistd.h>

#include "check.h"

enum { OPERATIONS = 40, BLOCK_MAX = 3000, MUTEXES = 5, LOCAL_PAGE = 512, PIECES = 4 };

static uint64_t seed;
static long words;       /* of each rank's memory, in five regions */
static int64_t **places; /* by rank */
static int64_t *model;   /* of this rank's memory */

typedef struct {
  uint64_t state;
} stream;

static uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}
static stream stream_of(uint64_t phase, uint64_t rank) {
  stream made = {mix(seed ^ mix(phase * 1000003 + rank))};
  return made;
}
static uint64_t next(stream *from) {
  return mix(from->state++);
}
static long below(stream *from, long limit) {
  return (long)(next(from) % (uint64_t)limit);
}

/* Regions, in words: puts, sums of integers, sums of doubles, values under mutexes and counters,
 * values that only owners write. */
static long begin_of(int region) {
  return words / 8 * (region == 0 ? 0 : region + 3);
}
static long size_of(int region) {
  return words / 8 * (region == 0 ? 4 : 1);
}

/* What one rank does in a phase, drawn from its stream. The same for the rank itself and for its
 * target. */
typedef struct {
  int kind, target, mutex, is_later;
  long place, stride, block, count; /* words: `count` blocks of `block`, `stride` apart */
  uint64_t value;
} operation;

enum { PUT, ADD_INTEGERS, ADD_DOUBLES, COUNT, GUARDED, KINDS };

static operation draw(stream *from, int phase, int origin) {
  operation made = {0};
  made.kind = (int)below(from, KINDS);
  made.target = (int)below(from, count);
  made.mutex = (int)below(from, MUTEXES);
  made.is_later = (int)below(from, 2);
  made.value = next(from);
  made.block = 1 + below(from, below(from, 4) == 0 ? BLOCK_MAX : 20);
  made.count = 1 + below(from, 12);
  made.stride = made.block + below(from, 700);
  long room = size_of(made.kind < COUNT ? made.kind : 3), first = 0;
  if (made.kind == PUT) { /* each rank has its own stripe */
    room /= count;
    first = room * ((origin + phase) % count);
  } else if (made.kind == COUNT || made.kind == GUARDED) {
    made.block = made.kind == COUNT ? 1 : made.block;
    made.count = 1;
    room /= MUTEXES + 1;
    first = room * (made.kind == COUNT ? MUTEXES : made.mutex);
  }
  if (made.block > room)
    made.block = room;
  while (made.count > 1 && (made.count - 1) * made.stride + made.block > room)
    made.count--;
  made.place = first + below(from, room - (made.count - 1) * made.stride - made.block + 1);
  made.place += begin_of(made.kind < COUNT ? made.kind : 3);
  return made;
}

static int64_t value_of(const operation *what, long i) {
  return (int64_t)(mix(what->value + (uint64_t)i) >> 20);
}
static double number_of(const operation *what, long i) {
  return (double)(mix(what->value + (uint64_t)i) % 1000);
}

static void fill(const operation *what, int64_t *into) {
  for (long i = 0; i < what->block * what->count; i++) {
    if (what->kind == ADD_DOUBLES)
      ((double *)into)[i] = number_of(what, i);
    else
      into[i] = value_of(what, i);
  }
}

static void act(const operation *what, int64_t *buffer, armci_hdl_t *handle) {
  int64_t *there = places[what->target] + what->place;
  int from[1] = {(int)(what->block * 8)}, to[1] = {(int)(what->stride * 8)},
      counts[2] = {(int)(what->block * 8), (int)what->count};
  long one = 1;
  double half = 0.5;
  fill(what, buffer);
  switch (what->kind) {
    case PUT:
      if (handle != NULL)
        CHECK(ARMCI_NbPutS(buffer, from, there, to, counts, 1, what->target, handle) == 0, "put");
      else
        CHECK(ARMCI_PutS(buffer, from, there, to, counts, 1, what->target) == 0, "put");
      return;
    case ADD_INTEGERS:
      if (handle != NULL)
        CHECK(
            ARMCI_NbAccS(
                ARMCI_ACC_LNG, &one, buffer, from, there, to, counts, 1, what->target, handle) == 0,
            "add");
      else
        CHECK(
            ARMCI_AccS(ARMCI_ACC_LNG, &one, buffer, from, there, to, counts, 1, what->target) == 0,
            "add");
      return;
    case ADD_DOUBLES:
      CHECK(ARMCI_AccS(ARMCI_ACC_DBL, &half, buffer, from, there, to, counts, 1, what->target) == 0,
            "add");
      return;
    case COUNT: {
      long before = 0;
      CHECK(
          ARMCI_Rmw(
              ARMCI_FETCH_AND_ADD_LONG, &before, there, (int)(what->value % 1000), what->target) ==
              0,
          "count");
      return;
    }
    default: {
      int64_t *now = buffer + what->block;
      ARMCI_Lock(what->mutex, what->target);
      CHECK(ARMCI_Get(there, now, counts[0], what->target) == 0, "get");
      for (long i = 0; i < what->block; i++)
        now[i] += buffer[i];
      CHECK(ARMCI_Put(now, there, counts[0], what->target) == 0, "put");
      ARMCI_Unlock(what->mutex, what->target);
    }
  }
}

/* The same on the model of the target. */
static void replay(const operation *what) {
  for (long b = 0; b < what->count; b++) {
    for (long i = 0; i < what->block; i++) {
      int64_t *word = model + what->place + b * what->stride + i;
      long index = b * what->block + i;
      if (what->kind == PUT)
        *word = value_of(what, index);
      else if (what->kind == ADD_DOUBLES)
        *(double *)word += 0.5 * number_of(what, index);
      else if (what->kind == COUNT)
        *word += (int64_t)(what->value % 1000);
      else
        *word += value_of(what, index);
    }
  }
}

/* Overlapping puts of a rank are in order. Nonblocking puts of one batch go to separate parts of
 * the stripe. */
static void operate(int phase) {
  static int64_t buffers[4][2 * 12 * BLOCK_MAX];
  stream mine = stream_of((uint64_t)phase, (uint64_t)me);
  armci_hdl_t handles[4];
  int under_way = 0;
  for (int i = 0; i < OPERATIONS; i++) {
    operation what = draw(&mine, phase, me);
    int is_later = what.is_later && what.kind == ADD_INTEGERS;
    if (what.kind == PUT && under_way < 4 && what.is_later)
      is_later = 1;
    if (is_later) {
      ARMCI_INIT_HANDLE(&handles[under_way]);
      act(&what, buffers[under_way], &handles[under_way]);
      under_way++;
      if (what.kind == PUT || under_way == 4) {
        for (int j = 0; j < under_way; j++)
          ARMCI_Wait(&handles[j]);
        under_way = 0;
      }
      continue;
    }
    for (int j = 0; j < under_way; j++)
      ARMCI_Wait(&handles[j]);
    under_way = 0;
    act(&what, buffers[0], NULL);
    if (what.kind != PUT)
      continue;
    static int64_t back[12 * BLOCK_MAX];
    int from[1] = {(int)(what.stride * 8)}, to[1] = {(int)(what.block * 8)},
        counts[2] = {(int)(what.block * 8), (int)what.count};
    CHECK(ARMCI_GetS(places[what.target] + what.place, from, back, to, counts, 1, what.target) == 0,
          "get");
    CHECK(memcmp(back, buffers[0], (size_t)(what.block * what.count * 8)) == 0,
          "phase %d, operation %d: not what was put",
          phase,
          i);
  }
  for (int j = 0; j < under_way; j++)
    ARMCI_Wait(&handles[j]);
}

/* Owners write some pages of their last region themselves. The last phase in which a page was
 * written determines its content. */
static int is_written(int rank, int phase, long page) {
  return mix(seed + (uint64_t)page * 64 + (uint64_t)rank + ((uint64_t)phase << 40)) % 3 == 0;
}
static int64_t local_value(int rank, int phase, long place) {
  for (; phase >= 0; phase--) {
    if (is_written(rank, phase, place / LOCAL_PAGE))
      return (int64_t)mix((uint64_t)(place * 1000 + phase * 64 + rank));
  }
  return 0;
}
static void write_local(int phase) {
  int64_t *region = places[me] + begin_of(4);
  for (long i = 0; i < size_of(4); i++) {
    if (is_written(me, phase, i / LOCAL_PAGE))
      region[i] = local_value(me, phase, i);
  }
}
static void read_others(int phase) {
  stream mine = stream_of((uint64_t)phase + 777, (uint64_t)me);
  static int64_t seen[BLOCK_MAX];
  for (int i = 0; i < 10; i++) {
    int rank = (int)below(&mine, count);
    long size = 1 + below(&mine, BLOCK_MAX < size_of(4) ? BLOCK_MAX : size_of(4)),
         place = below(&mine, size_of(4) - size + 1);
    CHECK(ARMCI_Get(places[rank] + begin_of(4) + place, seen, (int)size * 8, rank) == 0, "get");
    for (long j = 0; j < size; j++) {
      CHECK(seen[j] == local_value(rank, phase, place + j),
            "phase %d: word %ld of rank %d",
            phase,
            place + j,
            rank);
    }
  }
}

static void check_model(int phase) {
  for (long i = 0; i < begin_of(4); i++) {
    CHECK(places[me][i] == model[i],
          "phase %d: word %ld is %ld, the model's %ld",
          phase,
          i,
          (long)places[me][i],
          (long)model[i]);
  }
}

/* Memory that the program allocates and frees itself. */
static struct {
  unsigned char *memory;
  size_t size;
  unsigned char mark;
} pieces[PIECES];

static void change_pieces(stream *mine) {
  for (int i = 0; i < PIECES; i++) {
    for (size_t j = 0; j < pieces[i].size; j += 97)
      CHECK(pieces[i].memory[j] == pieces[i].mark, "piece %d at %zu", i, j);
    size_t size = (size_t)(1 + below(mine, words / 8));
    int what = (int)below(mine, 4);
    if (what == 0) {
      free(pieces[i].memory);
      pieces[i].memory = calloc(size, 1);
      for (size_t j = 0; j < size; j++)
        CHECK(pieces[i].memory[j] == 0, "calloc at %zu", j);
    } else if (what == 1) {
      pieces[i].memory = realloc(pieces[i].memory, size);
      for (size_t j = 0; j < size && j < pieces[i].size; j += 97)
        CHECK(pieces[i].memory[j] == pieces[i].mark, "realloc at %zu", j);
    } else {
      continue;
    }
    pieces[i].size = size;
    pieces[i].mark = (unsigned char)below(mine, 256);
    memset(pieces[i].memory, pieces[i].mark, size);
  }
}

/* Messages of all sizes, in all kinds of memory. */
static void exchange(int phase, long *large, long large_count) {
  long sums[3] = {me, phase, 1};
  armci_msg_lgop(sums, 3, "+");
  CHECK(sums[0] == count * (count - 1) / 2 && sums[1] == (long)phase * count && sums[2] == count,
        "sums");
  for (long i = 0; i < large_count; i++)
    large[i] = i * me + phase;
  armci_msg_lgop(large, (int)large_count, "+");
  for (long i = 0; i < large_count; i += 31)
    CHECK(large[i] == i * count * (count - 1) / 2 + (long)phase * count, "sum %ld", i);
  for (long i = 0; i < large_count; i++)
    large[i] = me == phase % count ? i : -1;
  armci_msg_bcast(large, (int)(large_count * 8), phase % count);
  for (long i = 0; i < large_count; i += 31)
    CHECK(large[i] == i, "broadcast %ld", i);
  MPI_Barrier(MPI_COMM_WORLD);
  if (count == 1)
    return;
  for (long i = 0; i < large_count; i++)
    large[i] = me;
  int to = (me + 1) % count, from = (me + count - 1) % count;
  MPI_Request request;
  long *other = malloc((size_t)large_count * 8);
  MPI_Irecv(other, (int)large_count, MPI_LONG, from, 5, MPI_COMM_WORLD, &request);
  if (phase % 2)
    armci_msg_barrier(); /* while MPI uses our memory */
  MPI_Send(large, (int)large_count, MPI_LONG, to, 5, MPI_COMM_WORLD);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  for (long i = 0; i < large_count; i++)
    CHECK(other[i] == from, "message %ld", i);
  free(other);
}

static int deadly;

static void die(int ignored) {
  (void)ignored;
  raise(deadly);
}

static void end_launcher(int ignored) {
  (void)ignored;
  kill(getppid(), deadly);
}

static void prepare_to_die(void) {
  const char *who = getenv("TEST_DIES");
  int rank = -1;
  if (getenv("TEST_FILE_SIZE") != NULL) {
    struct rlimit limit = {(rlim_t)atol(getenv("TEST_FILE_SIZE")), RLIM_INFINITY};
    signal(SIGXFSZ, SIG_IGN);
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0, "limit");
  }
  if (getenv("TEST_LAUNCHER_DIES") != NULL && me == 0) {
    deadly = SIGTERM;
    signal(SIGALRM, end_launcher);
    alarm(1);
  }
  if (who == NULL || sscanf(who, "%d %d", &rank, &deadly) != 2 || rank != me)
    return;
  signal(SIGALRM, die);
  alarm(1);
}

int main(int argc, char **argv) {
  begin(&argc, &argv);
  prepare_to_die();
  CHECK(argc == 4, "usage: random_operations SEED MEGABYTES PHASES");
  seed = (uint64_t)atol(argv[1]);
  words = atol(argv[2]) * 131072;
  int phases = atoi(argv[3]);
  places = malloc((size_t)count * sizeof *places);
  model = calloc((size_t)words, 8);
  long large_count = words / 16, *large = malloc((size_t)large_count * 8);
  CHECK(ARMCI_Malloc((void **)places, words * 8) == 0 && model != NULL && large != NULL, "memory");
  memset(places[me], 0, (size_t)words * 8);
  CHECK(ARMCI_Create_mutexes(MUTEXES) == 0, "mutexes");
  ARMCI_Group even = make_even_group();
  members evens = even_members();
  ARMCI_Barrier();
  for (int phase = 0; phase < phases; phase++) {
    stream mine = stream_of((uint64_t)phase + 5555, (uint64_t)me);
    write_local(phase);
    operate(phase);
    if (phase % 3 == 1 && is_member(&evens, me))
      armci_msg_group_barrier(&even);
    ARMCI_AllFence();
    ARMCI_Barrier();
    for (int origin = 0; origin < count; origin++) {
      stream theirs = stream_of((uint64_t)phase, (uint64_t)origin);
      for (int i = 0; i < OPERATIONS; i++) {
        operation what = draw(&theirs, phase, origin);
        if (what.target == me)
          replay(&what);
      }
    }
    read_others(phase);
    change_pieces(&mine);
    if (phase % 2 == 1)
      check_model(phase);
    exchange(phase, large, large_count);
    ARMCI_Barrier();
  }
  check_model(phases);
  long sum = 0;
  for (long i = 0; i < words; i++)
    sum += (long)(mix((uint64_t)places[me][i] + (uint64_t)i * 64 + (uint64_t)me) >> 8);
  armci_msg_lgop(&sum, 1, "+");
  if (me == 0)
    printf("sum %lx\n", (unsigned long)sum);
  CHECK(ARMCI_Destroy_mutexes() == 0 && ARMCI_Free(places[me]) == 0, "free");
  int code = end();
  for (int i = 0; i < PIECES; i++) { /* the program's memory outlives ARMCI */
    for (size_t j = 0; j < pieces[i].size; j += 97)
      CHECK(pieces[i].memory[j] == pieces[i].mark, "piece %d at %zu in the end", i, j);
    free(pieces[i].memory);
  }
  free(model);
  free(large);
  free(places);
  return code;
}
