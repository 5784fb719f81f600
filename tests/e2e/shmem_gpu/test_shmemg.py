"""Programs whose kernels call OpenSHMEM, on the host executor: the effect of each call, by number
of PEs and by path, with lanes preempted at random, and the events that end a wait.
TND_SHMEMG_PROGRAMS="_cuda" runs those for GPUs, TND_SHMEMG_ALL=1 many more seeds.
"""

import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tools/mpi"), str(ROOT / "tests/conformance/shmem")]

import device_names  # noqa: E402
import processes  # noqa: E402
import sandbox  # noqa: E402
import shmem_jobs  # noqa: E402

KIND = os.environ.get("TND_SHMEMG_PROGRAMS", "")
ALL = os.environ.get("TND_SHMEMG_ALL") == "1"
PROGRAMS = [
    "transfers",
    "private",
    "atomics",
    "waits",
    "collectives",
    "teams",
    "stream_order",
    "streams",
]
# Three cases. Kernels load and store in other PEs' memory. Or the host carries out everything, and
# can access neither stacks nor shared memory. Or devices are unmapped: transfers between them are
# staged, or moved by the fabric, which can access the host executor's memory.
WAYS = {
    "direct": {},
    "by host": {"TND_SHMEM_DEVICE_DIRECT": "off"},
    "staged": {"TND_PGAS_NODE": "none", "TND_PGAS_DEVICE": "staged"},
    "by fabric": {"TND_PGAS_NODE": "none", "TND_PGAS_DEVICE": "direct"},
}
for way in ("by host", "staged", "by fabric"):
    WAYS[way]["TND_SHMEM_DEVICE_TIMEOUT"] = "30s"  # of a wait for a refused operation
    if KIND == "":
        WAYS[way]["TND_SHMEM_DEVICE_STRICT"] = "on"
SEEDS = [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 21 if ALL else 4))]


@pytest.fixture(scope="module")
def jobs(tmp_path_factory):
    if reason := shmem_jobs.missing():
        pytest.skip(reason)
    if not (shmem_jobs.BUILD / f"bin/shmemg_waits{KIND}").exists():
        pytest.skip(f"{shmem_jobs.BUILD}/bin/shmemg_waits{KIND} is not there")
    return shmem_jobs.Jobs(tmp_path_factory.mktemp("shmemg"))


def command(name, pe_count, words=()):
    return [
        shmem_jobs.BIN / "oshrun",
        "-n",
        str(pe_count),
        shmem_jobs.BUILD / f"bin/shmemg_{name}{KIND}",
        *map(str, words),
    ]


def run(jobs, name, pe_count, words=(), limit_s=120, **environment):
    return processes.run(
        command(name, pe_count, words), jobs.environment(**environment), limit_s, patience_s=5
    )


# "staged" and "by fabric" differ below the calls: each program runs with one of them.
BY_FABRIC = {"transfers", "atomics", "collectives", "streams"}


BY_MANY = {"collectives", "teams", "waits"}  # four PEs do what two can't


def runs():
    for name in PROGRAMS:
        for pe_count in (1, 2, 3, 4):
            for way in WAYS:
                is_other = way == ("staged" if name in BY_FABRIC else "by fabric")
                # By the host, the same requests take a fraction of the time.
                is_long = name == "transfers" and way == "by fabric"
                is_slow = (
                    is_other or is_long or pe_count == 3 or (pe_count == 4 and name not in BY_MANY)
                )
                yield pytest.param(name, pe_count, way, marks=[pytest.mark.slow] * is_slow)


@pytest.mark.parametrize("name, pe_count, way", runs())
def test_program(jobs, name, pe_count, way):
    if way != "direct" and pe_count not in (1, 2):
        pytest.skip("every operation is a request: two PEs tell as much as four")
    if way in ("staged", "by fabric") and pe_count == 1:
        pytest.skip("nothing goes anywhere")
    words = {"streams": ["few"], "stream_order": ["1"]}.get(name, []) if way != "direct" else []
    shmem_jobs.require_passed(run(jobs, name, pe_count, words, **WAYS[way]))


def test_reductions_by_more_pes_than_there_are_parts(jobs):
    shmem_jobs.require_passed(
        run(jobs, "collectives", 20, ["parts"], SHMEM_DEVICE_SYMMETRIC_SIZE="16M")
    )


@pytest.mark.skipif(KIND != "", reason="the host executor's lanes are preempted, a GPU's are not")
@pytest.mark.parametrize("name", ["waits", "atomics", "collectives", "stream_order", "streams"])
@pytest.mark.parametrize("seed", SEEDS)
def test_with_preemption(jobs, name, seed):
    environment = {
        "TND_SIMT_SEED": str(seed),
        "TND_SIMT_PREEMPT_PERMILLE": str(50 + seed * 37 % 400),
    }
    if name == "streams":
        environment["TND_SIMT_RESIDENT_BLOCKS"] = str(
            1 + seed % 3
        )  # blocks of a launch one after the other, and together
    shmem_jobs.require_passed(
        run(jobs, name, 2 + seed % 2, ["few"] if name == "streams" else [], **environment)
    )


