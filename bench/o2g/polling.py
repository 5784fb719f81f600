#!/usr/bin/env python3
"""Programs that poll for messages during their own work, or use windows: o2g against plain TCP
under the same MPI.

usage: polling.py [--setups WORD,...] [--rounds N] [--quick] [--provider FOLDER] [--programs
FOLDER]
                  [--json FILE]

Each MPI's plain TCP is its default for TCP: Open MPI's btl, MPICH's libfabric provider. Both
alternate in each round. Prints a table, and JSON to FILE.
"""

import argparse
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench/common"), str(ROOT / "tools/mpi")]

import o2g  # noqa: E402
import runs  # noqa: E402
from machine import header  # noqa: E402
from runs import Experiment, Figure  # noqa: E402

PLAIN = {"openmpi4": "btl tcp", "openmpi5": "btl tcp", "mpich5": "ofi tcp"}


def experiments(quick):
    """The length of the work between polls: one that a library could mistake for a wait, and one
    that it could not.
    """
    share = 10 if quick else 1
    short, long, puts = 100_000 // share, 100 // share, 2_000 // share
    yield Experiment(
        "short pieces",
        "polling",
        ("pieces", str(short), "2", "0"),
        (
            Figure("total", f"{short} pieces of 2 us, MPI_Test after each", "s", bar=1.2),
            Figure("sleeps", "sleeps within these MPI_Test", "", bar=20, alone=True),
        ),
        timeout_s=120,
    )
    yield Experiment(
        "long pieces",
        "polling",
        ("pieces", str(long), "10000", "1"),
        (
            Figure(
                "total",
                f"after 1 s of MPI_Test, {long} pieces of 10 ms, MPI_Test after each",
                "s",
                bar=1.2,
            ),
            Figure("sleeps", "sleeps within these MPI_Test", "", bar=20, alone=True),
        ),
        timeout_s=120,
    )
    yield Experiment(
        "put",
        "polling",
        ("put", str(puts)),
        (Figure("each", "MPI_Put of 8 B and MPI_Win_flush_local", "us", 1e6),),
        timeout_s=120,
    )


def options():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--setups", default="", help="words of the names of MPIs")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--provider", type=pathlib.Path, default=ROOT / "build/dev/lib")
    parser.add_argument("--programs", type=pathlib.Path, help="where programs are built and kept")
    parser.add_argument("--json", type=pathlib.Path)
    return parser.parse_args()


def pairs(wanted):
    """For each available MPI, its plain TCP and o2g."""
    setups = o2g.chosen([word for word in wanted.setups.split(",") if word], wanted.provider)
    for name, carrier in PLAIN.items():
        pair = [
            each for each in setups if each.mpi.name == name and each.carrier in (carrier, "o2g")
        ]
        if len(pair) == 2:
            yield pair


def rows(wanted, folder):
    for pair in pairs(wanted):
        for experiment in experiments(wanted.quick):
            for row in runs.measure(
                experiment, pair, wanted.rounds, o2g.launcher(experiment, folder, None)
            ):
                yield {**row, "what": f"{pair[0].mpi.title}: {row['what']}"}


def main():
    wanted = options()
    result = {**header("o2g_polling"), "rows": []}
    with o2g.program_folder(wanted) as folder:
        for row in rows(wanted, folder):
            runs.print_row(row)
            result["rows"].append(row)
            if wanted.json:
                wanted.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
