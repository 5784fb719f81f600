"""Other people's test suites of OpenSHMEM, built in the ordinary way with oshcc as the compiler.

They are no part of this repository. A variable names the checkout of each, and without it the suite
is skipped:

TND_SHMEM_SOS       https://github.com/openshmem-org/tests-sos, in which autoreconf has been run
TND_SHMEM_ISX       https://github.com/ParRes/ISx
TND_SHMEM_PRK       https://github.com/ParRes/Kernels
TND_SHMEM_BALE      https://github.com/jdevinney/bale, in which bootstrap.sh of src/bale_classic has
                    been run
TND_SHMEM_UH        https://github.com/openshmem-org/tests-uh
TND_SHMEM_VERIFIER  https://github.com/openshmem-org/tests-mellanox, in which autogen.sh of verifier
                    has been run
TND_SHMEM_OSU       the OSU micro-benchmarks, version 7

They run by each of TND_SHMEM_SUITE_CARRIERS (shared and tcp) with each of TND_SHMEM_SUITE_PES PEs
(2 and 4). A table of all results ends the run.
"""

import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys

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
    complaint: str = ""  # what a program that exits with 0 prints if its result is wrong: a pattern
    success: str = ""  # what a program prints if its result is right: a pattern
    code: int = 0  # with which it exits if all is well
    pes: int = 0  # 0: any number of PEs; otherwise it runs with so many, or is left out


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


def build_prk(jobs, source, folder):
    """Each kernel checks its result, and prints that it validates."""
    copy = folder / "prk"
    for part in ("SHMEM", "common", "include"):
        shutil.copytree(source / part, copy / part)
    (copy / "common/make.defs").write_text("SHMEMCC=oshcc -std=gnu99\nDEFAULT_OPT_FLAGS=-O2\n")
    words = {
        "Stencil/stencil": [(20, 400), (3, 1001)],
        "Synch_p2p/p2p": [(20, 400, 400), (5, 1001, 37)],
        "Transpose/transpose": [(20, 480), (5, 480, 32)],
    }
    programs = []
    for path, lists in words.items():
        part, name = path.split("/")
        build(jobs, copy / "SHMEM" / part, ["make", name])
        for given in lists:
            title = f"{name} {' '.join(map(str, given))}"
            programs.append(Program(title, [copy / "SHMEM" / path, *given], success="validates"))
    return programs


# Models of bale by their bit: AGP sends each element by itself.
BALE_MODELS = {1: "agp", 2: "exstack", 4: "exstack2", 8: "conveyors"}
BALE_WORDS = {
    "histo": "-b 35 -n 2344 -T 10",
    "ig": "-b 35 -n 2344 -T 10",
    "randperm": "-b 24 -n 2509",
    "topo": "-b 31 -n 1042 -F -z 4",
    "transpose_matrix": "-b 31 -n 1042 -F -z 6",
    "permute_matrix": "-b 31 -n 1042 -G -z 4",
    "triangles": "-b 64 -n 834 -F",
    "sssp": "-b 64 -n 834 -F",
}


def build_bale(jobs, source, folder):
    """Its applications check their results, in each of four models."""
    classic = source / "src/bale_classic"
    configure = classic / "apps/configure"
    assert configure.exists(), f"{configure} does not exist: run bootstrap.sh in {classic}"
    options = "CC=oshcc CFLAGS=-O2"
    build(
        jobs,
        classic,
        [sys.executable, "make_bale", "-s", "-f", "-b", folder, "-c", options],
    )
    programs = []
    for name, words in BALE_WORDS.items():
        for bit, model in BALE_MODELS.items():
            command = [folder / "bin" / name, *words.split(), "-M", bit]
            programs.append(Program(f"{name} {model}", command, complaint="(?i)error"))
    return programs


def build_uh(jobs, source, folder):
    """The tests in C. One ends the job by shmem_global_exit(99)."""
    copy = folder / "tests"
    shutil.copytree(source / "feature_tests/C", copy)
    build(jobs, copy, ["make", "CC=oshcc", "all"])
    programs = []
    for path in sorted(copy.glob("*.x")):
        ends_job = path.stem == "test_shmem_global_exit"
        programs.append(Program(path.stem, [path], complaint="Failed", code=99 if ends_job else 0))
    return programs


