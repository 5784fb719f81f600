/* A large message whose buffers may be swapped out. Arguments: mebibytes of the message; mebibytes
 * of each rank's other memory; how it is received (blocking; started; derived: with a derived
 * datatype; armci: through a call of message.h). */
#include <comex.h>
#include <stdint.h>

#include "check.h"

static uint64_t *words, *beside;
static size_t count_of, count_beside;

static void fill(uint64_t *from, size_t number, uint64_t seed) {
  for (size_t i = 0; i < number; i++)
    from[i] = i * 31 + seed;
}

static void check(const uint64_t *from, size_t number, uint64_t seed) {
  for (size_t i = 0; i < number; i++)
    CHECK(from[i] == i * 31 + seed, "word %zu", i);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  MPI_Comm_size(MPI_COMM_WORLD, &count);
  CHECK(argc == 4, "words: mebibytes of the message, beside it, how");
  ARMCI_Init();
  count_of = ((size_t)atoi(argv[1]) << 20) / sizeof *words;
  count_beside = ((size_t)atoi(argv[2]) << 20) / sizeof *words;
  beside = malloc(count_beside * sizeof *words + 1);
  CHECK(beside != NULL, "no memory beside");
  fill(beside, count_beside, (uint64_t)me);
  words = malloc(count_of * sizeof *words);
  CHECK(words != NULL, "no memory for the message");
  fill(words, count_of, (uint64_t)me);
  comex_barrier(COMEX_GROUP_WORLD);
  int const is_armci = strcmp(argv[3], "armci") == 0;
  int const is_started = strcmp(argv[3], "started") == 0;
  MPI_Datatype type;
  MPI_Type_contiguous((int)count_of, MPI_UINT64_T, &type);
  MPI_Type_commit(&type);
  int const is_derived = strcmp(argv[3], "derived") == 0;
  MPI_Datatype const kind = is_derived ? type : MPI_UINT64_T;
  int const number = is_derived ? 1 : (int)count_of;
  if (me == 0 && is_started) {
    MPI_Request request;
    MPI_Irecv(words, number, kind, 1, 7, MPI_COMM_WORLD, &request);
    comex_barrier(COMEX_GROUP_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  } else {
    comex_barrier(COMEX_GROUP_WORLD);
    if (me == 0 && !is_armci)
      MPI_Recv(words, number, kind, 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  if (is_armci && me == 0)
    armci_msg_rcv(7, words, (int)(count_of * sizeof *words), NULL, 1);
  if (me == 1)
    fill(words, count_of, 77);
  if (is_armci && me == 1)
    armci_msg_snd(7, words, (int)(count_of * sizeof *words), 0);
  if (!is_armci && me == 1)
    MPI_Send(words, number, kind, 0, 7, MPI_COMM_WORLD);
  comex_barrier(COMEX_GROUP_WORLD);
  check(words, count_of, me < 2 ? 77 : (uint64_t)me);
  check(beside, count_beside, (uint64_t)me);
  comex_barrier(COMEX_GROUP_WORLD);
  MPI_Type_free(&type);
  free(words);
  free(beside);
  ARMCI_Finalize();
  MPI_Finalize();
  if (me == 0)
    printf("passed\n");
  return 0;
}
