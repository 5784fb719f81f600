"""The suite of a real cluster that fails: a short form of it, and faults that it must find."""

import json
import pathlib
import subprocess
import sys

import cluster_faults
import pytest
from commands import BUILD, environment

PROGRAM = pathlib.Path(__file__).with_name("cluster_faults.py")
LIMIT_S = 800


def run(folder, *words):
    """The exit status, what was printed, and the result."""
    result = folder / "result.json"
    process = subprocess.Popen(
        [sys.executable, PROGRAM, "--json", result, *map(str, words)],
        env=environment(TANADA_BUILD=str(BUILD), TMPDIR=str(folder)),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        output, _ = process.communicate(timeout=LIMIT_S)
    finally:
        process.kill()
    if process.returncode == 77:
        pytest.skip(output)
    document = json.loads(result.read_text()) if result.exists() else {}
    return process.returncode, output, document


@pytest.mark.slow
def test_a_cluster_survives_one_of_each_fault(tmp_path):
    code, output, document = run(tmp_path, "--kills", 1, "--seed", 7, "--lease", 4)
    assert code == 0, output
    counts = {row["fault"]: row["count"] for row in document["faults"]}
    expected = set(cluster_faults.OTHER_FAULTS)
    if "delay is left out" in output:
        expected.remove("delay")
    assert expected <= set(counts), counts
    assert len(document["kills"]) == 6 and set(document["kills"].values()) == {1}, document
    assert document["checked_operations"] > 500 and document["problem"] is None
    assert document["checked_objects"] > 100


def test_a_loss_of_the_only_copy_is_found(tmp_path):
    words = ("--kills", 1, "--copies", 1, "--memory-only", "--faults", "kill", "--lease", 4)
    code, output, document = run(tmp_path, *words)
    assert code == 1 and ("are lost" in output or "not linearizable" in output), output
    assert document["problem"]


def test_bytes_of_a_stranger_are_found(tmp_path):
    words = ("--kills", 1, "--memory-only", "--faults", "stranger", "--lease", 4)
    code, output, _ = run(tmp_path, *words)
    is_found = "bytes that nobody put" in output or "not linearizable" in output
    assert code == 1 and is_found, output
