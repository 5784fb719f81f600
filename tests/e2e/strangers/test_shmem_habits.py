"""Habits of OpenSHMEM programs and their users that other implementations put up with, and what they look for when stuck."""

import re

import pytest

pytestmark = pytest.mark.usefixtures("needs_launcher")

RUN_LIMIT_S = 100

HABITS = r"""
#include <shmem.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

int main(int count, char **words) {
  const char *const way = count > 1 ? words[1] : "";
  shmem_init();
  if (strcmp(way, "full") == 0) {
    void *const much = shmem_malloc((size_t)1 << 30);
    void *const more = shmem_malloc((size_t)1 << 30);
    printf("got %d %d\n", much != NULL, more != NULL);
  }
  if (strcmp(way, "stale") == 0) {
    static long word;
    shmem_ctx_t first, second;
    if (shmem_ctx_create(0, &first) != 0 || shmem_ctx_create(0, &second) != 0) return 1;
    shmem_ctx_long_p(first, &word, 1, 0);
    shmem_ctx_destroy(first);
    shmem_ctx_long_p(second, &word, 2, 0);
    printf("going on\n");
    fflush(stdout);
    shmem_ctx_long_p(first, &word, 3, 0);
  }
  if (strcmp(way, "align") == 0) {
    for (size_t alignment = 8; alignment <= (size_t)32 << 20; alignment *= 2) {
      char *const piece = shmem_align(alignment, 100);
      if (piece == NULL || (uintptr_t)piece % alignment != 0) {
        printf("no %zu: %p\n", alignment, (void *)piece);
        continue;
      }
      shmem_int_p((int *)piece, 7, (shmem_my_pe() + 1) % shmem_n_pes());
      shmem_barrier_all();
      if (*(int *)piece != 7) printf("lost %zu\n", alignment);
      shmem_free(piece);
    }
  }
  shmem_finalize();
  if (strcmp(way, "again") == 0) shmem_finalize();
  printf("done\n");
  return 0;
}
"""

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


@pytest.fixture(scope="module")
def habits(installed, tmp_path_factory):
    folder = tmp_path_factory.mktemp("habits")
    (folder / "habits.c").write_text(HABITS)
    installed.must("oshcc", "-std=c11", "-O1", "-o", folder / "habits", folder / "habits.c")
    return folder / "habits"


def run(installed, program, *words, pe_count=2, **environment):
    return installed.run(
        "oshrun",
        "-n",
        pe_count,
        program,
        *words,
        env=installed.environment(**environment),
        timeout=RUN_LIMIT_S,
    )


def test_a_full_heap_names_the_setting_and_its_numbers_once(installed, habits):
    done = run(installed, habits, "full")
    assert done.returncode == 0 and done.stdout.count("got 0 0") == 2, done.stdout + done.stderr
    lines = [line for line in done.stderr.splitlines() if "SHMEM_SYMMETRIC_SIZE" in line]
    assert len(lines) == 1, done.stderr
    assert re.search(
        r"shmem_malloc: .* 1073741824 bytes .* of its 67108864 bytes are free", lines[0]
    ), lines


def test_a_heap_that_is_made_larger_has_room(installed, habits):
    done = run(installed, habits, "full", SHMEM_SYMMETRIC_SIZE="2200M")
    assert done.stdout.count("got 1 1") == 2 and "SHMEM_SYMMETRIC_SIZE" not in done.stderr, (
        done.stdout + done.stderr
    )


def test_one_finalize_too_many_is_harmless(installed, habits):
    done = run(installed, habits, "again")
    assert done.returncode == 0 and done.stdout.count("done") == 2, done.stdout + done.stderr


def test_a_context_that_was_destroyed_is_named_without_debugging(installed, habits):
    done = run(installed, habits, "stale")
    assert done.returncode == 1 and "going on" in done.stdout and "done" not in done.stdout, (
        done.stdout + done.stderr
    )
    assert re.search(
        r"shmem_ctx_long_p: PE \d: the context 0x[0-9a-f]+ was never made, or has been destroyed",
        done.stderr,
    ), done.stderr


def test_an_empty_heap_size_is_the_default(installed, habits):
    done = run(installed, habits, "", SHMEM_SYMMETRIC_SIZE="", SHMEM_INFO="1")
    assert done.returncode == 0 and re.search(
        r"SHMEM_SYMMETRIC_SIZE .*: 67108864\n", done.stdout
    ), done.stdout + done.stderr


def test_memory_is_aligned_to_more_than_a_large_page(installed, habits):
    done = run(installed, habits, "align")
    assert done.returncode == 0 and done.stdout.split() == ["done", "done"], (
        done.stdout + done.stderr
    )


def test_the_version_of_the_library_is_printed(installed, habits):
    done = run(installed, habits, "", SHMEM_VERSION="1")
    assert re.search(r"Tanada: OpenSHMEM 1\.6, version \d+\.\d+\.\d+", done.stdout), done.stdout


@pytest.mark.parametrize("pe_count", [1, 2, 4])
def test_a_program_with_address_sanitizer_runs(installed, tmp_path, pe_count):
    (tmp_path / "globals.c").write_text(GLOBALS)
    installed.must(
        "oshcc",
        "-std=c11",
        "-g",
        "-fsanitize=address",
        "-o",
        tmp_path / "globals",
        tmp_path / "globals.c",
    )
    done = run(installed, tmp_path / "globals", pe_count=pe_count, ASAN_OPTIONS="detect_leaks=0")
    assert done.returncode == 0 and done.stdout.count("right") == pe_count, (
        done.stdout + done.stderr
    )


def test_oshrun_describes_the_installation(installed):
    version = installed.must("oshrun", "--version")
    assert re.match(r"oshrun \(Tanada\) \d+\.\d+\.\d+, OpenSHMEM 1\.6\n", version), version
    for command in (["oshrun", "--info"], ["oshmem_info"]):
        text = installed.must(*command)
        assert "OpenSHMEM 1.6" in text and str(installed.path) in text, text
        assert re.search(r"SHMEM_SYMMETRIC_SIZE +64M", text) and re.search(
            r"launcher +\S*(mpirun|prterun|srun)", text
        ), text
    changed = installed.must(
        "oshrun", "--info", env=installed.environment(SHMEM_SYMMETRIC_SIZE="2G")
    )
    assert re.search(r"SHMEM_SYMMETRIC_SIZE +2G", changed), changed
