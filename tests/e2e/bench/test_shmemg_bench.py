"""bench/shmemg/shmemg.py with programs that are scripts: rows that survive a program's
failure, limits, PEs that act as nodes, and the titles of rows."""

import json
import pathlib
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
LAUNCHER = """#!/bin/sh
while [ "$1" != -n ]; do shift; done
shift 2
PMIX_RANK=1 exec "$@"
"""


@pytest.fixture
def run_bench(tmp_path):
    """Runs shmemg.py with programs that are shell scripts; returns the rows and the errors."""

    def run(programs, *words):
        folder = tmp_path / "folder"
        (folder / "bin").mkdir(parents=True)
        for name, script in {"oshrun": LAUNCHER, **programs}.items():
            path = folder / "bin" / name
            path.write_text(script if script.startswith("#!") else f"#!/bin/sh\n{script}")
            path.chmod(0o755)
        file = tmp_path / "rows.json"
        command = [sys.executable, ROOT / "bench/shmemg/shmemg.py", folder, "--json", file]
        outcome = subprocess.run(
            [*map(str, command), *words], text=True, capture_output=True, timeout=60, check=True
        )
        return json.loads(file.read_text())["rows"], outcome.stderr

    return run


def test_lines_before_a_failure_are_rows(run_bench):
    script = "echo put_quiet_peer_8 3.5 us\nexit 1\n"
    rows, errors = run_bench({"bench_shmemg_host_calls": script}, "--rows", "host", "--rounds", "2")
    assert [(entry["what"], entry["value"], entry["met"]) for entry in rows] == [
        ("host: put quiet peer, 8 B", 3.5, True)
    ]
    assert "failed" in errors


def test_rounds_beyond_the_limit_are_left_out(run_bench):
    script = "echo p_quiet_peer_8 1 us\nsleep 2\n"
    start = time.monotonic()
    rows, _ = run_bench(
        {"bench_shmemg_host_calls": script}, "--rows", "host", "--rounds", "20", "--limit", "5"
    )
    assert time.monotonic() - start < 15
    assert len(rows) == 1


def test_pes_of_a_node_have_its_name(run_bench):
    script = 'echo "node_8 $TND_PGAS_NODE us"\n'
    rows, _ = run_bench({"bench_shmemg_host_calls": script}, "--rows", "host", "--nodes", "2")
    assert (rows[0]["what"], rows[0]["value"]) == ("host: node, 8 B, 2 nodes", 1.0)


def test_pairs_have_both_rivals(run_bench):
    rows, _ = run_bench(
        {"bench_shmemg_pairs": "echo put_hd_64 4 us\necho get_dh_64 2 GB/s\n"},
        "--rows",
        "pairs",
    )
    assert [(entry["what"], entry["rival"]) for entry in rows] == [
        ("put from host to GPU of another node, 64 B", "staged MPI"),
        ("put from host to GPU of another node, 64 B", "cudaMemcpy, one process"),
        ("put from host to GPU of another node, 64 B", "host to host"),
        ("get from GPU of another node to host, 64 B", "staged MPI"),
        ("get from GPU of another node to host, 64 B", "cudaMemcpy, one process"),
        ("get from GPU of another node to host, 64 B", "host to host"),
    ]


def test_pairs_of_the_host_executor_are_held_against_transfers_of_host_memory(run_bench):
    script = "echo put_hh_4 4 us\necho put_hd_4 7 us\necho get_hh_65536 2 GB/s\n"
    rows, _ = run_bench(
        {"bench_shmemg_pairs": script + "echo get_dd_65536 1.8 GB/s\n"},
        "--rows",
        "pairs",
        "--end",
        "",
    )
    assert [
        (entry["ratio"], entry["met"]) for entry in rows if entry["rival"] == "host to host"
    ] == [
        (1.75, False),
        (0.9, True),
    ]


def test_calls_of_kernels_are_held_against_those_of_the_host(run_bench):
    script = """echo "host_put_quiet_8 2 us"; echo "warp_put_quiet_8 5 us"
[ "$TND_PGAS_NODE" = 1 ] && echo "thread_put_quiet_8 9 us"\n"""
    rows, _ = run_bench({"bench_shmemg_unmapped_cuda": script}, "--rows", "unmapped")
    assert [(entry["what"], entry["rival_value"], entry["met"]) for entry in rows] == [
        ("put quiet by a warp's threads, unmapped, 8 B", 2.0, True),
        ("put quiet by a thread, unmapped, 8 B", 2.0, False),
    ]


def test_parts_of_a_whole_shrink_with_the_number_of_pes(run_bench):
    script = """words="$*"; echo "{\\"step_us\\": 5, \\"words\\": \\"$words\\"}"\n"""
    rows, _ = run_bench(
        {"stencil2d_cuda": script},
        *("--rows", "scaling", "--programs", "stencil2d", "--exchanges", "kernel", "--pes", "4"),
    )
    titles = [entry["what"] for entry in rows if entry["rival"] == "staged MPI"]
    assert titles == [
        f"stencil2d {kind}, by the kernel"
        for count in ("1 PE", "2 PEs", "4 PEs")
        for kind in (
            f"weak, 4096 x 4096 a PE, {count}",
            f"strong, 8192 x 8192 in all, {count}",
        )
    ]


def test_a_run_without_rows_fails(run_bench):
    with pytest.raises(subprocess.CalledProcessError) as failure:
        run_bench({"bench_shmemg_host_calls": "exit 1"}, "--rows", "host")
    assert "there is no row" in failure.value.stderr
