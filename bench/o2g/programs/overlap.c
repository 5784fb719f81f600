// usage: overlap SIZE SECONDS ROUNDS. Measures how much of a transfer of SIZE bytes is hidden
// behind SECONDS of computing, with two ranks. plain: both wait in the library. The computing is
// placed in three ways, and each figure is the hidden fraction of the plain time. sender: the
// sender computes after MPI_Isend, the receiver waits. posted: the receiver computes after
// MPI_Irecv. late: the receiver computes, and only then receives what was sent meanwhile. slower:
// how much longer the computing took than before MPI_Init, the worst of the three.
#include "work.h"

struct job {
  int rank;
  int size;
  char *buffer;
  long steps;
};

// The results of a round. Both ranks are on one machine and use the same clock.
struct span {
  double start_s;
  double computing_s;
  double end_s;
};

static void send_one(const struct job *it, struct span *took, int computes) {
  MPI_Request request;
  it->buffer[0]++;
  it->buffer[it->size - 1] = it->buffer[0];
  took->start_s = now_s();
  MPI_Isend(it->buffer, it->size, MPI_CHAR, 1, 1, MPI_COMM_WORLD, &request);
  if (computes)
    took->computing_s = compute_s(it->steps);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  took->end_s = now_s();
}

static void receive_one(const struct job *it, struct span *took, int computes, int late) {
  MPI_Request request;
  took->start_s = now_s();
  if (late)
    took->computing_s = compute_s(it->steps);
  MPI_Irecv(it->buffer, it->size, MPI_CHAR, 0, 1, MPI_COMM_WORLD, &request);
  if (computes && !late)
    took->computing_s = compute_s(it->steps);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  took->end_s = now_s();
  REQUIRE(it->buffer[0] == it->buffer[it->size - 1]);
}

// One round. Rank 0 gets the computing time, and the receiver's time beyond it. The time starts
// with the rank that computes. If no rank computes, it starts with the sender, because the receiver
// may leave the barrier late.
static double round_of(const struct job *it,
                       int sender_computes,
                       int receiver_computes,
                       int late,
                       double *computing_s) {
  struct span mine = {0, 0, 0}, receiver = {0, 0, 0};
  MPI_Barrier(MPI_COMM_WORLD);
  if (it->rank == 0)
    send_one(it, &mine, sender_computes);
  else
    receive_one(it, &mine, receiver_computes, late);
  if (it->rank == 1)
    MPI_Send(&mine, 3, MPI_DOUBLE, 0, 2, MPI_COMM_WORLD);
  else
    MPI_Recv(&receiver, 3, MPI_DOUBLE, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  const struct span *const computes = receiver_computes ? &receiver : &mine;
  *computing_s = computes->computing_s;
  return receiver.end_s - computes->start_s - computes->computing_s;
}

static double within(double value) {
  return value < 0 ? 0 : value > 1 ? 1 : value;
}

int main(int count, char **words) {
  struct job it = {0};
  it.size = (int)number_option(count, words, 1, 8 << 20);
  double const seconds = number_option(count, words, 2, 0.4);
  int const rounds = (int)number_option(count, words, 3, 3);
  // Measured before the library, and any thread of it, exists.
  it.steps = calibrate(seconds);
  double alone = 1e9;
  for (int i = 0; i < 3; i++) {
    double const took = compute_processor_s(it.steps);
    if (took < alone)
      alone = took;
  }
  MPI_Init(&count, &words);
  MPI_Comm_rank(MPI_COMM_WORLD, &it.rank);
  it.buffer = allocate((size_t)it.size);
  double alone_of[2];
  MPI_Gather(&alone, 1, MPI_DOUBLE, alone_of, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  double computing_s = 0;
  round_of(&it, 0, 0, 0, &computing_s);  // connects
  double plain = 1e9;
  for (int i = 0; i < rounds; i++) {
    double const took = round_of(&it, 0, 0, 0, &computing_s);
    if (took < plain)
      plain = took;
  }
  if (it.rank == 0)
    figure("plain", plain);
  static const char *const names[] = {"sender", "posted", "late"};
  double slower = 0;
  for (int kind = 0; kind < 3; kind++) {
    double hidden = 0;
    for (int i = 0; i < rounds; i++) {
      // The part of the plain time that was still waited for after the computing.
      hidden +=
          within(1 - round_of(&it, kind == 0, kind > 0, kind == 2, &computing_s) / plain) / rounds;
      double const factor = computing_s / alone_of[kind > 0];
      if (factor > slower)
        slower = factor;
    }
    if (it.rank == 0)
      figure(names[kind], hidden);
  }
  if (it.rank == 0)
    figure("slower", slower);
  free(it.buffer);
  MPI_Finalize();
}
