#!/usr/bin/env python3
"""Tanada's OpenSHMEM against others on one machine, alternating in the same run.

usage: shmem.py [--ours FOLDER] [--sandia FOLDER] [--openmpi oshcc,oshrun] [--rows
latency,collectives,gups,sort] [--pes 2,4,8,16]
                [--transports node,tcp] [--setups WORD,...] [--rounds N] [--timeout SECONDS]
                [--spinning] [--json FILE]

Builds the programs with the oshcc of each. FOLDER is an installation or a build, with bin/oshcc and
bin/oshrun. The default for ours is build/release, for Sandia's SANDIA_OPENSHMEM, and for Open MPI's
those on PATH. Over tcp, PEs of the machine share no memory. --setups keeps those whose name
contains one of the words: "ours" runs only ours. Rivals run in several settings, and the best
counts for each figure. Settings whose PEs spin while they wait are skipped if there are more PEs
than processors, unless --spinning is given: a barrier takes them a tenth of a second and more
there. Prints a table, and JSON to FILE, or after the table if there is no FILE.
"""

import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "bench/common"), str(ROOT / "tools/mpi")]

import implementations  # noqa: E402
import processes  # noqa: E402
import results as figures  # noqa: E402
from machine import header  # noqa: E402

PROGRAMS = ("latency", "collectives", "gups", "sort")


def options():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ours", default=str(ROOT / "build/release"))
    parser.add_argument("--sandia", default=os.environ.get("SANDIA_OPENSHMEM"))
    parser.add_argument("--openmpi", default="oshcc,oshrun")
    parser.add_argument("--rows", default=",".join(PROGRAMS))
    parser.add_argument("--pes", default="2,4,8,16")
    parser.add_argument("--transports", default="node,tcp")
    parser.add_argument("--setups", default="")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--timeout", type=float, default=120, help="of one program on one set-up, in seconds"
    )
    parser.add_argument("--spinning", action="store_true")
    parser.add_argument("--json", type=pathlib.Path)
    return parser.parse_args()


class Programs:
    """The programs, built when they are first needed."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.failed = {}

    def get(self, library, name):
        """The program, or None if it does not build; the reason is then in `failed`."""
        path = self.folder / f"{name}.{library.name}"
        if not path.exists() and (library.name, name) not in self.failed:
            made = subprocess.run(
                library.compile(HERE / f"programs/{name}.c", path),
                text=True,
                timeout=120,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
            if made.returncode != 0:
                self.failed[library.name, name] = "does not build"
                print(
                    f"bench: {name} does not build with {library.compiler}:\n{made.stdout[-2000:]}",
                    file=sys.stderr,
                )
        return path if path.exists() else None


def known_setups(wanted):
    compiler, _, launcher = wanted.openmpi.partition(",")
    yield from implementations.ours(wanted.ours)
    yield from implementations.openmpi(compiler, launcher)
    yield from implementations.sandia(wanted.sandia)


def measure(name, pes, transport, wanted, programs):
    """Rows of one program on this many PEs: in each round, every set-up in turn."""
    words = [word for word in wanted.setups.split(",") if word]
    setups = [
        each
        for each in known_setups(wanted)
        if each.transport == transport and (not words or any(word in each.name for word in words))
    ]
    absent = {each.name: each.library.missing() for each in setups if each.library.missing()}
    if pes > os.cpu_count() and not wanted.spinning:
        absent |= {
            each.name: "left out: spins"
            for each in setups
            if each.spins and each.name not in absent
        }
    able = [each for each in setups if each.name not in absent]
    found = figures.Results(f"{pes} PEs, {transport}")
    for each in able:
        if programs.get(each.library, name) is None:
            found.reasons[each.name] = programs.failed[each.library.name, name]
    left = [each for each in able if each.name not in found.reasons]
    for _ in range(wanted.rounds):
        for each in list(left):
            try:
                outcome = processes.run(
                    each.launch(pes, programs.get(each.library, name)),
                    each.all_environment(),
                    wanted.timeout,
                )
            finally:
                each.clean()
            if not found.add(each, outcome):
                left.remove(each)
    return figures.rows_of(found, setups, absent)


def all_rows(wanted, programs):
    for transport in wanted.transports.split(","):
        for name in wanted.rows.split(","):
            for pes in (2,) if name == "latency" else [int(word) for word in wanted.pes.split(",")]:
                yield from measure(name, pes, transport, wanted, programs)


def end(*_):
    """So that a running program is ended, too. `timeout` sends its signal twice; the second one
    must not interrupt that.
    """
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(1)


def main():
    signal.signal(signal.SIGTERM, end)
    wanted = options()
    result = {**header("shmem"), "rows": []}
    with (
        tempfile.TemporaryDirectory(prefix="tnd-bench-shmem-") as folder,
        tempfile.TemporaryDirectory(prefix="tnd-bench-shmem-", dir="/dev/shm") as memory,
    ):
        # Open MPI's messages use memory that remains if PEs are ended at the time limit.
        implementations.LAUNCHERS["OMPI_MCA_btl_vader_backing_directory"] = memory
        for row in all_rows(wanted, Programs(folder)):
            figures.print_row(row)
            result["rows"].append(row)
            # Called after each row, so that an aborted run keeps its rows.
            if wanted.json:
                wanted.json.write_text(json.dumps(result, indent=1) + "\n")
    if not wanted.json:
        print(json.dumps(result))


if __name__ == "__main__":
    main()
