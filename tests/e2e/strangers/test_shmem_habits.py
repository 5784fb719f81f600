"""Habits of OpenSHMEM programs and their users that other implementations put up with, and what they look for when stuck."""

import pytest

pytestmark = pytest.mark.usefixtures("needs_launcher")

RUN_LIMIT_S = 100

GLOBALS = r"""
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>

static long table[1000];
static long word = 5;
int initialized = 3;

int main(void) {
  shmem_init();
  int const me = shmem_my_pe(), count = shmem_n_pes(), right = (me + 1) % count;
  long *const heap = shmem_calloc(1000, sizeof(long));
  char *const own = malloc(100000);
  own[99999] = 1;
  shmem_long_p(&table[999], me, right);
  shmem_long_p(&word, me + 10, right);
  shmem_long_put(heap, table, 1000, right);
  shmem_barrier_all();
  int const left = (me + count - 1) % count;
  int const is_right = table[999] == left && word == left + 10 && initialized == 3;
  free(own);
  shmem_free(heap);
  shmem_finalize();
  printf("%s\n", is_right ? "right" : "wrong");
  return !is_right;
}
"""


def run(installed, program, *words, pe_count=2, **environment):
    return installed.run("oshrun", "-n", pe_count, program, *words, env=installed.environment(**environment), timeout=RUN_LIMIT_S)


@pytest.mark.parametrize("pe_count", [1, 2, 4])
def test_a_program_with_address_sanitizer_runs(installed, tmp_path, pe_count):
    (tmp_path / "globals.c").write_text(GLOBALS)
    installed.must("oshcc", "-std=c11", "-g", "-fsanitize=address", "-o", tmp_path / "globals", tmp_path / "globals.c")
    done = run(installed, tmp_path / "globals", pe_count=pe_count, ASAN_OPTIONS="detect_leaks=0")
    assert done.returncode == 0 and done.stdout.count("right") == pe_count, done.stdout + done.stderr