# Case 3 of the basic ones reallocates a block that it has freed, which ends the job.
# Cases 1, 2 and 10 of the collectives fill the target of a broadcast that its root has begun: with
# a barrier there they pass.
VERIFIER_CASES = [
    *(f"basic:tc{case}" for case in (1, 2, 4, 5, 6, 7, 8, 9)),
    *(f"coll:tc{case}" for case in (3, 4, 5, 6, 7, 8, 9, 11, 12)),
]
VERIFIER_TASKS = [*VERIFIER_CASES, *"atomic data lock reduce sync stride nbi misc".split()]
# The heap that it assumes, so that it finds the largest possible block.
VERIFIER_HEAP = {"SHMEM_SYMMETRIC_SIZE": "256M", "SHMEM_HEAP_SIZE": "256M"}


def build_verifier(jobs, source, folder):
    """One program with tests of ten kinds. Two of its sources include mpi.h, and call no MPI."""
    configure = source / "verifier/configure"
    assert configure.exists(), f"{configure} does not exist: run autogen.sh in {configure.parent}"
    flags = subprocess.run(
        ["mpicc", "--showme:compile"], capture_output=True, text=True, timeout=60, check=True
    ).stdout.strip()
    # Otherwise PEs outside of an active set call its reductions, and it calls Open MPI's internals.
    options = ["--enable-active-sets", "ac_cv_lib_open_pal_opal_progress=no"]
    options += ["--disable-mpi", "--disable-error", "--enable-quick-tests"]
    build(jobs, folder, [configure, "CC=oshcc", f"CPPFLAGS={flags}", *options], ["make"])
    words = [folder / "oshmem_test", "exec", "--no-colour"]
    return [
        Program(task, [*words, f"--task={task}"], VERIFIER_HEAP, success=r"Failed: 0\s")
        for task in VERIFIER_TASKS
    ]


# Memory that puts and atomics use: the heap, or variables of the program.
OSU_PAIRS = ("get", "put", "atomics", "get_nb", "put_nb", "put_overlap")
OSU_MANY = ("put_mr", "put_mr_nb", "get_mr_nb")
OSU_COLLECTIVES = ("barrier", "broadcast", "collect", "fcollect", "reduce")


def build_osu(jobs, source, folder):
    """They measure, and check nothing: they pass if they end."""
    sources = next(source.rglob("osu_oshm_put.c")).parent
    shared = next(source.rglob("osu_util_pgas.c")).parent
    options = ["-O2", "-w", "-I", shared, "-DOSHM_1_3", "-DFIELD_WIDTH=18", "-DFLOAT_PRECISION=2"]
    heap = {"SHMEM_SYMMETRIC_SIZE": "512M"}
    programs = []
    for name in (*OSU_PAIRS, *OSU_MANY, *OSU_COLLECTIVES):
        program = folder / f"osu_oshm_{name}"
        parts = [sources / f"{program.name}.c", shared / "osu_util.c", shared / "osu_util_pgas.c"]
        build(jobs, folder, ["oshcc", *options, *parts, "-o", program, "-lm"])
        if name in OSU_COLLECTIVES:
            programs.append(Program(name, [program, "-m", "4096"], heap))
            continue
        for word in ("heap", "global"):
            pes = 2 if name in OSU_PAIRS else 0
            programs.append(Program(f"{name} {word}", [program, word], heap, pes=pes))
    return programs


SUITES = {
    "Sandia OpenSHMEM, unit": ("TND_SHMEM_SOS", build_sos),
    "ISx": ("TND_SHMEM_ISX", build_isx),
    "Parallel Research Kernels": ("TND_SHMEM_PRK", build_prk),
    "bale": ("TND_SHMEM_BALE", build_bale),
    "University of Houston, C": ("TND_SHMEM_UH", build_uh),
    "Mellanox's verifier": ("TND_SHMEM_VERIFIER", build_verifier),
    "OSU micro-benchmarks": ("TND_SHMEM_OSU", build_osu),
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


def is_right(program, done):
    if done.code != program.code or done.status == "hangs":
        return False
    if program.complaint and re.search(program.complaint, done.output):
        return False
    return re.search(program.success, done.output) is not None


@pytest.mark.limit(7200)
@pytest.mark.parametrize("pe_count", PE_COUNTS)
@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.parametrize("suite", SUITES)
def test_a_suite_passes(jobs, programs_of, suite_results, suite, carrier, pe_count):
    programs = [each for each in programs_of(suite) if each.pes in (0, int(pe_count))]
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
        if not is_right(program, done):
            failed[program.name] = f"{done.status}, {done.code}: {done.output[-300:]}"
    suite_results.append((suite, carrier, pe_count, len(programs) - len(failed), len(programs)))
    assert failed == {}
