"""tools/gpu/parts.sh and print_rows.py: limits of parts, what is left of a part that hangs, and the
table's size. tools/gpu/gfarm.sh: a Gfarm from a folder that was moved."""

import json
import os
import pathlib
import subprocess
import sys
import tarfile
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests" / "fixtures"))
import gfarm  # noqa: E402

BUILD = pathlib.Path(os.environ.get("TND_BUILD_DIR") or ROOT / "build/dev")
SCRIPT = f"""
set -uo pipefail
cd {ROOT}
. tools/gpu/parts.sh
"""


@pytest.fixture
def run_parts(tmp_path):
    """Runs parts in `limit` seconds; returns the output, the status, and the names of the files."""

    def run(parts, limit=30):
        results = tmp_path / "results"
        outcome = subprocess.run(
            ["bash", "-c", f"results={results} limit={limit}\n{SCRIPT}\n{parts}\nfinish"],
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=60,
            check=False,
        )
        with tarfile.open(results / "results.tar.gz") as files:
            names = {pathlib.PurePath(name).name for name in files.getnames()}
        return outcome.stdout, outcome.returncode, names

    return run


def test_a_part_that_fails_does_not_stop_the_others(run_parts):
    output, status, names = run_parts("part first 5 false\npart second 5 echo hello")
    assert status == 1
    assert "first: exit 1" in output
    assert "second: exit 0" in output
    assert {"first.log", "second.log", "summary.txt"} <= names


def runs(pid):
    """Whether the process has not ended. Nobody may have collected its status yet."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def test_a_part_that_hangs_costs_its_limit_and_leaves_no_process(run_parts, tmp_path):
    mark = tmp_path / "pid"
    hanging = f"setsid sleep 50 & echo $! >{mark}; sleep 40"
    start = time.monotonic()
    output, status, _ = run_parts(f"part hangs 5 bash -c '{hanging}'\npart last 5 true")
    assert time.monotonic() - start < 30
    assert status == 1
    assert "hangs: exit 124" in output
    assert "last: exit 0" in output
    deadline = time.monotonic() + 20
    while runs(int(mark.read_text())):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_part_without_time_is_left_out(run_parts):
    output, status, _ = run_parts("part first 5 true\npart second 5 true", limit=2)
    assert status == 1
    assert "second: left out, no time" in output


def test_functions_are_parts(run_parts):
    output, status, _ = run_parts('hello() { echo "$1 of $LIMIT"; }\npart hello 7 hello seconds')
    assert (status, "hello: exit 0" in output) == (0, True)


def row(what, met, value=1.0):
    return {"what": what, "value": value, "unit": "us", "rival": None, "met": met}


def test_rows_that_miss_their_bars_are_printed_first_in_a_bounded_size(tmp_path):
    rows = [row(f"row {i}", None) for i in range(100)] + [row("slow", False), row("fast", True)]
    (tmp_path / "some.json").write_text(json.dumps({"machine": "a GPU", "rows": rows}))
    (tmp_path / "cut.json").write_text('{"rows": [')
    command = [sys.executable, ROOT / "tools/gpu/print_rows.py", "--size", "600"]
    output = subprocess.run(
        [*command, *sorted(tmp_path.glob("*.json"))], text=True, capture_output=True, check=True
    ).stdout
    lines = output.splitlines()
    assert lines[0].startswith("some; slow") and "MISSED" in lines[0]
    assert lines[1].startswith("some; fast")
    assert len(output) < 700
    assert "more rows are in the files" in output
    assert "some: 102 rows, 1 of 2 bars met" in output
    assert "cut.json: JSONDecodeError" in output


@pytest.fixture
def gfarm_folder(tmp_path):
    """What pack_gfarm.sh gathers, in another place than where it was gathered."""
    if gfarm.missing_packages() or not (BUILD / "bin/bench_gfarm").exists():
        pytest.skip("no Gfarm, or bench_gfarm was not built")
    made, moved = tmp_path / "made", tmp_path / "moved"
    (tmp_path / "words").write_bytes(b"the\r\nother\r\n")
    (tmp_path / "text").write_bytes(b"the other text " * 1000)
    subprocess.run(
        [ROOT / "tools/gpu/pack_gfarm.sh", BUILD, made, tmp_path / "words", tmp_path / "text"],
        env={**os.environ, "PROGRAM_END": "", "GLUSTER": ""},
        check=True,
        capture_output=True,
        timeout=100,
    )
    made.rename(moved)
    return moved


def test_gfarm_runs_from_a_folder_that_was_moved(gfarm_folder, tmp_path):
    outcome = subprocess.run(
        [gfarm_folder / "tools/gpu/gfarm.sh", gfarm_folder, tmp_path / "results", "strings"]
        + ["figure7", "figure6", "cached"],
        env={"PATH": "/usr/bin:/bin", "PROGRAM_END": "", "TIME": "100"},
        cwd=tmp_path,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=120,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stdout
    with tarfile.open(tmp_path / "results/results.tar.gz") as files:
        rows = json.load(files.extractfile("./gfarm.json"))["rows"]
        assert json.loads(files.extractfile("./strings.log").readlines()[-1])["verified"]
    for name in ("figure 6, 8 MiB, replica over TCP", "figure 7", "sequential read of 8 MiB"):
        assert any(row["what"].startswith(name) for row in rows), name
    assert not list((gfarm_folder / "scratch").iterdir())
