// measure.h: shared parts of the programs of this folder. Each program is one file and includes
// this once.
#ifndef COMEX_MEASURE_H
#define COMEX_MEASURE_H

#include <armci.h>
#include <message.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { RUNS = 5 };

#define REQUIRE(condition)                                                           \
  do {                                                                               \
    if (!(condition)) {                                                              \
      fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition); \
      MPI_Abort(MPI_COMM_WORLD, 1);                                                  \
    }                                                                                \
  } while (0)

static int me, count;

typedef void operation(int size);

static int by_value(const void *a, const void *b) {
  double const x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static void print(const char *what, int size, const char *unit, double value) {
  if (me != 0)
    return;
  char text[16] = "";
  if (size >= 1 << 20)
    snprintf(text, sizeof text, " %d MiB", size >> 20);
  else if (size >= 1 << 10)
    snprintf(text, sizeof text, " %d KiB", size >> 10);
  else if (size > 0)
    snprintf(text, sizeof text, " %d B", size);
  printf("{\"what\": \"%s%s\", \"value\": %.6g, \"unit\": \"%s\"}\n", what, text, value, unit);
  fflush(stdout);
}

// Microseconds a call: the median of RUNS runs, each of which takes some milliseconds. All ranks
// execute the runs of collective calls.
static double time_of(operation *run, int size, int is_for_all) {
  double found[RUNS];
  long repeats = 1;
  for (int i = -1; i < RUNS; i++) {
    ARMCI_Barrier();
    double const start = MPI_Wtime();
    if (me == 0 || is_for_all)
      for (long k = 0; k < repeats; k++)
        run(size);
    double const seconds = MPI_Wtime() - start;
    if (i < 0) {
      repeats = (long)(0.004 / (seconds + 1e-7)) + 1;
      if (repeats > 20000)
        repeats = 20000;
      armci_msg_bcast(&repeats, sizeof repeats, 0);
    } else {
      found[i] = seconds / (double)repeats * 1e6;
    }
  }
  ARMCI_Barrier();
  qsort(found, RUNS, sizeof *found, by_value);
  return found[RUNS / 2];
}

#endif
