// usage: storm ROUNDS. All connect to all at once, and exchange messages of mixed sizes; then a
// collective of mixed sizes.
#include "check.h"

static int const sizes[] = {8, 1000, 0, 70000, 300, 5000};
enum { SIZE_COUNT = sizeof sizes / sizeof sizes[0], STEPS = 3, LARGE = 1 << 20, TAG_LARGE = 100 };

// Of message number `step` from one rank to another in a round; zero, too.
static size_t size_of(int from, int to, int step) {
  return (size_t)sizes[(from + 2 * to + step) % SIZE_COUNT];
}
static unsigned seed_of(int from, int to, int step, int round) {
  return (unsigned)(((round * STEPS + step) * 257 + from) * 257 + to);
}

static MPI_Request *next_request(MPI_Request *all, int *count) {
  return &all[(*count)++];
}

// Everybody sends first to the rank above: at any moment the ranks have different targets, and each
// pair connects from both ends. The messages of one pair keep their order; they are received in
// reverse by tag.
static void exchange(int round) {
  int const own = own_rank(), count = rank_count();
  size_t const most = 70000;
  unsigned char *const out = allocate(most * (size_t)(count * STEPS)), *const in = allocate(
                                                                           most *
                                                                           (size_t)(count * STEPS));
  unsigned char *const large_out = allocate(LARGE), *const large_in = allocate(LARGE);
  MPI_Request *const requests = allocate(sizeof(MPI_Request) * (size_t)(2 * count * STEPS + 2));
  int pending = 0;
  int const above = (own + 1) % count, below = (own + count - 1) % count;
  fill(large_out, LARGE, (unsigned)own);
  for (int step = 0; step < STEPS; step++) {
    for (int distance = 1; distance < count; distance++) {
      int const to = (own + distance) % count;
      unsigned char *const data = out + most * (size_t)(step * count + to);
      size_t const size = size_of(own, to, step);
      fill(data, size, seed_of(own, to, step, round));
      MPI_Isend(
          data, (int)size, MPI_BYTE, to, step, MPI_COMM_WORLD, next_request(requests, &pending));
    }
  }
  MPI_Isend(large_out,
            LARGE,
            MPI_BYTE,
            above,
            TAG_LARGE,
            MPI_COMM_WORLD,
            next_request(requests, &pending));
  for (int step = STEPS - 1; step >= 0; step--) {
    for (int distance = 1; distance < count; distance++) {
      int const from = (own + count - distance) % count;
      MPI_Irecv(in + most * (size_t)(step * count + from),
                (int)most,
                MPI_BYTE,
                from,
                step,
                MPI_COMM_WORLD,
                next_request(requests, &pending));
    }
  }
  MPI_Irecv(large_in,
            LARGE,
            MPI_BYTE,
            below,
            TAG_LARGE,
            MPI_COMM_WORLD,
            next_request(requests, &pending));
  MPI_Waitall(pending, requests, MPI_STATUSES_IGNORE);
  for (int step = 0; step < STEPS; step++)
    for (int from = 0; from < count; from++)
      if (from != own)
        require_pattern(in + most * (size_t)(step * count + from),
                        size_of(from, own, step),
                        seed_of(from, own, step, round));
  require_pattern(large_in, LARGE, (unsigned)below);
  free(requests);
  free(large_in);
  free(large_out);
  free(in);
  free(out);
}

static int *offsets_of(const int *counts) {
  int *const offsets = allocate(sizeof(int) * (size_t)(rank_count() + 1));
  for (int i = 0; i < rank_count(); i++)
    offsets[i + 1] = offsets[i] + counts[i];
  return offsets;
}

static void collective(void) {
  int const own = own_rank(), count = rank_count();
  int *const out_counts = allocate(sizeof(int) * (size_t)count), *const in_counts = allocate(
                                                                     sizeof(int) * (size_t)count);
  for (int i = 0; i < count; i++) {
    out_counts[i] = (int)size_of(own, i, 0);
    in_counts[i] = (int)size_of(i, own, 0);
  }
  int *const out_offsets = offsets_of(out_counts), *const in_offsets = offsets_of(in_counts);
  unsigned char *const out = allocate((size_t)out_offsets[count]), *const in = allocate(
                                                                       (size_t)in_offsets[count]);
  for (int i = 0; i < count; i++)
    fill(out + out_offsets[i], (size_t)out_counts[i], seed_of(own, i, 0, 0));
  MPI_Alltoallv(
      out, out_counts, out_offsets, MPI_BYTE, in, in_counts, in_offsets, MPI_BYTE, MPI_COMM_WORLD);
  for (int i = 0; i < count; i++)
    require_pattern(in + in_offsets[i], (size_t)in_counts[i], seed_of(i, own, 0, 0));
  free(in);
  free(out);
  free(in_offsets);
  free(out_offsets);
  free(in_counts);
  free(out_counts);
}

int main(int count, char **words) {
  MPI_Init(&count, &words);
  int const rounds = count > 1 ? atoi(words[1]) : 1;
  for (int round = 0; round < rounds; round++)
    exchange(round);
  collective();
  int one = 1, all = 0;
  MPI_Reduce(&one, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
  if (own_rank() == 0)
    printf("ranks %d\n", all);
  MPI_Finalize();
}
