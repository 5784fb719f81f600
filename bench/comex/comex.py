#!/usr/bin/env python3
"""Our ComEx against Global Arrays' own ports on one machine, all in the same run, in turn.

usage: comex.py [--ours FOLDER] [--mpi-pr FOLDER] [--mpi-ts FOLDER] [--armci-mpi FOLDER] [--rounds N] [--timeout SECONDS] [--json FILE]

Builds programs/operations.c with mpicc and the ARMCI of each. FOLDER is where one is installed (include/armci.h, lib/libarmci.so), or, of
ours, a build (build/release unless told). A rival that is not named is not measured, and its row says so. mpi-pr gives a rank away
to make progress: it gets one more. Prints a table, and JSON to FILE, or after the table where none is told."""

import argparse
import dataclasses
import datetime
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "bench/common"), str(ROOT / "tools/mpi")]

import processes  # noqa: E402
import results as figures  # noqa: E402
from machine import machine  # noqa: E402

LAUNCHER = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
            "OMPI_MCA_hwloc_base_binding_policy": "none"}
RANKS = 2


@dataclasses.dataclass(frozen=True)
class Setup:
    """An ARMCI, and how many ranks its job needs for two that call it."""
    name: str
    include: pathlib.Path | None
    library: pathlib.Path | None
    more_ranks: int = 0

    @property
    def is_ours(self):
        return self.name == "ours"

    def missing(self):
        if self.include is None:
            return "missing: not named"
        return None if (self.include / "armci.h").exists() else f"missing: no {self.include}/armci.h"

    def compile(self, source, program):
        return ["mpicc", "-O2", "-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", f"-I{self.include}", "-o", str(program), str(source),
                f"-L{self.library}", f"-Wl,-rpath,{self.library}", "-larmci"]

    def launch(self, program):
        return ["mpirun", "-n", str(RANKS + self.more_ranks), str(program)]


def setups_of(wanted):
    ours = pathlib.Path(wanted.ours).resolve()
    headers = [folder for folder in (ours / "include/comex", ours / "include") if (folder / "armci.h").exists()]
    yield Setup("ours", headers[0] if headers else ROOT / "include/compat/comex", ours / "lib")
    for name, folder in (("mpi-pr", wanted.mpi_pr), ("mpi-ts", wanted.mpi_ts), ("armci-mpi", wanted.armci_mpi)):
        path = pathlib.Path(folder).resolve() if folder else None
        yield Setup(name, path and path / "include", path and path / "lib", 1 if name == "mpi-pr" else 0)


def build(setup, folder):
    """The program, or None with the compiler's words on stderr."""
    program = pathlib.Path(folder) / f"operations.{setup.name}"
    made = subprocess.run(setup.compile(HERE / "programs/operations.c", program), text=True, timeout=120, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if made.returncode == 0:
        return program
    print(f"bench: operations.c does not build with {setup.name}:\n{made.stdout[-2000:]}", file=sys.stderr)
    return None


def measure(wanted, folder):
    setups = list(setups_of(wanted))
    absent = {each.name: each.missing() for each in setups if each.missing()}
    programs = {}
    for each in setups:
        if each.name not in absent:
            programs[each] = build(each, folder)
            if programs[each] is None:
                absent[each.name] = "does not build"
    found = figures.Results(f"{RANKS} ranks, node")
    left = [each for each in setups if each.name not in absent]
    for _ in range(wanted.rounds):
        for each in list(left):
            outcome = processes.run(each.launch(programs[each]), {**os.environ, **LAUNCHER}, wanted.timeout)
            if not found.add(each, outcome):
                left.remove(each)
    return figures.rows_of(found, setups, absent)


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ours", default=str(ROOT / "build/release"))
    for name in ("mpi-pr", "mpi-ts", "armci-mpi"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--timeout", type=float, default=120, help="of one run, in seconds")
    parser.add_argument("--json", type=pathlib.Path)
    return parser.parse_args()


def main():
    wanted = options()
    result = {"bench": "comex", "date": datetime.date.today().isoformat(), "machine": machine(), "rows": []}
    with tempfile.TemporaryDirectory(prefix="tnd-bench-comex-") as folder:
        for row in measure(wanted, folder):
            figures.print_row(row)
            result["rows"].append(row)
    text = json.dumps(result, indent=1) + "\n"
    if wanted.json:
        wanted.json.write_text(text)
    else:
        print(text)


if __name__ == "__main__":
    main()
