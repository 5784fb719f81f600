#!/usr/bin/env python3
"""o2g under unmodified MPI programs against the MPIs' own transports over TCP, alternating in the
same run.

usage: o2g.py [--rows point,overlap,match,many,stencil,idle,npb] [--setups WORD,...] [--rounds N]
[--quick]
              [--provider FOLDER] [--npb FOLDER] [--classes S,W,A] [--benchmarks IS,CG,...]
              [--ranks 4,16]
              [--programs FOLDER] [--build] [--json FILE]

The MPIs come from tools/mpi/install.sh, and the provider from FOLDER (build/release/lib).
--setups keeps those whose name contains one of the words. overlap and stencil run in network
namespaces and need root. --npb: the source of the NAS Parallel Benchmarks 3.4 for MPI (the
folder NPB3.4-MPI), which is copied and built elsewhere. --programs: a folder where programs are
built and kept; --build does only that. The folder can be copied to a machine without a Fortran
compiler, where LD_LIBRARY_PATH must contain libgfortran's folder. Prints a table, and JSON to
FILE.
"""

import argparse
import contextlib
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench/common"), str(ROOT / "tools/mpi")]

import experiments  # noqa: E402
import link as links  # noqa: E402
import npb  # noqa: E402
import runs  # noqa: E402
import setups as known  # noqa: E402
from machine import header  # noqa: E402

PROGRAMS = pathlib.Path(__file__).resolve().parent / "programs"


def chosen(words, provider):
    """The requested set-ups that are available; the others are reported on stderr."""
    found = []
    for each in known.setups(provider):
        if words and not any(word in each.name for word in words):
            continue
        reason = each.missing()
        if reason:
            print(f"bench: {each.name} is left out: {reason}", file=sys.stderr)
        else:
            found.append(each)
    return found


def program_of(setup, name, folder):
    """The program compiled for the set-up's MPI."""
    path = folder / f"{name}.{setup.mpi.name}"
    if not path.exists():
        subprocess.run(setup.compile(PROGRAMS / f"{name}.c", path), check=True, timeout=120)
    return path


def launcher(experiment, folder, link):
    """How measure() launches a set-up: at the ends of the link, if there is one."""

    def launch(setup):
        program = program_of(setup, experiment.program, folder)
        if link is None:
            return setup.launch(
                experiment.ranks, program, *experiment.words
            ), setup.all_environment()
        command = setup.launch(
            experiment.ranks, program, *experiment.words, hosts=link.hosts, agent=link.agent
        )
        return link.inside(command), setup.all_environment()

    return launch


def measure(experiment, setups, rounds, folder):
    if not experiment.over_link:
        return runs.measure(experiment, setups, rounds, launcher(experiment, folder, None))
    reason = links.missing()
    if reason:
        print(f"bench: {experiment.name} is left out: {reason}", file=sys.stderr)
        return []
    with links.Link() as link:
        return runs.measure(experiment, setups, rounds, launcher(experiment, folder, link))


def options():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", default="point,overlap,match,stencil,idle")
    parser.add_argument("--setups", default="")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--quick",
        action="store_true",
        help="short runs that show that all works; figures mean little",
    )
    parser.add_argument("--provider", type=pathlib.Path, default=ROOT / "build/release/lib")
    parser.add_argument("--npb", type=pathlib.Path)
    parser.add_argument("--classes", default="S,W,A")
    parser.add_argument("--benchmarks", default=",".join(npb.BENCHMARKS))
    parser.add_argument(
        "--ranks", default="4", help="of the NAS Parallel Benchmarks, several with commas"
    )
    parser.add_argument(
        "--programs",
        type=pathlib.Path,
        help="where programs are built and kept (default: a temporary folder)",
    )
    parser.add_argument(
        "--build", action="store_true", help="build the programs of the rows, and run none"
    )
    parser.add_argument("--json", type=pathlib.Path)
    return parser.parse_args()


def npb_experiments(wanted, folder):
    """Each requested NAS Parallel Benchmark, with its launch."""
    if wanted.npb is None and wanted.programs is None:
        print("bench: npb is left out: --npb names no source", file=sys.stderr)
        return
    for class_name, benchmark, ranks in itertools.product(
        wanted.classes.split(","), wanted.benchmarks.split(","), wanted.ranks.split(",")
    ):
        if npb.can_run(benchmark, int(ranks)):
            yield npb.experiment(wanted.npb, folder, benchmark, class_name, int(ranks))


def all_rows(wanted, setups, folder):
    by_name = experiments.all_of(wanted.quick)
    for name in wanted.rows.split(","):
        if name == "npb":
            for experiment, launch in npb_experiments(wanted, folder):
                yield from runs.measure(experiment, setups, wanted.rounds, launch)
            continue
        for experiment in by_name[name]:
            yield from measure(experiment, setups, wanted.rounds, folder)


def build(wanted, setups, folder):
    """Builds every program of the rows without running one."""
    by_name = experiments.all_of(wanted.quick)
    for name, setup in itertools.product(wanted.rows.split(","), setups):
        for each in by_name.get(name, ()):
            program_of(setup, each.program, folder)
        if name == "npb":
            for _, launch in npb_experiments(wanted, folder):
                launch(setup)


@contextlib.contextmanager
def program_folder(wanted):
    if wanted.programs is None:
        with tempfile.TemporaryDirectory(prefix="tnd-bench-o2g-") as folder:
            yield pathlib.Path(folder)
        return
    wanted.programs.mkdir(parents=True, exist_ok=True)
    yield wanted.programs.resolve()


def main():
    wanted = options()
    setups = chosen([word for word in wanted.setups.split(",") if word], wanted.provider)
    result = {**header("o2g"), "rows": []}
    with program_folder(wanted) as folder:
        if wanted.build:
            build(wanted, setups, folder)
            return
        for row in all_rows(wanted, setups, folder):
            runs.print_row(row)
            result["rows"].append(row)
            # Called after each row, so that an aborted run keeps its rows.
            if wanted.json:
                wanted.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
