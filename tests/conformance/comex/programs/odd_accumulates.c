/* Accumulates whose size is no multiple of the element size: whole elements are added, and the
 * bytes after them stay unchanged. */
#include <comex.h>

#include "check.h"

enum { PIECE = 4, PIECES = 3, WORDS = PIECE * PIECES };

static double **arrays;

/* On memory of rank 0, which has 1000 + i in each word. All ranks add 1 to 4 * PIECES words with
 * `add`; the last word of each piece is incomplete. */
static void check(const char *call, void (*add)(double *source, double *target)) {
  double source[WORDS];
  for (int i = 0; i < WORDS; i++)
    source[i] = 1;
  if (me == 0) {
    for (int i = 0; i < WORDS; i++)
      arrays[0][i] = 1000 + i;
  }
  comex_barrier(COMEX_GROUP_WORLD);
  add(source, arrays[0]);
  comex_barrier(COMEX_GROUP_WORLD);
  for (int i = 0; me == 0 && i < WORDS; i++) {
    double const expected = 1000 + i + (i % PIECE != PIECE - 1 ? count : 0);
    CHECK(arrays[0][i] == expected, "%s: word %d is %g, not %g", call, i, arrays[0][i], expected);
  }
  comex_barrier(COMEX_GROUP_WORLD);
}

enum { ODD = PIECE * sizeof(double) - 3 };
static double scale = 1;

static void add_blocks(double *source, double *target) {
  for (int i = 0; i < PIECES; i++) {
    comex_acc(
        COMEX_ACC_DBL, &scale, source + i * PIECE, target + i * PIECE, ODD, 0, COMEX_GROUP_WORLD);
  }
}

static void add_strided(double *source, double *target) {
  int stride = PIECE * sizeof(double);
  int counts[] = {ODD, PIECES};
  comex_accs(
      COMEX_ACC_DBL, &scale, source, &stride, target, &stride, counts, 1, 0, COMEX_GROUP_WORLD);
}

static void add_vector(double *source, double *target) {
  void *sources[PIECES], *targets[PIECES];
  for (int i = 0; i < PIECES; i++) {
    sources[i] = source + i * PIECE;
    targets[i] = target + i * PIECE;
  }
  comex_giov_t pieces = {sources, targets, PIECES, ODD};
  comex_accv(COMEX_ACC_DBL, &scale, &pieces, 1, 0, COMEX_GROUP_WORLD);
}

int main(int argc, char **argv) {
  begin(&argc, &argv);
  arrays = malloc((size_t)count * sizeof *arrays);
  CHECK(comex_malloc((void **)arrays, WORDS * sizeof(double), COMEX_GROUP_WORLD) == 0,
        "comex_malloc");
  check("comex_acc", add_blocks);
  check("comex_accs", add_strided);
  check("comex_accv", add_vector);
  /* Less than one element, as in the first sizes of Global Arrays' comex/testing/shift. */
  if (me == 0)
    arrays[0][0] = 5;
  comex_barrier(COMEX_GROUP_WORLD);
  double one = 1;
  for (int size = 0; size < 8; size++)
    comex_acc(COMEX_ACC_DBL, &scale, &one, arrays[0], size, 0, COMEX_GROUP_WORLD);
  comex_barrier(COMEX_GROUP_WORLD);
  if (me == 0)
    CHECK(arrays[0][0] == 5, "it is %g", arrays[0][0]);
  comex_free(arrays[me], COMEX_GROUP_WORLD);
  return end();
}
