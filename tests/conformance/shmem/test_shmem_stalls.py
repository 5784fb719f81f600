"""Jobs in which a PE has left and the others wait.

Those that nobody can release end with a message, all others go on."""

import re

import pytest
from shmem_jobs import ALL, IS_OURS

pytestmark = pytest.mark.skipif(not IS_OURS, reason="others do not promise it")

LIMIT_S = 100  # machines of tests are busy; an idle one takes some four seconds

# How the job stalls: the calls in which the PEs wait, from PE 1 on. All further PEs do as the last.
STALLS = {
    "wait": ["shmem_long_wait_until"],
    "finalize": ["shmem_long_wait_until"],
    "any": ["shmem_long_wait_until_any", "shmem_long_wait_until"],
    "team": ["shmem_long_wait_until", "a collective operation"],
    "lock": ["shmem_long_wait_until", "shmem_set_lock"],
}
CARRIERS = ["shared", "fabric", "tcp", "mixed"] if ALL else ["shared", "fabric"]
LATE = [
    pytest.param("computes", 3, "shared", marks=pytest.mark.slow),
    ("computes", 4, "fabric"),
    pytest.param("sleeps", 3, "fabric", marks=pytest.mark.slow),
    ("tests", 3, "shared"),
    ("polls-lock", 4, "shared"),
    ("thread", 3, "shared"),
    pytest.param("child", 3, "shared", marks=pytest.mark.slow),
]


def text(done):
    return f"{done.status} after {done.seconds:.1f} s\n{done.output[-3000:]}"


@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.parametrize("pe_count", [3, pytest.param(4, marks=pytest.mark.slow)])
@pytest.mark.parametrize("way", STALLS)
def test_pes_that_all_wait_after_one_has_left_end_the_job(jobs, way, pe_count, carrier):
    done = jobs.run("stalls", pe_count, [way], carrier, limit_s=LIMIT_S)
    assert done.status == "failed" and "has gone on" not in done.output, text(done)
    how = "by shmem_finalize" if way == "finalize" else "without shmem_finalize"
    calls = STALLS[way] + STALLS[way][-1:] * pe_count
    waits = ", ".join(f"PE {pe} in {calls[pe - 1]}" for pe in range(1, pe_count))
    line = rf"shmem_\w+: PE \d: PE 0 has left the job {how}.*all PEs that remain wait \({waits}\)"
    assert re.search(line, done.output), text(done)


@pytest.mark.parametrize("pe_count", [3, 4])
def test_a_barrier_that_a_pe_has_left_ends_the_job_while_another_waits(jobs, pe_count):
    done = jobs.run("stalls", pe_count, ["barrier"], limit_s=LIMIT_S)
    assert done.status == "failed" and "has gone on" not in done.output, text(done)
    line = r"shmem_barrier_all: PE \d: PE 0 has left the job without"
    assert re.search(line, done.output), text(done)


@pytest.mark.parametrize("way, pe_count, carrier", LATE)
def test_pes_that_wait_for_one_that_is_late_go_on(jobs, way, pe_count, carrier):
    """It calls nothing, or tests in a loop, or waits for its own thread or child."""
    done = jobs.run("stalls", pe_count, [way], carrier, limit_s=LIMIT_S)
    assert done.status == "passed" and "has left" not in done.output, text(done)
    assert done.output.count("has gone on") == pe_count - 1 and done.seconds > 9, text(done)
