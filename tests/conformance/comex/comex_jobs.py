"""Compiles and runs the ARMCI programs of this folder.

TND_COMEX_LIB names the folder of libarmci.so; the default is the build's lib. With another library
there, and its headers in TND_COMEX_INCLUDE, the programs themselves are tested."""

import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tools/mpi"))

import processes  # noqa: E402

PROGRAMS = pathlib.Path(__file__).resolve().parent / "programs"
BUILD = pathlib.Path(os.environ.get("TANADA_BUILD", ROOT / "build/dev"))
LIB = pathlib.Path(os.environ.get("TND_COMEX_LIB", BUILD / "lib"))
INCLUDE = pathlib.Path(os.environ.get("TND_COMEX_INCLUDE", ROOT / "include/compat/comex"))
# Works as root, with more ranks than processors, and without name resolution.
ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_plm": "isolated",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}
FOREIGN = ("FI_", "UCX_", "OMPI_", "PMIX_", "PRTE_", "TND_PGAS_", "TND_COMEX_", "TEST_")
# Each rank is on the node at its position in TEST_NODES, or in TEST_PLACES if programs must see
# other nodes than those.
ON_NODES = """#!/bin/sh
rank=${PMIX_RANK:-${OMPI_COMM_WORLD_RANK:-0}}
node=$(echo "${TEST_PLACES:-$TEST_NODES}" | cut -d ' ' -f $((rank + 1)))
export TND_PGAS_NODE="node$node"
exec "$@"
"""


def missing():
    """The reason why nothing can be run, or None."""
    for command in ("mpicc", "mpirun"):
        if not shutil.which(command):
            return f"there is no {command}: apt-get install openmpi-bin libopenmpi-dev"
    if not (LIB / "libarmci.so").exists():
        return f"{LIB}/libarmci.so is not there"
    return None


def libclang():
    """Compiler and linker options for libclang, or None."""
    folders = [
        header.parents[2]
        for header in sorted(pathlib.Path("/usr/lib").glob("llvm-*/include/clang-c/Index.h"))
    ]
    found = [folder for folder in folders if (folder / "lib/libclang.so").exists()]
    return (
        [
            f"-isystem{found[-1]}/include",
            f"-L{found[-1]}/lib",
            "-lclang",
            f"-Wl,-rpath,{found[-1]}/lib",
        ]
        if found
        else None
    )


def has_fabric():
    return (LIB / "libtanada_fabric.so").exists()


def wrapper_for_nodes(folder):
    """A program that starts another one on the node of its rank."""
    wrapper = pathlib.Path(folder) / "on_nodes.sh"
    wrapper.write_text(ON_NODES)
    wrapper.chmod(0o755)
    return wrapper


class Jobs:
    """Compiles programs into a folder, once each, and runs them. No rank survives a run."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.on_nodes = wrapper_for_nodes(folder)

    def build(self, name):
        program = self.folder / name
        if not program.exists():
            source = PROGRAMS / f"{name}.c"
            compiler = ["mpicc", "-std=c11"]
            if not source.exists():
                source = PROGRAMS / f"{name}.cc"
                compiler = [
                    "mpicxx",
                    "-std=c++20",
                    "-DOMPI_SKIP_MPICXX",
                    "-DMPICH_SKIP_MPICXX",
                    "-pthread",
                ]
            command = [
                *compiler,
                "-D_GNU_SOURCE",
                "-O1",
                "-g",
                "-Wall",
                "-Wextra",
                "-Werror",
                f"-I{INCLUDE}",
                f"-I{PROGRAMS}",
                "-o",
                program,
                source,
                f"-L{LIB}",
                "-Wl,--no-as-needed",
                "-larmci",
                "-lcomex",
                f"-Wl,-rpath,{LIB}",
                "-lm",
                *((libclang() or []) if name == "compiler" else []),
            ]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120)
            assert done.returncode == 0, done.stderr[-3000:]
        return program

    def run(self, name, rank_count, words=(), nodes="", limit_s=120, settings=None, inside=()):
        """Returns a processes.Outcome.

        `nodes`: the node of each rank, separated by blanks. `settings`: environment variables.
        `inside`: a command that runs the launcher.
        """
        environment = {
            key: value for key, value in os.environ.items() if not key.startswith(FOREIGN)
        } | ENVIRONMENT
        wrapper = [self.on_nodes] if nodes else []
        command = [
            *inside,
            "mpirun",
            "-n",
            rank_count,
            "--oversubscribe",
            *wrapper,
            self.build(name),
            *words,
        ]
        return processes.run(
            command,
            environment | ({"TEST_NODES": nodes} if nodes else {}) | (settings or {}),
            limit_s,
            patience_s=5.0,
        )


def require_passed(done):
    assert done.status == "passed" and "passed" in done.output, (
        f"{done.status}, {done.code}, {done.seconds:.1f} s\n{done.output[-4000:]}"
    )
    assert done.left == 0
