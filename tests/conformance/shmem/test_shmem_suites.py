"""Other people's test suites of OpenSHMEM, built in the ordinary way with oshcc as the compiler.

They are no part of this repository: TND_SHMEM_SOS names a checkout of https://github.com/openshmem-org/tests-sos, in which
autoreconf has been run. Its unit tests run with 2 and 4 PEs; TND_SHMEM_SOS_PES names other counts."""

import os
import pathlib
import subprocess

import pytest
import shmem_jobs

SUITE = os.environ.get("TND_SHMEM_SOS")
PE_COUNTS = os.environ.get("TND_SHMEM_SOS_PES", "2 4").split()
BUILD_LIMIT_S, TEST_LIMIT_S = 3600, 300

pytestmark = pytest.mark.skipif(
    not SUITE, reason="TND_SHMEM_SOS names no checkout of openshmem-org/tests-sos"
)


def environment(jobs):
    return jobs.environment(PATH=f"{shmem_jobs.BIN}:{os.environ['PATH']}")


def program_names(folder):
    """What make builds for `make check`, conditional programs among them."""
    rules = "include Makefile\nprint-programs:\n\t@echo $(check_PROGRAMS)\n"
    done = subprocess.run(
        ["make", "-s", "-f", "-", "print-programs"],
        cwd=folder,
        input=rules,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.fixture(scope="module")
def unit_tests(tmp_path_factory):
    if reason := shmem_jobs.missing():
        pytest.skip(reason)
    configure = pathlib.Path(SUITE).resolve() / "configure"
    assert configure.exists(), f"{configure} does not exist: run autoreconf -i in {SUITE}"
    jobs = shmem_jobs.Jobs(tmp_path_factory.mktemp("jobs"))
    folder = tmp_path_factory.mktemp("sos")
    for command in (
        [configure, "CC=oshcc", "CXX=oshc++", "--disable-fortran"],
        ["make", "-C", "test/unit", "check", "TESTS="],
    ):
        done = subprocess.run(
            [str(word) for word in command],
            cwd=folder,
            env=environment(jobs),
            capture_output=True,
            text=True,
            timeout=BUILD_LIMIT_S,
        )
        assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    programs = program_names(folder / "test/unit")
    assert len(programs) > 100, programs
    return jobs, folder / "test/unit", programs


@pytest.mark.parametrize("pe_count", PE_COUNTS)
def test_the_unit_tests_of_sandia_openshmem_pass(unit_tests, pe_count):
    jobs, folder, programs = unit_tests
    failed = {}
    for name in programs:
        command = [shmem_jobs.BIN / "oshrun", "--quiet", "-n", pe_count, folder / name]
        done = shmem_jobs.processes.run(command, environment(jobs), TEST_LIMIT_S, folder)
        if done.status != "passed":
            failed[name] = f"{done.status}, {done.code}: {done.output[-300:]}"
    print(f"{len(programs) - len(failed)} of {len(programs)} unit tests pass with {pe_count} PEs")
    assert failed == {}
