"""shmem4py, unmodified: its own tests and its examples. With TND_SHMEM_ALL=1, since its build takes a minute."""

import re

import pytest
import shmem_jobs
from shmem_jobs import ALL, BIN, BUILD, processes

pytestmark = pytest.mark.skipif(not ALL, reason="make test-shmem builds and runs it")
EXAMPLES = [
    "alltoall",
    "broadcast",
    "collect",
    "fcollect",
    "hello",
    "lock",
    "lock_oo",
    "pi",
    "ping",
    "race_winner",
    "rotget",
    "rotput",
]
TEST_COUNT = 110


@pytest.fixture(scope="module")
def python(jobs):
    """The interpreter and the folder of the tests."""
    return shmem_jobs.build_shmem4py()


def run(jobs, pe_count, words, carrier):
    libraries = f"{BUILD / 'lib'}:{BIN.parent / 'lib'}"
    command = [
        BIN / "oshrun",
        "-n",
        str(pe_count),
        *([jobs.by_rank] if carrier == "mixed" else []),
        *words,
    ]
    return processes.run(command, jobs.environment(carrier, LD_LIBRARY_PATH=libraries), 300)


@pytest.mark.parametrize("pe_count", [1, 2, 4])
@pytest.mark.parametrize(
    "carrier", ["shared", "fabric", "mixed"] if shmem_jobs.IS_OURS else ["shared"]
)
def test_its_own_tests(jobs, python, pe_count, carrier):
    interpreter, tests = python
    done = run(jobs, pe_count, [interpreter, "-m", "unittest", "discover", "-s", tests], carrier)
    assert done.status == "passed", f"{done.status}, {done.code}\n{done.output[-4000:]}"
    assert re.findall(r"Ran (\d+) tests", done.output) == [str(TEST_COUNT)] * pe_count
    assert len(re.findall(r"OK", done.output)) == pe_count and "skipped" not in done.output


@pytest.mark.parametrize("name", EXAMPLES)
def test_its_examples(jobs, python, name):
    interpreter, tests = python
    done = run(jobs, 3, [interpreter, tests.parent / "demo" / f"{name}.py"], "shared")
    assert done.status == "passed", f"{done.status}, {done.code}\n{done.output[-4000:]}"
