"""The ARMCIs that are compared, and how to build and run programs with each."""

import dataclasses
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PROGRAMS = HERE / "programs"
LAUNCHER = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
}
# What the configure script of Global Arrays finds on all current machines.
HAS = [
    f"-DHAVE_{name}=1"
    for name in ("STDIO_H", "STDLIB_H", "STRING_H", "MATH_H", "UNISTD_H", "ASSERT_H")
] + ["-DMSG_COMMS_MPI", "-DMPI"]


@dataclasses.dataclass(frozen=True)
class Setup:
    """An ARMCI, the Global Arrays on it, and the number of extra ranks that its jobs need."""

    name: str
    include: pathlib.Path | None
    library: pathlib.Path | None
    arrays: pathlib.Path | None = None
    more_ranks: int = 0

    @property
    def is_ours(self):
        return self.name == "ours"

    def missing(self, with_arrays=False):
        if self.include is None:
            return "missing: not named"
        if not (self.include / "armci.h").exists():
            return f"missing: no {self.include}/armci.h"
        if with_arrays and not (self.arrays / "include/ga.h").exists():
            return f"missing: no {self.arrays}/include/ga.h"
        return None

    def where(self):
        """The library path for programs that were linked while it was elsewhere."""
        return {
            "LD_LIBRARY_PATH": f"{self.library}:{os.environ.get('LD_LIBRARY_PATH', '')}".rstrip(":")
        }

    def compile(self, source, program):
        return [
            "mpicc",
            "-O2",
            "-std=c11",
            "-D_GNU_SOURCE",
            "-Wall",
            "-Wextra",
            f"-I{self.include}",
            "-o",
            program,
            source,
            f"-L{self.library}",
            f"-Wl,-rpath,{self.library}",
            "-larmci",
        ]

    def compile_with_arrays(self, sources, program, *options):
        """The command of docs/comex.md; also for ports whose ARMCI is next to Global Arrays."""
        ours = ["-lcomex"] if self.is_ours else []
        return [
            "mpicc",
            "-O3",
            "-D_GNU_SOURCE",
            "-w",
            *options,
            "-o",
            program,
            *sources,
            f"-I{self.arrays}/include",
            f"-I{self.include}",
            f"-L{self.arrays}/lib",
            f"-L{self.library}",
            f"-Wl,-rpath,{self.arrays}/lib:{self.library}",
            "-lga",
            "-larmci",
            *ours,
            "-llapack",
            "-lblas",
            "-lm",
        ]

    def launch(self, program, rank_count, *words):
        return ["mpirun", "-n", str(rank_count + self.more_ranks), str(program), *map(str, words)]


def ours_of(build, arrays=None):
    """Our port, from a build or an installation.

    In a build, Global Arrays' prefix is the one of tools/comex/global_arrays.sh.
    """
    folder = pathlib.Path(build).resolve()
    headers = [
        each
        for each in (folder / "include/comex", folder / "include")
        if (each / "armci.h").exists()
    ]
    return Setup(
        "ours",
        headers[0] if headers else ROOT / "include/compat/comex",
        folder / "lib",
        pathlib.Path(arrays).resolve() if arrays else folder / "global_arrays/prefix",
    )


def rival_of(name, folder):
    path = pathlib.Path(folder).resolve() if folder else None
    return Setup(
        name, path and path / "include", path and path / "lib", path, 1 if name == "mpi-pr" else 0
    )


def earlier_of(build):
    """An earlier build of ours."""
    if not build:
        return Setup("before", None, None)
    return Setup("before", ROOT / "include/compat/comex", pathlib.Path(build).resolve() / "lib")


def build(command, program, what):
    """The program; None if it does not build, with the compiler's output on stderr."""
    made = subprocess.run(
        [str(word) for word in command],
        text=True,
        timeout=120,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    if made.returncode == 0:
        return program
    print(f"bench: {what} does not build:\n{made.stdout[-2000:]}", file=sys.stderr)
    return None


def environment(settings=None):
    """The environment without settings of ours that the caller may have set."""
    return (
        {key: value for key, value in os.environ.items() if not key.startswith("TND_COMEX_")}
        | LAUNCHER
        | (settings or {})
    )
