"""bench/shmem/shmem.py with implementations that are scripts: its rows, its bars, rivals that are missing, wrong, slow or do not
build, and that nothing is left of those it started."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest
from living import living

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROGRAM = ROOT / "bench/shmem/shmem.py"
# Compiles nothing: the program is its name. The launcher prints what the test has put beside it.
COMPILER = """#!/bin/sh
while [ "$1" != -o ]; do shift; done
touch "$2"
"""
LAUNCHER = """#!/bin/sh
"""


def figure(what, unit, value):
    return f"""echo '{json.dumps({"what": what, "unit": unit, "value": value})}'\n"""


@pytest.fixture
def bench(tmp_path):
    """Makes implementations, and starts the program with them: what its launcher does is a shell script."""

    def make(name, script, compiler=COMPILER):
        folder = tmp_path / name / "bin"
        folder.mkdir(parents=True)
        for file, text in (("oshcc", compiler), ("oshrun", LAUNCHER + script)):
            (folder / file).write_text(text)
            (folder / file).chmod(0o755)

    def start(*words):
        scratch = tmp_path / "scratch"
        scratch.mkdir(exist_ok=True)
        openmpi = tmp_path / "openmpi/bin"
        command = [
            sys.executable,
            PROGRAM,
            "--ours",
            tmp_path / "ours",
            "--sandia",
            tmp_path / "sandia",
            "--openmpi",
            f"{openmpi}/oshcc,{openmpi}/oshrun",
            "--rows",
            "sort",
            "--pes",
            "2",
            "--transports",
            "node",
            "--json",
            tmp_path / "report.json",
            *words,
        ]
        return subprocess.Popen(
            [str(word) for word in command],
            env={**os.environ, "TMPDIR": str(scratch)},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    start.make = make
    start.folder = tmp_path
    return start


def rows_of(bench, *words):
    with bench(*words) as process:
        output = process.communicate(timeout=60)[0]
    assert process.returncode == 0, output
    report = json.loads((bench.folder / "report.json").read_text())
    assert report["bench"] == "shmem" and report["date"] and report["machine"]
    return {row["what"]: row for row in report["rows"]}


def test_the_best_setting_of_the_best_rival_counts(bench):
    bench.make("ours", figure("barrier", "us", 2) + figure("bandwidth", "GB/s", 8))
    bench.make("openmpi", figure("barrier", "us", 4) + figure("bandwidth", "GB/s", 10))
    bench.make(
        "sandia",
        'case "$FI_SHM_DISABLE_CMA" in 1) '
        + figure("barrier", "us", 3)
        + ";; *) "
        + figure("barrier", "us", 5)
        + ";; esac\n"
        + figure("bandwidth", "GB/s", 1),
    )
    rows = rows_of(bench)
    barrier, bandwidth = rows["barrier, 2 PEs, node"], rows["bandwidth, 2 PEs, node"]
    assert (barrier["rival"], barrier["rival_value"], barrier["ratio"]) == (
        "sandia shm no cma",
        3,
        0.6667,
    )
    assert barrier["better"] == "lower" and barrier["met"] is True
    assert bandwidth["rival"].startswith("openmpi") and bandwidth["ratio"] == 0.8
    assert bandwidth["better"] == "higher" and bandwidth["met"] is False


def test_the_median_of_the_rounds_counts(bench):
    count = bench.folder / "count"
    bench.make(
        "ours",
        f"echo >> {count}\n"
        + """echo '{"what": "barrier", "unit": "us", "value": '$(wc -l < """
        + f"{count})'}}'\n",
    )
    rows = rows_of(bench, "--rounds", "3")
    assert rows["barrier, 2 PEs, node"]["value"] == 2


def test_a_rival_that_is_not_there_is_told_in_the_row(bench):
    bench.make("ours", figure("barrier", "us", 2))
    row = rows_of(bench)["barrier, 2 PEs, node"]
    assert row["value"] == 2 and row["rival"] is None and row["met"] is None
    assert row["setups"]["sandia shm"].startswith("missing: no ") and row["setups"][
        "openmpi posix"
    ].startswith("missing: no ")


def test_ours_missing_leaves_the_rivals_figures(bench):
    bench.make("openmpi", figure("barrier", "us", 4))
    row = rows_of(bench)["barrier, 2 PEs, node"]
    assert row["value"] is None and row["rival_value"] == 4 and row["met"] is None


@pytest.mark.parametrize(
    "script, word",
    [
        ("echo 'PE 1: sort.c:1: this does not hold' >&2; exit 1", "wrong"),
        ("exit 3", "failed"),
        ("sleep 60", "hangs"),
    ],
)
def test_ours_without_a_figure_misses_the_bar(bench, script, word):
    bench.make("ours", figure("barrier", "us", 2) + script + "\n" + figure("sort", "M/s", 9))
    bench.make("openmpi", figure("barrier", "us", 4) + figure("sort", "M/s", 5))
    rows = rows_of(bench, "--timeout", "2")
    assert rows["barrier, 2 PEs, node"]["met"] is True  # printed before
    row = rows["sort, 2 PEs, node"]
    assert row["value"] is None and row["met"] is False and row["setups"]["ours node"] == word


def test_ours_that_does_not_build_misses_the_bar(bench):
    bench.make("ours", "exit 0", compiler="#!/bin/sh\nexit 1\n")
    bench.make("openmpi", figure("barrier", "us", 4))
    row = rows_of(bench)["barrier, 2 PEs, node"]
    assert row["met"] is False and row["setups"]["ours node"] == "does not build"


def test_rivals_that_spin_are_left_out_where_pes_share_processors(bench):
    bench.make("ours", figure("barrier", "us", 2))
    bench.make("sandia", figure("barrier", "us", 4))
    many = str(os.cpu_count() + 1)
    row = rows_of(bench, "--pes", many)[f"barrier, {many} PEs, node"]
    assert row["setups"]["sandia shm"] == "left out: spins" and row["met"] is None
    row = rows_of(bench, "--pes", many, "--spinning")[f"barrier, {many} PEs, node"]
    assert row["setups"]["sandia shm"] == 4 and row["met"] is True


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_no_process_and_no_folder(bench, number):
    bench.make("ours", f"touch {bench.folder}/started\nsleep 61.{os.getpid()}")
    with bench() as process:
        end = time.monotonic() + 20
        while not (bench.folder / "started").exists() and time.monotonic() < end:
            time.sleep(0.05)
        assert (bench.folder / "started").exists()
        process.send_signal(number)
        process.communicate(timeout=20)
    assert process.returncode != 0
    assert living(bench.folder / "ours") == [] and living(f"61.{os.getpid()}") == []
    assert list((bench.folder / "scratch").iterdir()) == []
