// Global and static variables are symmetric: initialised or not, large, at the edges of pages, in a
// function, and constant ones as a source.
#include "check.h"

enum { LARGE = 3 << 20 };

int initialised[] = {11, 22, 33};
long zeros[3];
static double hidden = 2.5;
static unsigned char large[LARGE];
static unsigned char large_initialised[70000] = {1, 2, 3};
_Alignas(4096) static char page[4096];
static const int constants[] = {5, 6, 7};
extern char outside[];
char outside[9] = "outside";

static int *in_function(void) {
  static int counter = 40;
  return &counter;
}

int main(void) {
  start("globals");
  int const right = target_of(1), left = source_of(1);
  // What was there at the start is what others see.
  REQUIRE(shmem_int_g(&initialised[1], right) == 22 && shmem_double_g(&hidden, right) == 2.5);
  REQUIRE(shmem_int_g(in_function(), right) == 40 && shmem_long_g(zeros, right) == 0);
  char text[9];
  shmem_getmem(text, outside, sizeof text, right);
  REQUIRE(strcmp(text, "outside") == 0);
  shmem_barrier_all();

  shmem_int_p(&initialised[1], me + 100, right);
  shmem_int_put(initialised + 2, constants, 1, right);
  shmem_long_p(&zeros[2], me + 200, right);
  shmem_double_p(&hidden, me + 0.5, right);
  shmem_int_atomic_add(in_function(), me, right);
  unsigned char *const own = allocate(LARGE);
  fill(own, LARGE, (unsigned)me);
  shmem_putmem(large, own, LARGE, right);
  shmem_putmem(large_initialised + 1, own, sizeof large_initialised - 1, right);
  shmem_putmem(page, own, sizeof page, right);
  shmem_barrier_all();
  REQUIRE(initialised[0] == 11 && initialised[1] == left + 100 && initialised[2] == 5);
  REQUIRE(zeros[0] == 0 && zeros[1] == 0 && zeros[2] == left + 200 && hidden == left + 0.5);
  REQUIRE(*in_function() == 40 + left);
  REQUIRE(has_pattern(large, LARGE, (unsigned)left) &&
          has_pattern(page, sizeof page, (unsigned)left));
  REQUIRE(large_initialised[0] == 1 &&
          has_pattern(large_initialised + 1, sizeof large_initialised - 1, (unsigned)left));
  free(own);
  return finish();
}
