"""Swapping after the last library call: the program uses its memory until each rank ends."""

import os
import re

import comex_jobs
import pytest

BUDGET = 10 << 20
MEGABYTES = 8  # of each rank


# All ranks end at once; the lowest first; the lowest last.
@pytest.mark.parametrize("order", ["0", "1", "-1"])
@pytest.mark.parametrize("rank_count", [1, 4])
def test_memory_stays_within_its_limit_to_the_end(jobs, tmp_path, rank_count, order):
    settings = {
        "TND_COMEX_MEMORY": str(BUDGET),
        "TND_COMEX_RESERVE": "0",
        "TND_COMEX_HEAP": "32M",
        "TND_COMEX_SWAP": f"file://{tmp_path}",
    }
    done = jobs.run(
        "after_finalize", rank_count, [str(MEGABYTES), order, "0"], limit_s=120, settings=settings
    )
    comex_jobs.require_passed(done)
    most = int(re.search(r"^most (\d+) MB$", done.output, re.MULTILINE)[1])
    assert most <= BUDGET >> 20, done.output
    assert os.listdir(tmp_path) == []


def test_who_begins_again_keeps_what_it_has(jobs, tmp_path):
    settings = {
        "TND_COMEX_MEMORY": str(BUDGET),
        "TND_COMEX_RESERVE": "0",
        "TND_COMEX_HEAP": "32M",
        "TND_COMEX_SWAP": f"file://{tmp_path}",
    }
    comex_jobs.require_passed(
        jobs.run("after_finalize", 3, [str(MEGABYTES), "0", "1"], limit_s=120, settings=settings)
    )


def test_malloc_is_itself_at_its_edges(jobs, tmp_path):
    settings = {
        "TND_COMEX_MEMORY": str(BUDGET),
        "TND_COMEX_RESERVE": "0",
        "TND_COMEX_HEAP": "32M",
        "TND_COMEX_SWAP": f"file://{tmp_path}",
    }
    done = jobs.run("heap_edges", 1, limit_s=60, settings=settings)
    comex_jobs.require_passed(done)
    assert "the program has threads" in done.output


def test_heaps_that_pages_are_not_counted_of_are_refused(jobs, tmp_path):
    settings = {
        "TND_COMEX_MEMORY": str(BUDGET),
        "TND_COMEX_RESERVE": "0",
        "TND_COMEX_HEAP": "2T",
        "TND_COMEX_SWAP": f"file://{tmp_path}",
    }
    done = jobs.run("heap_edges", 1, limit_s=60, settings=settings)
    assert done.status == "failed" and "TND_COMEX_HEAP: " in done.output, done.output
