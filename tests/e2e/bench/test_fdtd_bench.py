"""bench/fdtd/several_pes.py with programs that are scripts: rows of pools and files, a run
that fails, and no daemon left.
"""

import json
import pathlib
import subprocess
import sys

import pytest
from living import living

ROOT = pathlib.Path(__file__).resolve().parents[3]
LAUNCHER = """#!/bin/sh
while [ "$1" != -n ]; do shift; done
shift
PE_COUNT=$1; export PE_COUNT; shift
exec "$@"
"""
DAEMON = """#!/bin/sh
while [ "$1" != --port-file ]; do shift; done
echo 7 >"$2"
while :; do sleep 0.1; done
"""
PROGRAM = """#!/bin/sh
[ "$PE_COUNT" != 3 ] || exit 1
while [ "$1" != --output ]; do shift; done
mkdir -p "$2"
echo '{"run_seconds": 10, "lost_seconds": 1,
 "compare": {"with_seconds": 5.05, "without_seconds": 5}}' >"$2/timings.json"
"""


@pytest.fixture
def run(tmp_path):
    """Runs the benchmark; returns its rows, its errors and its folder."""

    def start(pes):
        folder = tmp_path / "folder"
        (folder / "bin").mkdir(parents=True)
        scripts = {"oshrun": LAUNCHER, "tanada-poold": DAEMON, "fdtd_cuda": PROGRAM}
        for name, script in scripts.items():
            path = folder / "bin" / name
            path.write_text(script)
            path.chmod(0o755)
        file = tmp_path / "rows.json"
        command = [sys.executable, ROOT / "bench/fdtd/several_pes.py", folder, "--pes", pes]
        outcome = subprocess.run(
            [*map(str, command), "--scratch", tmp_path, "--json", file],
            text=True,
            capture_output=True,
            timeout=60,
            check=True,
        )
        return json.loads(file.read_text())["rows"], outcome.stderr, folder

    return start


def test_each_number_of_pes_has_rows_of_a_pool_and_of_files(run):
    rows, _, folder = run("1,4")
    what = "2000 steps of 226^3 by {}, a snapshot every 10: to {}"
    assert [row["what"] for row in rows if row["unit"] == "s"] == [
        what.format(pes, store) for pes in ("4 PEs", "1 PE") for store in ("a pool", "files")
    ]
    assert [row["met"] for row in rows if row["unit"] == "s"] == [True, None, True, None]
    assert rows[1]["value"] == 10.0
    assert living(folder) == []


def test_a_run_that_fails_is_reported_and_has_no_row(run):
    rows, errors, folder = run("1,3")
    assert all("by 1 PE" in row["what"] for row in rows)
    assert "3 PEs" in errors and "failed" in errors
    assert living(folder) == []
