"""Programs that check OpenSHMEM against its specification, by number of PEs and by transport."""

import pytest
import shmem_jobs
from shmem_jobs import ALL, IS_OURS

# name: arguments for few PEs, and for many. With the latter, 64 PEs on two processors finish in
# seconds.
PROGRAMS = {
    "put_get": ([], []),
    "sizes": ([], [70000]),
    "nonblocking": ([], [300, 65536, 200]),
    "atomics": ([], [5]),
    "signals": ([], [100000, 3]),
    "waits": ([], []),
    "contexts": ([], [4, 20]),
    "teams": ([], []),
    "collectives": ([], [4096, 40]),
    "reductions": ([], [1000]),
    "locks": ([], [10]),
    "memory": ([], [200]),
    "pointers": ([], []),
    "globals": ([], []),
    "threads": ([], [2]),
    "litmus": ([], [40]),
    "deprecated": ([], []),
    "generics": ([], []),
    "overloads": ([], []),
    "profiling": ([], []),
    "since_1_6": ([], []),
}
# With few PEs, by carrier. Over shared memory: enough rounds that the PEs' accesses overlap.
FAST = {"atomics": [20000], "litmus": [6000], "locks": [2000]}
# Over the fabric each round waits for PEs that may wait for a processor: on a busy machine some
# milliseconds.
SHORT = {"atomics": [60], "litmus": [500], "locks": [50]}
LIMIT_S = 300  # of a job on a busy machine
MANY = 9  # the arguments for many PEs apply from this count on
# The jobs that `make test` runs: carrier, PEs and programs.
QUICK = [
    ("shared", 4, PROGRAMS),
    ("shared", 1, ["put_get", "memory", "litmus"]),
    (
        "fabric",
        3,
        [
            "put_get",
            "sizes",
            "nonblocking",
            "atomics",
            "signals",
            "waits",
            "contexts",
            "teams",
            "collectives",
            "locks",
            "threads",
            "litmus",
            "since_1_6",
        ],
    ),
    ("tcp", 2, ["nonblocking", "atomics", "signals", "litmus"]),
    ("mixed", 4, ["put_get", "atomics", "collectives", "reductions", "litmus"]),
]
# These run only in `make test-all`. `make test` covers the same calls on the fabric with 3 PEs.
SLOW = {
    ("tcp", "atomics"),
    ("tcp", "litmus"),
    ("mixed", "atomics"),
    ("mixed", "litmus"),
    ("fabric", "sizes"),
}
COUNTS = [1, 2, 3, 4, 8, 16, 64]


def matrix():
    carriers = [each for each in shmem_jobs.CARRIERS if IS_OURS or each == "shared"]
    if ALL:
        return [
            (name, carrier, count) for carrier in carriers for name in PROGRAMS for count in COUNTS
        ]
    return [
        pytest.param(name, carrier, count, marks=[pytest.mark.slow] * ((carrier, name) in SLOW))
        for carrier, count, names in QUICK
        for name in names
        if carrier in carriers
    ]


@pytest.mark.parametrize("name, carrier, pe_count", matrix(), ids=str)
def test_program(jobs, name, carrier, pe_count):
    words = PROGRAMS[name][pe_count >= MANY]
    if pe_count < MANY and (carrier == "shared" or not ALL):
        words = (FAST if carrier == "shared" else SHORT).get(name, words)
    shmem_jobs.require_passed(jobs.run(name, pe_count, words, carrier, limit_s=LIMIT_S))


@pytest.mark.parametrize(
    "way", ["nested", "again", "implicit", "exits", "thread 0", "thread 1", "thread 2", "thread 3"]
)
def test_start_and_end(jobs, way):
    shmem_jobs.require_passed(jobs.run("starts", 3, way.split()))


def test_again_over_the_fabric(jobs):
    shmem_jobs.require_passed(jobs.run("starts", 2, ["again"], carrier="fabric"))


@pytest.mark.parametrize("status", [0, 1, 77])
def test_global_exit(jobs, status):
    done = jobs.run("starts", 3, ["global", status], limit_s=30)
    assert done.code == status, f"{done.status}, {done.code}\n{done.output[-3000:]}"


def test_alone_without_a_launcher(jobs):
    """A program started without a launcher is a job of one PE."""
    for name in ("put_get", "collectives"):
        done = shmem_jobs.processes.run([jobs.build(name)], jobs.environment(), 60)
        shmem_jobs.require_passed(done)


def test_a_wrong_result_is_seen(jobs, tmp_path):
    """A failed check ends the job and names PE and line. The other tests rely on this."""
    source = tmp_path / "wrong.c"
    source.write_text(
        '#include "check.h"\nint main(void) { start("wrong"); REQUIRE(me != 1); return finish(); }\n'
    )
    jobs.build("wrong", source)
    done = jobs.run("wrong", 3, limit_s=30)
    assert (
        done.status == "failed"
        and "PE 1," in done.output
        and "me != 1 does not hold" in done.output
    ), done.output
