"""How the OpenSHMEM programs of this folder are compiled and run, and on which transports.

TND_SHMEM_BIN names the folder of oshcc, oshc++ and oshrun, by default the build's bin. With the
folder of another library the programs themselves are tested. TND_SHMEM_ALL=1 runs the whole matrix,
including 64 PEs."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tools/mpi"))

import processes  # noqa: E402

PROGRAMS = pathlib.Path(__file__).resolve().parent / "programs"
BUILD = pathlib.Path(os.environ.get("TANADA_BUILD", ROOT / "build/dev"))
BIN = pathlib.Path(os.environ.get("TND_SHMEM_BIN", BUILD / "bin"))
IS_OURS = "TND_SHMEM_BIN" not in os.environ
ALL = os.environ.get("TND_SHMEM_ALL") == "1"
# Allow root, and more PEs than processors. A launcher ignores the variables of the others.
ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_plm": "isolated",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}
FOREIGN = ("FI_", "UCX_", "OMPI_", "PMIX_", "PRTE_", "SHMEM_", "SMA_", "TND_PGAS_", "TND_SHMEM_")

# Transports of operations: the environment of every PE.
CARRIERS = {
    "shared": {},
    "fabric": {"TND_PGAS_NODE": "none"},
    "tcp": {"TND_PGAS_NODE": "none", "TND_PGAS_FABRIC": "tcp;ofi_rxm"},
    "mixed": {"TND_PGAS_NODE": "by rank"},
}
# Assigns the PEs alternately to two pretended nodes.
BY_RANK = """#!/bin/sh
rank=${PMIX_RANK:-${OMPI_COMM_WORLD_RANK:-0}}
export TND_PGAS_NODE=node$((rank % 2))
exec "$@"
"""


def is_openmpi4():
    if not shutil.which("mpirun"):
        return False
    done = subprocess.run(["mpirun", "--version"], capture_output=True, text=True, timeout=30)
    return "Open MPI) 4." in done.stdout


def missing():
    """The reason why no program can run, or None."""
    for name in ("oshcc", "oshrun"):
        if not (BIN / name).exists():
            return f"{BIN}/{name} is not there"
    if not any(shutil.which(name) for name in ("mpirun", "mpiexec", "prterun", "srun")):
        return "no launcher is there: apt-get install openmpi-bin"
    return None


class Jobs:
    """Compile programs into a folder, once each, and run them."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.by_rank = self.folder / "by_rank.sh"
        self.by_rank.write_text(BY_RANK)
        self.by_rank.chmod(0o755)

    def build(self, name, source=None, *options):
        program = self.folder / name
        if not program.exists():
            source = source or next(PROGRAMS.glob(f"{name}.c*"))
            compiler = (
                [BIN / "oshc++", "-std=c++17"]
                if source.suffix == ".cc"
                else [BIN / "oshcc", "-std=c11", "-D_GNU_SOURCE"]
            )
            done = subprocess.run(
                [
                    *compiler,
                    "-O1",
                    "-g",
                    "-Wall",
                    "-Wextra",
                    "-Wno-deprecated-declarations",
                    "-I",
                    PROGRAMS,
                    "-o",
                    program,
                    source,
                    "-pthread",
                    *options,
                ],
                capture_output=True,
                text=True,
                timeout=180,
            )
            assert done.returncode == 0, done.stderr[-3000:]
            assert not IS_OURS or not done.stderr, done.stderr[-3000:]
        return program

    def command(self, name, pe_count, words=(), carrier="shared", options=()):
        program = self.build(name)
        wrapper = [self.by_rank] if carrier == "mixed" else []
        return [BIN / "oshrun", "-n", str(pe_count), *options, *wrapper, program, *map(str, words)]

    def environment(self, carrier="shared", **more):
        kept = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
        carried = {} if carrier == "mixed" else CARRIERS[carrier]
        return {**kept, **ENVIRONMENT, **carried, "TMPDIR": str(self.folder), **more}

    def run(
        self, name, pe_count, words=(), carrier="shared", limit_s=120, patience_s=0.0, **environment
    ):
        """Run a job. Return its processes.Outcome."""
        return processes.run(
            self.command(name, pe_count, words, carrier),
            self.environment(carrier, **environment),
            limit_s,
            patience_s=patience_s,
        )


def build_shmem4py():
    """An interpreter with shmem4py, and the folder of its tests. Skips if PyPI does not answer."""
    done = subprocess.run(
        [ROOT / "tools/shmem4py.sh", BIN], capture_output=True, text=True, timeout=900
    )
    if done.returncode == 77:
        pytest.skip(f"PyPI does not answer: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr[-3000:]
    interpreter, tests = done.stdout.splitlines()
    return interpreter, pathlib.Path(tests)


def require_passed(done):
    assert done.status == "passed" and "passed with" in done.output, (
        f"{done.status}, {done.code}, {done.seconds:.1f} s\n{done.output[-4000:]}"
    )
