// usage: arrival COUNT SIZE SECONDS. What COUNT messages of SIZE bytes cost their receiver, when
// they arrive evenly over SECONDS. Rank 0 sends them. Rank 1 has posted all receives, and meanwhile
// idle: sleeps outside the library; computing: computes outside it; waiting: waits in it. NAME_cpu:
// processor seconds of the receiver for each message, of all its threads, without its computing.
// NAME_switches: its context switches for each message. NAME_late: seconds in MPI_Waitall, after
// the sleep or the computing. slower: time of a piece of computing, divided by its processor time
// before MPI_Init.
#include <string.h>

#include "work.h"

enum { PIECE_STEPS = 1000 * 1000 };  // a few milliseconds
enum kind { IDLE, COMPUTING, WAITING, KIND_COUNT };

struct job {
  int count;
  int size;
  double seconds;
  char *messages;  // all of them
};

struct use {
  double processor_s;
  double switch_count;
  double time_s;
};

static struct use use_now(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (struct use){processor_s(), (double)(usage.ru_nvcsw + usage.ru_nivcsw), now_s()};
}

static struct use use_since(struct use start) {
  struct use const now = use_now();
  return (struct use){now.processor_s - start.processor_s,
                      now.switch_count - start.switch_count,
                      now.time_s - start.time_s};
}

// A piece of the computing.
static struct use compute_for(double seconds) {
  long count = 0;
  struct use const start = use_now();
  for (; now_s() < start.time_s + seconds; count++)
    compute_s(PIECE_STEPS);
  struct use const all = use_since(start);
  return (struct use){all.processor_s / (double)count,
                      all.switch_count / (double)count,
                      all.time_s / (double)count};
}

// The last message is sent before the receiver ends its sleep or its computing.
static void send_all(const struct job *it) {
  double const start = now_s();
  for (int i = 0; i < it->count; i++) {
    double const rest = start + 0.9 * it->seconds * i / it->count - now_s();
    if (rest > 0)
      sleep_s(rest);
    memcpy(it->messages, &i, sizeof i);
    MPI_Send(it->messages, it->size, MPI_CHAR, 1, i, MPI_COMM_WORLD);
  }
}

static void report(enum kind kind, const char *what, double value) {
  static const char *const names[] = {"idle", "computing", "waiting"};
  char name[64];
  snprintf(name, sizeof name, "%s_%s", names[kind], what);
  figure(name, value);
}

static char *message_of(const struct job *it, int number) {
  return it->messages + (size_t)number * (size_t)it->size;
}

// `piece`: of the computing before MPI_Init.
static void receive_all(const struct job *it, enum kind kind, const struct use *piece) {
  MPI_Request *const requests = allocate((size_t)it->count * sizeof *requests);
  memset(it->messages, 0xff, (size_t)it->count * (size_t)it->size);
  for (int i = 0; i < it->count; i++)
    MPI_Irecv(message_of(it, i), it->size, MPI_CHAR, 0, i, MPI_COMM_WORLD, &requests[i]);
  MPI_Barrier(MPI_COMM_WORLD);
  double piece_count = 0;
  double slower = 0;
  struct use const start = use_now();
  if (kind == IDLE)
    sleep_s(it->seconds);
  if (kind == COMPUTING) {
    double const piece_s = compute_for(it->seconds).time_s;
    piece_count = (now_s() - start.time_s) / piece_s;
    slower = piece_s / piece->processor_s;
  }
  double const late_s = now_s();
  MPI_Waitall(it->count, requests, MPI_STATUSES_IGNORE);
  struct use const whole = use_since(start);
  report(kind, "late", start.time_s + whole.time_s - late_s);
  report(kind, "cpu", (whole.processor_s - piece_count * piece->processor_s) / it->count);
  report(kind, "switches", (whole.switch_count - piece_count * piece->switch_count) / it->count);
  if (kind == COMPUTING)
    figure("slower", slower);
  for (int i = 0; i < it->count; i++)
    REQUIRE(memcmp(message_of(it, i), &i, sizeof i) == 0);
  free(requests);
}

int main(int count, char **words) {
  struct job it = {0};
  it.count = (int)number_option(count, words, 1, 2000);
  it.size = (int)number_option(count, words, 2, 64);
  it.seconds = number_option(count, words, 3, 2);
  struct use const piece = compute_for(it.seconds);
  MPI_Init(&count, &words);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  REQUIRE(it.size >= (int)sizeof(int) && it.count > 0);
  it.messages = allocate((size_t)it.count * (size_t)it.size);
  for (enum kind kind = IDLE; kind < KIND_COUNT; kind++) {
    if (rank == 1) {
      receive_all(&it, kind, &piece);
    } else if (rank == 0) {
      MPI_Barrier(MPI_COMM_WORLD);
      send_all(&it);
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
  free(it.messages);
  MPI_Finalize();
}
