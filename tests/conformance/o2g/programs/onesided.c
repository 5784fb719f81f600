// One-sided operations: put, get, accumulate, fetch_and_op, compare_and_swap; fences, locks, post
// and start.
#include "check.h"

enum { COUNT = 5000 };

static int rank, ranks;

static void fence_put_get(MPI_Win window, int *memory) {
  int *const mine = allocate(sizeof(int) * COUNT);
  int const right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
  for (int i = 0; i < COUNT; i++)
    mine[i] = rank * COUNT + i;
  MPI_Win_fence(0, window);
  MPI_Put(mine, COUNT, MPI_INT, right, 0, COUNT, MPI_INT, window);
  MPI_Win_fence(0, window);
  for (int i = 0; i < COUNT; i++)
    REQUIRE(memory[i] == left * COUNT + i);
  MPI_Get(mine, COUNT, MPI_INT, right, 0, COUNT, MPI_INT, window);
  MPI_Win_fence(0, window);
  for (int i = 0; i < COUNT; i++)
    REQUIRE(mine[i] == rank * COUNT + i);
  MPI_Win_fence(0, window);
  free(mine);
}

// Rank 0's memory is changed by all at once.
static void accumulate(MPI_Win window, int *memory) {
  int *const ones = allocate(sizeof(int) * COUNT);
  for (int i = 0; i < COUNT; i++) {
    ones[i] = i + rank;
    memory[i] = 0;
  }
  MPI_Win_fence(0, window);
  for (int round = 0; round < 3; round++)
    MPI_Accumulate(ones, COUNT, MPI_INT, 0, 0, COUNT, MPI_INT, MPI_SUM, window);
  MPI_Win_fence(0, window);
  for (int i = 0; i < COUNT && rank == 0; i++)
    REQUIRE(memory[i] == 3 * (ranks * i + ranks * (ranks - 1) / 2));
  MPI_Win_fence(0, window);
  free(ones);
}

static void counters(MPI_Win window, int *memory) {
  enum { ROUNDS = 200 };
  memory[0] = 0;
  memory[1] = 0;
  MPI_Barrier(MPI_COMM_WORLD);
  int const one = 1;
  int last = -1, before = 0;
  MPI_Win_lock_all(0, window);
  for (int i = 0; i < ROUNDS; i++) {
    MPI_Fetch_and_op(&one, &before, MPI_INT, 0, 0, MPI_SUM, window);
    MPI_Win_flush(0, window);
    REQUIRE(before > last && before < ROUNDS * ranks);
    last = before;
  }
  // A lock of compare and swap: the word goes from 0 to a rank's number and back.
  int const free_word = 0, mine = rank + 1;
  for (int i = 0; i < 20; i++) {
    int found = -1;
    do {
      MPI_Compare_and_swap(&mine, &free_word, &found, MPI_INT, 0, 1, window);
      MPI_Win_flush(0, window);
    } while (found != free_word);
    MPI_Fetch_and_op(&free_word, &found, MPI_INT, 0, 1, MPI_REPLACE, window);
    MPI_Win_flush(0, window);
    REQUIRE(found == mine);
  }
  MPI_Win_unlock_all(window);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
  MPI_Get(&before, 1, MPI_INT, 0, 0, 1, MPI_INT, window);
  MPI_Win_unlock(0, window);
  REQUIRE(before == ROUNDS * ranks);
}

// An exclusive lock around a read and a write that are not atomic together.
static void exclusive(MPI_Win window, int *memory) {
  memory[2] = 0;
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; i < 20; i++) {
    int value = 0;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
    MPI_Get(&value, 1, MPI_INT, 0, 2, 1, MPI_INT, window);
    MPI_Win_flush(0, window);
    value++;
    MPI_Put(&value, 1, MPI_INT, 0, 2, 1, MPI_INT, window);
    MPI_Win_unlock(0, window);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, window);
  if (rank == 0)
    REQUIRE(memory[2] == 20 * ranks);
  MPI_Win_unlock(rank, window);
}

static void post_start(MPI_Win window, int *memory) {
  MPI_Group world, other;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  int const right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
  MPI_Group_incl(world, 1, &left, &other);
  MPI_Win_post(other, 0, window);
  MPI_Group_free(&other);
  MPI_Group_incl(world, 1, &right, &other);
  MPI_Win_start(other, 0, window);
  MPI_Group_free(&other);
  int const given = 100 + rank;
  MPI_Put(&given, 1, MPI_INT, right, 3, 1, MPI_INT, window);
  MPI_Win_complete(window);
  MPI_Win_wait(window);
  REQUIRE(memory[3] == 100 + left);
  MPI_Group_free(&world);
}

int main(int count, char **words) {
  MPI_Init(&count, &words);
  rank = own_rank();
  ranks = rank_count();
  void (*const kinds[])(MPI_Win, int *) = {
      fence_put_get, accumulate, counters, exclusive, post_start};
  for (int allocated = 0; allocated < 2; allocated++) {
    MPI_Win window;
    int *memory = NULL, *own = NULL;
    if (allocated) {
      MPI_Win_allocate(
          sizeof(int) * COUNT, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    } else {
      memory = allocate(sizeof(int) * COUNT);
      own = memory;
      MPI_Win_create(
          memory, sizeof(int) * COUNT, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    }
    for (int kind = 0; kind < 5; kind++) {
      kinds[kind](window, memory);
      MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Win_free(&window);
    free(own);
  }
  MPI_Finalize();
}
