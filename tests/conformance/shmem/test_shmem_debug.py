"""What SHMEM_DEBUG=1 finds beside what is always found, and what the other settings print. Without it these programs' mistakes
go unseen or end otherwise; with it the same programs without the mistake pass."""

import re

import pytest
import shmem_jobs

pytestmark = pytest.mark.skipif(not shmem_jobs.IS_OURS, reason="the settings and messages are ours")

# way: what the message names.
MISTAKES = {
    "malloc": r"shmem_malloc: PE \d: the size is 10[01] here and from 100 to 101 in all PEs",
    "free": r"shmem_free: PE \d: the offset in the heap is \d+ here and from \d+ to \d+ in all PEs",
    "root": r"shmem_long_broadcast: PE \d: PE_root is [01] here and from 0 to 1 in all PEs",
    "count": r"shmem_long_sum_reduce: PE \d: the number of elements is [12] here and from 1 to 2 in all PEs",
    "strides": r"shmem_long_alltoalls: PE \d: \d+ bytes at address 0x[0-9a-f]+ \(PE \d\) extend beyond symmetric memory",
    "hints": r"shmem_malloc_with_hints: PE \d: the hints",
    "context": r"shmem_ctx_long_p: PE \d: the context 0x[0-9a-f]+ was never made, or has been destroyed",
    "stack": r"shmem_long_wait_until: PE \d: address 0x[0-9a-f]+ \(8 bytes, PE \d\) is not symmetric",
}
SOURCE = """#include "check.h"
static long word, words_of_all[4];
int main(int count, char **words) {
  const char *const way = count > 1 ? words[1] : "";
  long here = 1;
  start("mistakes");
  char *const one = shmem_malloc(strcmp(way, "malloc") == 0 ? 100 + (size_t)me : 100);
  char *const two = shmem_malloc_with_hints(100, strcmp(way, "hints") == 0 ? me : 0);
  shmem_ctx_t ctx;
  REQUIRE(shmem_ctx_create(0, &ctx) == 0);
  shmem_ctx_long_p(ctx, &word, 1, me);
  shmem_ctx_destroy(ctx);
  if (strcmp(way, "context") == 0) shmem_ctx_long_p(ctx, &word, 1, me);
  shmem_long_wait_until(strcmp(way, "stack") == 0 ? &here : &word, SHMEM_CMP_EQ, 1);
  shmem_long_broadcast(SHMEM_TEAM_WORLD, words_of_all, words_of_all + 2, 1, strcmp(way, "root") == 0 ? me : 0);
  shmem_long_sum_reduce(SHMEM_TEAM_WORLD, words_of_all, words_of_all + 2, strcmp(way, "count") == 0 ? 1 + (size_t)me : 1);
  // The first block of the source is symmetric, the second is past the end of the heap.
  long *const source = shmem_calloc(8, sizeof(long));
  shmem_long_alltoalls(SHMEM_TEAM_WORLD, words_of_all, source, 1, strcmp(way, "strides") == 0 ? 1 << 24 : 1, 1);
  shmem_free(strcmp(way, "free") == 0 && me == 0 ? two : one);
  return finish();
}
"""


@pytest.fixture
def mistakes(jobs, tmp_path):
    source = tmp_path / "mistakes.c"
    source.write_text(SOURCE)
    jobs.build("mistakes", source)
    return jobs


@pytest.mark.parametrize("way", MISTAKES)
def test_a_mistake_is_named(mistakes, way):
    done = mistakes.run("mistakes", 2, [way], limit_s=60, SHMEM_DEBUG="1")
    assert done.status == "failed" and re.search(MISTAKES[way], done.output), (
        f"{done.status}\n{done.output[-3000:]}"
    )


def test_no_mistake_is_found_where_there_is_none(mistakes):
    shmem_jobs.require_passed(mistakes.run("mistakes", 2, limit_s=60, SHMEM_DEBUG="1"))


def test_the_settings_are_printed_once(mistakes):
    done = mistakes.run("mistakes", 2, limit_s=60, SHMEM_INFO="1", SHMEM_SYMMETRIC_SIZE="3m")
    shmem_jobs.require_passed(done)
    assert done.output.count("OpenSHMEM 1.6") == 1 and re.search(
        r"SHMEM_SYMMETRIC_SIZE .*: 3145728", done.output
    )
    done = mistakes.run("mistakes", 2, limit_s=60, SHMEM_VERSION="1")
    assert (
        done.output.count("Tanada: OpenSHMEM 1.6") == 1
        and "SHMEM_SYMMETRIC_SIZE" not in done.output
    )
