"""Other people's test suites of OpenSHMEM, built in the ordinary way with oshcc as the compiler.

They are no part of this repository. A variable names the checkout of each, and without it the suite
is skipped:

TND_SHMEM_SOS  https://github.com/openshmem-org/tests-sos, in which autoreconf has been run
TND_SHMEM_ISX  https://github.com/ParRes/ISx

They run by each of TND_SHMEM_SUITE_CARRIERS (shared and tcp) with each of TND_SHMEM_SUITE_PES PEs
(2 and 4). A table of all results ends the run.
"""

import dataclasses
import os
import pathlib
import shutil
import subprocess

import pytest
import shmem_jobs

CARRIERS = os.environ.get("TND_SHMEM_SUITE_CARRIERS", "shared tcp").split()
PE_COUNTS = os.environ.get("TND_SHMEM_SUITE_PES", "2 4").split()
BUILD_LIMIT_S, TEST_LIMIT_S = 3600, 300


@dataclasses.dataclass
class Program:
    name: str
    command: list
    settings: dict = dataclasses.field(default_factory=dict)
    complaint: str = ""  # what a program that exits with 0 prints if its result is wrong


def environment(jobs, **settings):
    return jobs.environment(PATH=f"{shmem_jobs.BIN}:{os.environ['PATH']}", **settings)


def build(jobs, folder, *commands):
    for command in commands:
        done = subprocess.run(
            [str(word) for word in command],
            cwd=folder,
            env=environment(jobs),
            capture_output=True,
            text=True,
            timeout=BUILD_LIMIT_S,
        )
        assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]


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


def build_sos(jobs, source, folder):
    configure = source / "configure"
    assert configure.exists(), f"{configure} does not exist: run autoreconf -i in {source}"
    build(
        jobs,
        folder,
        [configure, "CC=oshcc", "CXX=oshc++", "--disable-fortran"],
        ["make", "-C", "test/unit", "check", "TESTS="],
    )
    unit = folder / "test/unit"
    programs = program_names(unit)
    assert len(programs) > 100, programs
    return [Program(name, [unit / name]) for name in programs]


def build_isx(jobs, source, folder):
    """The integer sort checks its result. Each PE sorts a million keys, or a part of a million."""
    copy = folder / "SHMEM"
    shutil.copytree(source / "SHMEM", copy)
    # Its own flags ask for C99, in which the system's headers have no timespec.
    build(jobs, copy, ["make", "CFLAGS=-std=gnu99 -O2"])
    heap = {"SHMEM_SYMMETRIC_SIZE": "1200M"}
    return [
        Program(kind, [copy / f"bin/isx.{kind}", 1 << 20, folder / f"{kind}.log"], heap, "Failed")
        for kind in ("strong", "weak", "weak_iso")
    ]


SUITES = {
    "Sandia OpenSHMEM, unit": ("TND_SHMEM_SOS", build_sos),
    "ISx": ("TND_SHMEM_ISX", build_isx),
}


@pytest.fixture(scope="module")
def programs_of(jobs, tmp_path_factory):
    """Builds each suite once."""
    built = {}

    def programs(suite):
        variable, build_suite = SUITES[suite]
        if not os.environ.get(variable):
            pytest.skip(f"{variable} names no checkout")
        if suite not in built:
            source = pathlib.Path(os.environ[variable]).resolve()
            built[suite] = build_suite(jobs, source, tmp_path_factory.mktemp("suite"))
        return built[suite]

    return programs


@pytest.mark.limit(7200)
@pytest.mark.parametrize("pe_count", PE_COUNTS)
@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.parametrize("suite", SUITES)
def test_a_suite_passes(jobs, programs_of, suite_results, suite, carrier, pe_count):
    programs = programs_of(suite)
    failed = {}
    for program in programs:
        command = [shmem_jobs.BIN / "oshrun", "--quiet", "-n", pe_count, *program.command]
        settings = {**shmem_jobs.CARRIERS[carrier], **program.settings}
        done = shmem_jobs.processes.run(
            [str(word) for word in command],
            environment(jobs, **settings),
            TEST_LIMIT_S,
            pathlib.Path(program.command[0]).parent,
        )
        is_wrong = program.complaint != "" and program.complaint in done.output
        if done.status != "passed" or is_wrong:
            failed[program.name] = f"{done.status}, {done.code}: {done.output[-300:]}"
    suite_results.append((suite, carrier, pe_count, len(programs) - len(failed), len(programs)))
    assert failed == {}
