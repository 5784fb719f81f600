"""NVIDIA's examples and performance tests of NVSHMEM, compiled unchanged.

They are no part of this repository: TND_NVSHMEM_SOURCE names a checkout of
https://github.com/NVIDIA/nvshmem. Each program runs with 2 and, if it accepts more, 4 PEs, by
shared memory and by TCP. TND_NVSHMEM_ONLY selects programs by a part of their names. A table is
printed last.
"""

import os
import pathlib

import nvshmem_jobs
import pytest

SOURCE = os.environ.get("TND_NVSHMEM_SOURCE")
ONLY = os.environ.get("TND_NVSHMEM_ONLY", "")
RUN_LIMIT_S = 300
PE_COUNTS = (2, 4)

# Processors take long for the default sizes. Over TCP each element that a kernel reads or writes
# by itself is a request.
SMALL = "-b 8 -e 256 -n 3 -w 1 -c 1 -t 32".split()
# Examples, with their words. Those of MPI and of Sandia's OpenSHMEM are built with these; that of
# CUTLASS has tiles of one kind of GPU.
EXAMPLES = {
    "hello.cpp": [],
    "dev-guide-ring.cu": [],
    "collective-launch.cu": [],
    "thread-group.cu": [],
    "on-stream.cu": [],
    "put-block.cu": [],
    "ring-bcast.cu": [],
    "ring-reduce.cu": "-b 64K -e 256K -n 1 -c 4 -t 64 -m 4K".split(),
    "moe_shuffle.cu": "-b 4 -t 64".split(),
    "user-buffer.cu": [],
    "mpi-based-init.cu": [],
    "uid-based-init.cu": [],
    "dev-guide-ring-mpi.cu": [],
}
# It reads counts of PE `thread / PEs` in 16 threads for each PE: with fewer PEs than 16 that PE may
# not exist, and the job ends.
PES_OF_EXAMPLE = {"moe_shuffle.cu": (16,)}
# What does not compile, and why. The second is not part of NVIDIA's own build.
ABSENT = {
    "tile_allreduce_latency": "tiles",
    "tile_allgather_latency": "tiles",
    "redmaxloc_latency": "names a constant that no header has",
}
# What compiles and does not run: it clears its word after the barrier, when the other PE may have
# written it already, and then waits for ever.
RACY = {"shmem_atomic_ping_pong_latency"}
PAIRS = ("pt-to-pt", "init")  # folders of programs for two PEs

pytestmark = [
    pytest.mark.skipif(not SOURCE, reason="TND_NVSHMEM_SOURCE names no checkout of NVIDIA/nvshmem"),
    pytest.mark.limit(4 * 3600),
]


def mpi_options():
    """How MPI's compiler finds its header and library."""
    done = nvshmem_jobs.subprocess.run(["mpicxx", "-show"], capture_output=True, text=True)
    return [word for word in done.stdout.split() if word.startswith(("-I", "-L", "-l"))]


def performance_tests():
    root = pathlib.Path(SOURCE or ".", "perftest")
    sources = sorted([*root.glob("device/*/*.cu"), *root.glob("host/*/*.c*")])
    return {source.stem: source for source in sources if source.suffix in (".cu", ".cpp")}


def is_chosen(name):
    return ONLY in name


class Table:
    """The outcome of each program, in each way."""

    def __init__(self):
        self.rows = {}

    def add(self, name, way, outcome):
        self.rows.setdefault(name, {})[way] = outcome

    def failures(self):
        return {
            name: row
            for name, row in self.rows.items()
            if any(outcome != "passed" for outcome in row.values())
        }

    def show(self):
        for name, row in self.rows.items():
            print(f"{name:36}", *(f"{way}: {outcome}" for way, outcome in row.items()), sep="  ")


def run_all(programs, table, name, program, words, pe_counts):
    for pe_count in pe_counts:
        for way in nvshmem_jobs.WAYS:
            done = programs.run(program, pe_count, words, way, RUN_LIMIT_S)
            table.add(name, f"{way} {pe_count}", done.status)
            if done.status != "passed":
                print(name, way, pe_count, done.output[-1000:])


def build(table, name, words):
    """Compile; returns whether a program is there."""
    done = nvshmem_jobs.compile_source(words)
    if done.returncode != 0:
        first = next((line for line in done.stderr.splitlines() if "error" in line), "")
        table.add(name, "compiles", f"no: {first[:150]}")
    return done.returncode == 0


def test_the_examples(programs):
    table = Table()
    for name, words in EXAMPLES.items():
        if not is_chosen(name):
            continue
        source = pathlib.Path(SOURCE, "examples", name)
        program = programs.folder / source.stem
        options = mpi_options() if "mpi" in name or "uid" in name else []
        if build(table, name, ["-O2", source, *options, "-o", program]):
            run_all(programs, table, name, program, words, PES_OF_EXAMPLE.get(name, PE_COUNTS))
    table.show()
    assert table.failures() == {}


def test_the_performance_tests(programs):
    table = Table()
    common = pathlib.Path(SOURCE, "perftest/common")
    library = programs.folder / "utils.o"
    assert build(table, "utils", ["-c", common / "utils.cu", "-o", library]), table.rows
    for name, source in performance_tests().items():
        if not is_chosen(name) or name in ABSENT:
            continue
        program = programs.folder / name
        pe_counts = PE_COUNTS[:1] if source.parent.name in PAIRS else PE_COUNTS
        is_built = build(table, name, ["-O1", f"-I{common}", source, library, "-o", program])
        if is_built and name not in RACY:
            run_all(programs, table, name, program, SMALL, pe_counts)
    table.show()
    assert table.failures() == {}
