// Barriers, and reductions and alltoalls of a few sizes, of all PEs. The clock runs only inside the
// operation, with a barrier between two. The mean over the PEs counts.
#include "collectives.h"

enum { BATCHES = 5, BYTES_MAX = 1024 };

// Fewer with many PEs, whose alltoalls take as long as the square of their number.
static int repeats(void) {
  int const many = 160 / shmem_n_pes();
  return many > 20 ? 20 : many < 3 ? 3 : many;
}

struct operation {
  const char *name;
  size_t size;
  void (*call)(struct sets *sets, long *target, const long *source, size_t count);
};

struct memory {
  struct sets sets;
  long *source, *target;
};

static double barriers(void) {
  double const start = now_s();
  for (int i = 0; i < repeats(); i++)
    shmem_barrier_all();
  return (now_s() - start) / repeats();
}

static double calls(const struct operation *each, struct memory *memory) {
  double took = 0;
  for (int i = 0; i < repeats(); i++) {
    double const start = now_s();
    each->call(&memory->sets, memory->target, memory->source, each->size / sizeof(long));
    took += now_s() - start;
    shmem_barrier_all();
  }
  return took / repeats();
}

int main(void) {
  static const struct operation operations[] = {
      {"reduce", 8, reduce},
      {"reduce", 1024, reduce},
      {"alltoall", 8, alltoall},
      {"alltoall", 1024, alltoall},
  };
  shmem_init();
  size_t const pes = (size_t)shmem_n_pes();
  struct meeting const meeting = meet();
  struct memory memory = {make_sets(BYTES_MAX / sizeof(long)), NULL, NULL};
  memory.source = symmetric(BYTES_MAX * pes);
  memory.target = symmetric(BYTES_MAX * pes);

  double took[BATCHES] = {0};
  for (int batch = -1; batch < BATCHES; batch++) {  // the first one warms up
    shmem_barrier_all();
    double const mean = mean_of_all(&meeting, barriers());
    took[batch < 0 ? 0 : batch] = mean;
  }
  figure("barrier", "us", 1e6 * median(took, BATCHES));
  for (size_t k = 0; k < sizeof operations / sizeof *operations; k++) {
    const struct operation *const each = &operations[k];
    for (int batch = -1; batch < BATCHES; batch++) {
      shmem_barrier_all();
      double const mean = mean_of_all(&meeting, calls(each, &memory));
      took[batch < 0 ? 0 : batch] = mean;
    }
    char what[64];
    snprintf(what, sizeof what, "%s %zu B", each->name, each->size);
    figure(what, "us", 1e6 * median(took, BATCHES));
  }
  shmem_finalize();
}
