"""How programs of NVSHMEM's interface are compiled by tanada-nvcc and run, and on which transports.

TND_NVSHMEM_CXX names another compiler, with its options: nvcc for GPUs.
"""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tools/mpi"), str(ROOT / "tests/conformance/shmem")]

import processes  # noqa: E402
import shmem_jobs  # noqa: E402

PROGRAMS = pathlib.Path(__file__).resolve().parent / "programs"
COMPILER = os.environ.get("TND_NVSHMEM_CXX", str(shmem_jobs.BIN / "tanada-nvcc")).split()
BUILD_LIMIT_S = 600
# Through memory of the node; and by plain TCP, as between machines.
WAYS = {
    "shared": {},
    "tcp": {"TND_PGAS_NODE": "none", "TND_PGAS_FABRIC": "tcp"},
}


def missing():
    """The reason why no program can run, or None."""
    if reason := shmem_jobs.missing():
        return reason
    if not pathlib.Path(COMPILER[0]).exists():
        return f"{COMPILER[0]} is not there"
    return None


def compile_source(words, limit_s=BUILD_LIMIT_S):
    """Run the compiler, and return its end."""
    return subprocess.run(
        [*COMPILER, *map(str, words)], capture_output=True, text=True, timeout=limit_s
    )


class Programs:
    """Compile programs into a folder, once each, and run them."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.jobs = shmem_jobs.Jobs(folder)

    def build(self, name, source=None, *options):
        program = self.folder / name
        if not program.exists():
            source = source or PROGRAMS / f"{name}.cu"
            done = compile_source(["-Wall", "-Wextra", *options, source, "-o", program])
            assert done.returncode == 0 and not done.stderr, done.stderr[-4000:]
        return program

    def run(self, program, pe_count, words=(), way="shared", limit_s=120, folder=None):
        command = [shmem_jobs.BIN / "oshrun", "--quiet", "-n", str(pe_count), program, *words]
        environment = self.jobs.environment(**WAYS[way])
        return processes.run(command, environment, limit_s, folder, patience_s=5)
