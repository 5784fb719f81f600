#!/usr/bin/env python3
"""Measures what programs of Global Arrays' suite move when they have memory for one of four ranks.

usage: swap_ins.py --swap FOLDER --before FOLDER [--ours FOLDER] [--budget SIZE] [--programs LIST]
                   [--rounds N] [--timeout SECONDS] [--json FILE]

Compares this build with the libcomex.so of an earlier one, in turns. --before has its libraries.
--ours is a build in which tools/comex/global_arrays.sh has built the programs. Rows: bytes that
were read and written by moves and by requests, and the time of the program. Each is the median of
the rounds. Sizes are bytes with K, M or G."""

import argparse
import json
import os
import pathlib
import statistics
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "bench/common"), str(ROOT / "tools/mpi")]

import ports  # noqa: E402
import processes  # noqa: E402
from machine import header  # noqa: E402
from out_of_core import (  # noqa: E402
    Failed,
    counters_of,
    last_words,
    missed,
    report,
    row,
    size_of,
)

RANKS = 4
PROGRAMS = ("lock", "mtest", "normc", "pgtest")
MOVED = ("bytes_out", "bytes_in", "bytes_served", "bytes_written_back")
BARS = {"moved": 0.5, "time": 1.0}


class Build:
    """The libraries that a program is run with."""

    def __init__(self, name, libraries):
        self.name, self.libraries = name, pathlib.Path(libraries).resolve()
        self.runs = []

    def run(self, program, wanted, folder):
        """Appends the bytes that were moved, the seconds and all counters."""
        report_file = folder / "report.json"
        report_file.unlink(missing_ok=True)
        settings = {
            "LD_LIBRARY_PATH": str(self.libraries),
            "TND_COMEX_MEMORY": str(wanted.budget),
            "TND_COMEX_RESERVE": "0",
            "TND_COMEX_SWAP": f"file://{pathlib.Path(wanted.swap).resolve()}",
            "TND_COMEX_REPORT": str(report_file),
        }
        words = ["mpirun", "-n", RANKS, "--oversubscribe", program]
        outcome = processes.run(words, ports.environment(settings), wanted.timeout, folder)
        if outcome.status != "passed" or not report_file.exists():
            raise Failed(f"{self.name}: {last_words(outcome)}")
        counters = counters_of(json.loads(report_file.read_text()))
        moved = sum(counters.get(name, 0) for name in MOVED)
        self.runs.append((moved, outcome.seconds, counters))

    def median(self, index):
        return statistics.median(run[index] for run in self.runs)


def rows_of(name, program, wanted, folder):
    budget = f"{wanted.budget >> 20} MiB"
    names = (f"{name}, {RANKS} ranks, {budget}: bytes moved", f"{name}, {RANKS} ranks, {budget}")
    builds = [Build("ours", wanted.ours / "lib"), Build("before", wanted.before)]
    try:
        if not program.exists():
            raise Failed(f"missing: no {program}; tools/comex/global_arrays.sh makes it")
        for _ in range(wanted.rounds):
            for build in builds:
                build.run(program, wanted, folder)
    except Failed as reason:
        yield missed(names[0], "GB", "before", str(reason), BARS["moved"])
        return
    ours, before = builds
    moved = [build.median(0) / 1e9 for build in builds]
    yield row(
        names[0],
        moved[0],
        "GB",
        "before",
        moved[1],
        BARS["moved"],
        "lower",
        counters=[ours.runs[-1][2], before.runs[-1][2]],
    )
    yield row(names[1], ours.median(1), "s", "before", before.median(1), BARS["time"], "lower")


def options():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--swap", required=True, help="a folder on the flash")
    parser.add_argument("--before", required=True, type=pathlib.Path)
    parser.add_argument("--ours", default=ROOT / "build/release", type=pathlib.Path)
    parser.add_argument("--budget", type=size_of, default=56 << 20)
    parser.add_argument("--programs", type=lambda text: text.split(","), default=list(PROGRAMS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--timeout", type=float, default=150, help="of one run, in seconds")
    parser.add_argument("--json", type=pathlib.Path)
    return parser.parse_args()


def main():
    wanted = options()
    suite = wanted.ours.resolve() / "global_arrays/build/global/testing"
    result = {**header("comex_swap_ins"), "load": os.getloadavg()[0], "rows": []}
    with tempfile.TemporaryDirectory(prefix="tnd-bench-comex-") as folder:
        rows = (
            found
            for name in wanted.programs
            for found in rows_of(name, suite / f"{name}.x", wanted, pathlib.Path(folder))
        )
        report(result, rows, wanted.json)


if __name__ == "__main__":
    main()
