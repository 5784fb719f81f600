#!/usr/bin/env python3
"""Compares Tanada's ComEx with Global Arrays' own ports on one machine, in turn within one run.

usage: comex.py [--ours FOLDER] [--mpi-pr FOLDER] [--mpi-ts FOLDER] [--armci-mpi FOLDER] [--rows LIST] [--ranks LIST] [--size small|large]
                [--ga-source FOLDER] [--before FOLDER] [--programs FOLDER] [--rounds N] [--timeout SECONDS] [--json FILE]

Rows: operations (programs/operations.c, two ranks), messages (programs/messages.c), stencil and
dgemm (the examples on Global Arrays), suite (timed programs of Global Arrays' own tests, from its
source). FOLDER is where an ARMCI and Global Arrays are installed (include/armci.h,
lib/libarmci.so, include/ga.h). For --ours it may be a build (default: build/release) in which
tools/comex/global_arrays.sh has built Global Arrays. A rival that is not named is not measured,
and its row shows that. mpi-pr uses one rank to make progress, so it gets one more.

The row far runs operations with TND_PGAS_NODE=none, so that ranks of one machine use the fabric.
Other ARMCIs have no such switch, so the rival is an earlier build of ours, named by --before.

--programs: where operations and messages are built, unless they exist already; for machines
without a compiler. --rounds 0: only builds them. Prints a table, and writes JSON to FILE, or after
the table if there is no FILE."""

import argparse
import json
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "bench/common"), str(ROOT / "tools/mpi")]

import array_rows  # noqa: E402
import ports  # noqa: E402
import processes  # noqa: E402
import results as figures  # noqa: E402
from machine import header  # noqa: E402

ROWS = ("operations", "messages", "stencil", "dgemm", "suite")
MORE_ROWS = ("far",)


def setups_of(wanted):
    return [
        ports.ours_of(wanted.ours),
        ports.rival_of("mpi-pr", wanted.mpi_pr),
        ports.rival_of("mpi-ts", wanted.mpi_ts),
        ports.rival_of("armci-mpi", wanted.armci_mpi),
    ]


def absent_of(setups, with_arrays):
    return {each.name: each.missing(with_arrays) for each in setups if each.missing(with_arrays)}


def in_turn(programs, setups, absent, rounds, found, once):
    """Runs every set-up with a program once a round, until it fails. once(setup) returns the outcome."""
    for each in setups:
        if each.name not in absent and programs.get(each) is None:
            absent[each.name] = "does not build"
    left = [each for each in setups if each.name not in absent]
    for _ in range(rounds):
        for each in list(left):
            if not found.add(each, once(each)):
                left.remove(each)
    return figures.rows_of(found, setups, absent)


def on_armci(wanted, setups, folder, name, rank_counts=(2,), where="node"):
    """Rows of a program in programs/, which uses only ARMCI."""
    settings = {"TND_PGAS_NODE": "none"} if where == "far" else {}
    absent = absent_of(setups, with_arrays=False)
    programs = {}
    for each in setups:
        if each.name not in absent:
            program = pathlib.Path(wanted.programs or folder) / f"{name}.{where}.{each.name}"
            is_built = program.exists() or ports.build(
                each.compile(ports.PROGRAMS / f"{name}.c", program),
                program,
                f"{name}.c with {each.name}",
            )
            programs[each] = program if is_built else None
    for rank_count in rank_counts:

        def once(each, rank_count=rank_count):
            return processes.run(
                each.launch(programs[each], rank_count),
                ports.environment(each.where() | settings),
                wanted.timeout,
            )

        yield from in_turn(
            programs,
            setups,
            dict(absent),
            wanted.rounds,
            figures.Results(f"{rank_count} ranks, {where}"),
            once,
        )


def of_job(job, wanted, setups, folder, rank_counts):
    absent = absent_of(setups, with_arrays=True)
    programs = {}
    for each in setups:
        if each.name not in absent:
            program = pathlib.Path(folder) / f"{pathlib.Path(job.source).stem}.{each.name}"
            if not program.exists():
                ports.build(
                    job.command(each, program, pathlib.Path(wanted.ga_source)),
                    program,
                    f"{job.source} with {each.name}",
                )
            programs[each] = program if program.exists() else None
    sums = {}
    for rank_count in rank_counts:

        def once(each, rank_count=rank_count):
            # Programs of the suite write files to their working directory.
            outcome = processes.run(
                each.launch(programs[each], rank_count, *job.words),
                ports.environment(),
                wanted.timeout,
                folder,
            )
            return array_rows.with_figure(job, outcome, sums)

        yield from in_turn(
            programs,
            setups,
            dict(absent),
            wanted.rounds,
            figures.Results(f"{rank_count} ranks, node"),
            once,
        )


def measure(wanted, folder):
    setups = setups_of(wanted)
    for kind in wanted.rows:
        if kind == "operations":
            yield from on_armci(wanted, setups, folder, "operations")
            continue
        if kind == "messages":
            yield from on_armci(wanted, setups, folder, "messages", wanted.ranks)
            continue
        if kind == "far":
            yield from on_armci(
                wanted,
                [ports.ours_of(wanted.ours), ports.earlier_of(wanted.before)],
                folder,
                "operations",
                where="far",
            )
            continue
        for job in array_rows.jobs_of(kind, wanted.size):
            yield from of_job(job, wanted, setups, folder, wanted.ranks)


def names(text):
    chosen = text.split(",")
    if unknown := set(chosen) - set(ROWS + MORE_ROWS):
        raise argparse.ArgumentTypeError(
            f"none of {', '.join(ROWS + MORE_ROWS)}: {', '.join(sorted(unknown))}"
        )
    return chosen


def options():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ours", default=str(ROOT / "build/release"))
    for name in ("mpi-pr", "mpi-ts", "armci-mpi"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--rows", type=names, default=list(ROWS))
    parser.add_argument(
        "--ranks",
        type=lambda text: [int(each) for each in text.split(",")],
        default=[2, 4],
        help="of messages and the programs on Global Arrays",
    )
    parser.add_argument(
        "--size", choices=("small", "large"), default="small", help="of the examples"
    )
    parser.add_argument("--ga-source", default=str(ROOT / "build/release/global_arrays/source"))
    parser.add_argument("--before", help="of far: an earlier build of ours")
    parser.add_argument("--programs", type=pathlib.Path, help="of operations and messages")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--timeout", type=float, default=120, help="of one run, in seconds")
    parser.add_argument("--json", type=pathlib.Path)
    return parser.parse_args()


def main():
    wanted = options()
    result = {**header("comex"), "rows": []}
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
