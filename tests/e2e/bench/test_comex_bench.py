"""bench/comex with scripts for compiler and launcher.

Rows, bars, different checksums, builds without swapping, and cleanup of the flash."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
COMPILER = """#!/bin/sh
while [ "$1" != -o ]; do shift; done
touch "$2"
"""


@pytest.fixture
def bench(tmp_path):
    """run(script, program, *words) returns the rows.

    mpirun is `script`, which may use $3, the program, and the environment.
    """
    tools = tmp_path / "tools"
    for port in ("ours", "stock"):
        for folder in ("include", "global_arrays/prefix/include"):
            (tmp_path / port / folder).mkdir(parents=True)
        (tmp_path / port / "include/armci.h").touch()
        (tmp_path / port / "include/ga.h").touch()
        (tmp_path / port / "global_arrays/prefix/include/ga.h").touch()
    (tmp_path / "flash").mkdir()
    tools.mkdir()

    def run(script, program, *words):
        for name, text in (
            ("mpicc", COMPILER),
            ("mpirun", "#!/bin/sh\nprogram=$3\n" + script),
            ("fio", "#!/bin/sh\necho no such disk >&2\nexit 1\n"),
        ):
            (tools / name).write_text(text)
            (tools / name).chmod(0o755)
        command = [
            sys.executable,
            ROOT / "bench/comex" / program,
            "--ours",
            tmp_path / "ours",
            "--json",
            tmp_path / "rows.json",
            *words,
        ]
        done = subprocess.run(
            [str(word) for word in command],
            env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "TMPDIR": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        assert not list((tmp_path / "flash").iterdir())
        return {
            row["what"]: row for row in json.loads((tmp_path / "rows.json").read_text())["rows"]
        }

    run.folder = tmp_path
    return run


def report(gflops, checksum="5", **more):
    found = {
        "program": "ga_stencil9",
        "ranks": 16,
        "gflops": gflops,
        "seconds": 2,
        "global_bytes_a_rank": 1 << 20,
        "checksum": checksum,
    } | more
    return f"echo '{json.dumps(found)}'"


def compare(bench, ours, theirs):
    script = f"case $program in *.ours) {ours} ;; *) {theirs} ;; esac\n"
    rows = bench(
        script,
        "comex.py",
        "--mpi-ts",
        bench.folder / "stock",
        "--rows",
        "stencil",
        "--ranks",
        2,
        "--rounds",
        2,
    )
    return rows["stencil, 2 ranks, node"]


@pytest.mark.parametrize("gflops, is_met", [(12, True), (9, False)])
def test_a_program_against_a_port(bench, gflops, is_met):
    row = compare(bench, report(gflops), report(10))
    assert (row["value"], row["rival"], row["rival_value"], row["met"]) == (
        gflops,
        "mpi-ts",
        10,
        is_met,
    )
    assert row["setups"]["mpi-pr"] == "missing: not named"


def test_a_result_that_differs_is_no_figure(bench):
    row = compare(bench, report(12), report(10, "6"))
    assert row["setups"]["mpi-ts"] == "wrong" and row["rival"] is None


def test_a_port_that_fails_is_said(bench):
    row = compare(bench, "exit 3", report(10))
    assert row["setups"]["ours"] == "failed" and row["met"] is False


def out_of_core(
    bench, away, counters='{"bytes_out": 40000000, "bytes_in": 60000000, "move_seconds": 0.5}'
):
    script = f"""if [ -z "$TND_COMEX_MEMORY" ]; then {report(10)}
else {away}; case "$*" in *"--steps 40"*) sweeps=2 ;; *) sweeps=1 ;; esac; [ -z '{counters}' ] || echo '{counters}' | sed "s/ 4/ $((sweeps * 4))/; s/ 6/ $((sweeps * 6))/" >"$TND_COMEX_REPORT"; fi
"""
    rows = bench(
        script,
        "out_of_core.py",
        "--swap",
        bench.folder / "flash",
        "--rows",
        "stencil",
        "--steps-at-once",
        10,
        "--sweeps",
        2,
    )
    return list(rows.values())


def test_a_run_that_swaps(bench):
    speed, moved, rate = out_of_core(bench, report(8))
    assert (speed["ratio"], speed["bar"], speed["met"]) == (0.8, 0.7, True)
    # 16 ranks' 1 MiB, twice for each of two sweeps: 67 MB. With twice the sweeps the script
    # reports twice the bytes.
    assert (moved["value"], moved["rival_value"], moved["met"]) == (0.1, 0.067108864, False)
    assert rate["value"] is None and "no such disk" in rate["reason"]


@pytest.mark.parametrize(
    "away, counters, words",
    [
        (report(8, "6"), "{}", "does not hold"),
        (report(8), "", "does not swap"),
        ("exit 1", "{}", "failed after"),
    ],
)
def test_no_figure_without_a_result_that_swapped(bench, away, counters, words):
    rows = out_of_core(bench, away, counters)
    assert len(rows) == 1 and rows[0]["value"] is None and words in rows[0]["reason"]