@pytest.mark.parametrize("what", ["kill", "kill sync", "kill stream"])
def test_a_death_ends_waits_in_kernels(jobs, tmp_path, what):
    """The others' calls return, their hosts report which PE died, nothing remains, and the next job
    starts immediately.
    """
    if reason := sandbox.missing():
        pytest.skip(reason)
    report = tmp_path / "report"
    done = processes.run(
        sandbox.command_for(report, command("loss", 3, [what])),
        jobs.environment(),
        60,
        patience_s=5,
    )
    assert done.status == "failed" and done.seconds < 20, (
        f"{done.status} after {done.seconds:.1f} s\n{done.output[-3000:]}"
    )
    assert re.search(r"has died|EPEER|Killed|signal 9", done.output), done.output[-3000:]
    assert f"as expected, {0 if 'stream' in what else -4097}" in done.output, done.output[
        -3000:
    ]  # by themselves, before the launcher ends them
    assert "should be" not in done.output and "went on" not in done.output, done.output[-3000:]
    assert done.left == 0 and '"left": []' in report.read_text(), (
        f"{done.left} processes, {report.read_text()}"
    )
    shmem_jobs.require_passed(run(jobs, "atomics", 3, limit_s=30))


@pytest.mark.parametrize(
    "what, message",
    [
        ("late", "wait failed.*ETIMEDOUT"),
        ("range", "put failed.*ERANGE"),
        ("pe", "put failed.*EINVAL"),
        ("team", "sync failed.*EINVAL"),
        ("stream team", "fcollect failed.*EINVAL"),
        ("stream host team", "sync failed.*EINVAL"),
        ("stream root", "broadcast failed.*EINVAL"),
        ("stream late", "broadcast failed.*ETIMEDOUT"),
        ("stream range", "alltoall failed.*ERANGE"),
        ("stream sizes", "fcollect failed.*ERANGE"),
        ("stream source", "reduce failed.*ERANGE"),
    ],
)
def test_what_is_wrong_is_told_by_the_host(jobs, what, message):
    done = run(
        jobs,
        "loss",
        2,
        [what],
        limit_s=60,
        TND_SHMEM_DEVICE_TIMEOUT="300ms" if "late" in what else "none",
    )
    assert (
        done.status == "failed" and "as expected" in done.output and "went on" not in done.output
    ), done.output[-3000:]
    assert re.search(r"shmem_barrier_all: PE \d: in a kernel, " + message, done.output), (
        done.output[-3000:]
    )


HELLO = """#include <shmemg.h>
#include <tanada/device/detail/simt/launch.hpp>
#include <cstdio>
TND_KERNEL void add(long *at) {
  shmemg_long_atomic_inc(at, 0);
  (void)shmemgx_barrier_all();
}
#ifdef BOTH
static int other = shmemx_module_register(1, [](const void *, size_t) { return 0; });
#endif
int main() {
  int provided = 0;
  if (shmem_init_thread(SHMEM_THREAD_SINGLE | SHMEM_DEVICE_KERNEL_INIT, &provided) != 0) return 5;
  long *const at = static_cast<long *>(shmemg_calloc(1, sizeof(long)));
  tanada::simt::launch(1, 32, add, at);
  if (!tanada::simt::host::synchronize(~0ull)) return 6;
  shmem_barrier_all();
  long const sum = shmem_long_g(at, 0);
  if (shmem_my_pe() == 0) std::printf("sum %ld passed with %d\\n", sum, shmem_n_pes());
  shmem_finalize();
}
"""


@pytest.mark.skipif(KIND != "", reason="for the host executor")
def test_a_program_compiled_for_the_host_executor(jobs, tmp_path):
    """By oshc++, from one .cu; and a program with kernels of both kinds does not start."""
    source = tmp_path / "hello.cu"
    source.write_text(HELLO)
    for name, options in (("hello", []), ("both", ["-DBOTH"])):
        done = subprocess.run(
            [
                shmem_jobs.BIN / "oshc++",
                "--host-executor",
                "-std=c++17",
                "-O1",
                "-Wall",
                "-Wextra",
                *options,
                "-Wno-unused-variable",
                "-o",
                tmp_path / name,
                source,
            ],
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0 and not done.stderr, done.stderr[-3000:]
    done = processes.run(
        [shmem_jobs.BIN / "oshrun", "-n", "3", tmp_path / "hello"], jobs.environment(), 60
    )
    assert done.status == "passed" and "sum 96 passed with 3" in done.output, done.output[-3000:]
    done = processes.run(
        [shmem_jobs.BIN / "oshrun", "-n", "1", tmp_path / "both"], jobs.environment(), 60
    )
    assert done.code == 5, f"{done.code}\n{done.output[-3000:]}"


def compiled(tmp_path, header, lines):
    source = tmp_path / "names.cc"
    source.write_text(f"#include <{header}>\n" + "".join(lines))
    return subprocess.run(
        [
            "g++",
            "-std=c++17",
            "-DTND_HOST_EXECUTOR",
            f"-I{ROOT}/include",
            f"-I{ROOT}/include/compat",
            "-fsyntax-only",
            source,
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize(
    "header, calls, least, missing",
    [
        (
            "shmemg.h",
            device_names.calls,
            680,
            "void (*const missing)(int) = shmemg_int_atomic_nand;\n",
        ),
        (
            "shmemx_on_stream.cuh",
            device_names.calls_on_streams,
            200,
            "int (*const missing)(shmem_team_t, float *, const float *, size_t, shmemx_stream_t) = shmemx_float_and_reduce_on_stream;\n",
        ),
    ],
    ids=["of the draft", "on streams"],
)
def test_names_are_there(tmp_path, header, calls, least, missing):
    """The draft's calls, and those on streams, each with its parameters; a missing name is
    detected.
    """
    lines = [
        f"{result} (*const pointer{i})({parameters}) = {name};\n"
        for i, (result, name, parameters) in enumerate(calls())
    ]
    assert len(lines) > least
    done = compiled(tmp_path, header, lines)
    assert done.returncode == 0, done.stderr[:3000]
    done = compiled(tmp_path, header, [*lines, missing])
    assert done.returncode != 0 and missing.split(" = ")[1][:-2] in done.stderr
