/* Large messages between two ranks whose buffers may be swapped out, with each of MPI's ways to
 * send, to receive and to complete a request. Arguments: mebibytes of a buffer; mebibytes of the
 * rank's other memory. */
#include <comex.h>
#include <stdint.h>

#include "check.h"

enum { TAG = 7 };

static uint64_t *sent, *received, *beside;
static size_t words, words_beside;
static int other;
static uint64_t round_number;

static uint64_t word_of(int rank, size_t i) {
  return i * 31 + (uint64_t)rank * 1000 + round_number;
}

static void begin_round(void) {
  round_number++;
  for (size_t i = 0; i < words; i++) {
    sent[i] = word_of(me, i);
    received[i] = ~word_of(me, i);
  }
  comex_barrier(COMEX_GROUP_WORLD);
}

/* The first `number` words were received; the others are those of begin_round(). */
static void check_round(size_t number) {
  for (size_t i = 0; i < words; i++) {
    CHECK(received[i] == (i < number ? word_of(other, i) : ~word_of(me, i)),
          "round %d, word %zu",
          (int)round_number,
          i);
    CHECK(sent[i] == word_of(me, i), "round %d, word %zu that was sent", (int)round_number, i);
  }
}

static void start(MPI_Request requests[2]) {
  MPI_Irecv(received, (int)words, MPI_UINT64_T, other, TAG, MPI_COMM_WORLD, &requests[0]);
  MPI_Issend(sent, (int)words, MPI_UINT64_T, other, TAG, MPI_COMM_WORLD, &requests[1]);
}

static void by_waits(void) {
  MPI_Request requests[2];
  begin_round();
  start(requests);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  check_round(words);
  begin_round();
  start(requests);
  for (int i = 0, index; i < 2; i++)
    MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE);
  check_round(words);
  begin_round();
  start(requests);
  for (int over = 0, some, indices[2]; over < 2; over += some)
    MPI_Waitsome(2, requests, &some, indices, MPI_STATUSES_IGNORE);
  check_round(words);
}

static void by_tests(void) {
  MPI_Request requests[2];
  begin_round();
  start(requests);
  for (int is_over = 0; !is_over;)
    MPI_Testall(2, requests, &is_over, MPI_STATUSES_IGNORE);
  check_round(words);
  begin_round();
  start(requests);
  for (int i = 0; i < 2; i++) {
    for (int is_over = 0; !is_over;)
      MPI_Test(&requests[i], &is_over, MPI_STATUS_IGNORE);
  }
  check_round(words);
}

static void by_blocking_calls(void) {
  begin_round();
  MPI_Sendrecv(sent,
               (int)words,
               MPI_UINT64_T,
               other,
               TAG,
               received,
               (int)words,
               MPI_UINT64_T,
               other,
               TAG,
               MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  check_round(words);
  begin_round();
  MPI_Request request;
  MPI_Isend(sent, (int)words, MPI_UINT64_T, other, TAG, MPI_COMM_WORLD, &request);
  MPI_Message message;
  MPI_Mprobe(other, TAG, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
  MPI_Mrecv(received, (int)words, MPI_UINT64_T, &message, MPI_STATUS_IGNORE);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  check_round(words);
}

/* A message shorter than its buffer leaves the rest unchanged. */
static void short_messages(void) {
  size_t const few = words / 3;
  MPI_Request requests[2];
  MPI_Status about;
  int number = 0;
  begin_round();
  MPI_Irecv(received, (int)words, MPI_UINT64_T, other, TAG, MPI_COMM_WORLD, &requests[0]);
  MPI_Isend(sent, (int)few, MPI_UINT64_T, other, TAG, MPI_COMM_WORLD, &requests[1]);
  MPI_Wait(&requests[0], &about);
  MPI_Get_count(&about, MPI_UINT64_T, &number);
  CHECK((size_t)number == few, "%d words", number);
  MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
  check_round(few);
}

/* Data that a program writes after it knows that a message has arrived must survive. */
static void looks_at_requests(void) {
  MPI_Request requests[2];
  begin_round();
  start(requests);
  for (int is_over = 0; !is_over;)
    MPI_Request_get_status(requests[0], &is_over, MPI_STATUS_IGNORE);
  check_round(words);
  received[1] = 5;
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  CHECK(received[1] == 5, "%llu", (unsigned long long)received[1]);
}

/* A freed request completes at some time, without a call that names it. */
static void frees_requests(void) {
  MPI_Request requests[2];
  begin_round();
  start(requests);
  MPI_Request_free(&requests[0]);
  CHECK(requests[0] == MPI_REQUEST_NULL, "the handle stays");
  MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
  for (int is_there; *(volatile uint64_t *)&received[words - 1] != word_of(other, words - 1);)
    MPI_Iprobe(other, TAG + 1, MPI_COMM_WORLD, &is_there, MPI_STATUS_IGNORE);
  check_round(words);
}

static void cancels_requests(void) {
  MPI_Request request;
  MPI_Status about;
  int is_cancelled = 0;
  begin_round();
  MPI_Irecv(received, (int)words, MPI_UINT64_T, other, TAG + 1, MPI_COMM_WORLD, &request);
  MPI_Cancel(&request);
  MPI_Wait(&request, &about);
  MPI_Test_cancelled(&about, &is_cancelled);
  CHECK(is_cancelled, "it was received");
  check_round(0);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  MPI_Comm_size(MPI_COMM_WORLD, &count);
  CHECK(argc == 3 && count == 2, "words: mebibytes of a buffer, beside; two ranks");
  other = 1 - me;
  comex_init();
  words = ((size_t)atoi(argv[1]) << 20) / sizeof *sent;
  words_beside = ((size_t)atoi(argv[2]) << 20) / sizeof *sent;
  sent = malloc(words * sizeof *sent);
  received = malloc(words * sizeof *received);
  beside = malloc(words_beside * sizeof *beside);
  CHECK(sent != NULL && received != NULL && beside != NULL, "no memory");
  for (size_t i = 0; i < words_beside; i++)
    beside[i] = i ^ (uint64_t)me;
  by_waits();
  by_tests();
  by_blocking_calls();
  short_messages();
  looks_at_requests();
  frees_requests();
  cancels_requests();
  comex_barrier(COMEX_GROUP_WORLD);
  for (size_t i = 0; i < words_beside; i++)
    CHECK(beside[i] == (i ^ (uint64_t)me), "word %zu beside", i);
  comex_barrier(COMEX_GROUP_WORLD);
  free(sent);
  free(received);
  free(beside);
  comex_finalize();
  MPI_Finalize();
  if (me == 0)
    printf("passed\n");
  return 0;
}
