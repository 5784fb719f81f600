/*
 * bench/shmemg/pairs_mpi.c: the rivals of pairs.c. "mpi": what programs do between nodes: copies
 * between the device and pinned host memory, and MPI. A put is a message and its acknowledgement, a
 * get a request and its reply. "copy": the runtime's copies within one process, between the host
 * and devices, and from the first device to the second if there is one.
 */
#include <mpi.h>

#include "pairs.h"
#include "pairs_device.h"

enum { PEER = 1 };

static struct pairs_memory memory; /* of this process */

/* Sends a piece. From a device it is copied to the host first. */
static void send_piece(int side, size_t offset, size_t size, int to, MPI_Request *request) {
  if (side == PAIRS_DEVICE) {
    pairs_device_copy(memory.host_local + offset, memory.devices[0] + offset, size);
    pairs_device_wait();
  }
  MPI_Isend(memory.host_local + offset, (int)size, MPI_BYTE, to, 1, MPI_COMM_WORLD, request);
}

/* Sends `count` pieces of a window. */
static void send_window(int side, size_t size, int count, int to) {
  MPI_Request requests[64];
  for (int k = 0; k < count; k++)
    send_piece(side, (size_t)k * size % pairs_size_max, size, to, &requests[k]);
  MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
}

/* Receives them. Each is copied to the device as soon as it has arrived. */
static void receive_window(int side, size_t size, int count, int from) {
  MPI_Request requests[64];
  for (int k = 0; k < count; k++) {
    char *const piece = memory.host_remote + (size_t)k * size % pairs_size_max;
    MPI_Irecv(piece, (int)size, MPI_BYTE, from, 1, MPI_COMM_WORLD, &requests[k]);
  }
  for (int k = 0; k < count; k++) {
    size_t const offset = (size_t)k * size % pairs_size_max;
    MPI_Wait(&requests[k], MPI_STATUS_IGNORE);
    if (side == PAIRS_DEVICE)
      pairs_device_copy(memory.devices[0] + offset, memory.host_remote + offset, size);
  }
  if (side == PAIRS_DEVICE)
    pairs_device_wait();
}

static void send_empty(int to) {
  MPI_Send(NULL, 0, MPI_BYTE, to, 2, MPI_COMM_WORLD);
}
static void receive_empty(int from) {
  MPI_Recv(NULL, 0, MPI_BYTE, from, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* One window of puts, or of gets, by rank 0. */
static void window(int is_get, int me, int source, int target, size_t size, int count) {
  if (me == 0) {
    if (is_get) {
      send_empty(PEER);
      receive_window(target, size, count, PEER);
    } else {
      send_window(source, size, count, PEER);
      receive_empty(PEER);
    }
  } else if (is_get) {
    receive_empty(0);
    send_window(source, size, count, 0);
  } else {
    receive_window(target, size, count, 0);
    send_empty(0);
  }
}

static double windows_us(
    int is_get, int me, int source, int target, size_t size, int count, int rounds) {
  double begin = 0;
  for (int i = 0; i < rounds + PAIRS_WARM; i++) {
    if (i == PAIRS_WARM)
      begin = pairs_now_us();
    window(is_get, me, source, target, size, count);
  }
  return pairs_now_us() - begin;
}

static void measure_messages(int me, int source, int target, size_t size, int rounds_max) {
  for (int is_get = 0; is_get < 2; is_get++) {
    const char *const call = is_get ? "mpi_get" : "mpi_put";
    int const rounds = pairs_rounds(size, rounds_max), count = pairs_count(size);
    int const window_count = pairs_bounded(pairs_window / size, 3, 8);
    double const single = windows_us(is_get, me, source, target, size, 1, rounds);
    double const all = windows_us(is_get, me, source, target, size, count, window_count);
    if (me != 0)
      continue;
    pairs_print_latency(call, source, target, size, single / rounds);
    pairs_print_rate(call, source, target, size, (double)size * count * window_count, all);
  }
}

static void copy(int source, int target, size_t offset, size_t size) {
  char *const from = source == PAIRS_HOST ? memory.host_local : memory.devices[0];
  char *const to = target == PAIRS_HOST     ? memory.host_remote
                   : source == PAIRS_DEVICE ? memory.devices[1]
                                            : memory.devices[0];
  pairs_device_copy(to + offset, from + offset, size);
}

static double copies_us(int source, int target, size_t size, int count, int rounds) {
  double begin = 0;
  for (int i = 0; i < rounds + PAIRS_WARM; i++) {
    if (i == PAIRS_WARM)
      begin = pairs_now_us();
    for (int k = 0; k < count; k++)
      copy(source, target, (size_t)k * size % pairs_size_max, size);
    pairs_device_wait();
  }
  return pairs_now_us() - begin;
}

static void measure_copies(int source, int target, size_t size, int rounds_max) {
  int const rounds = pairs_rounds(size, rounds_max), count = pairs_count(size);
  int const window_count = pairs_bounded(pairs_window / size, 3, 8);
  double const single = copies_us(source, target, size, 1, rounds);
  pairs_print_latency("copy_put", source, target, size, single / rounds);
  double const all = copies_us(source, target, size, count, window_count);
  pairs_print_rate("copy_put", source, target, size, (double)size * count * window_count, all);
}

int main(int argc, char **argv) {
  int me = 0, ranks = 0;
  int const rounds_max = pairs_rounds_max(argc, argv), sizes = pairs_sizes(argc, argv);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks < 2) {
    fprintf(stderr, "pairs_mpi: needs two ranks\n");
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  memory = pairs_device_open(me);
  for (int index = 0; index < sizes; index++)
    for (int source = 0; source < PAIRS_SIDES; source++)
      for (int target = 0; target < PAIRS_SIDES; target++) {
        if (me <= PEER)
          measure_messages(me, source, target, pairs_size(index), rounds_max);
        if (me == 0)
          measure_copies(source, target, pairs_size(index), rounds_max);
      }
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
