"""The FDTD program on several PEs: bitwise equal to one PE, its ends, and the demo."""

import json
import os
import pathlib
import subprocess
import time

import pytest
from conftest import BUILD, LIMIT_S, ROOT

SIZE = 35  # cells along each axis: not a multiple of any number of PEs here
OSHRUN = BUILD / "bin/oshrun"


def has_launcher():
    return (
        subprocess.run([OSHRUN, "--print", "-n", "2", "true"], capture_output=True).returncode == 0
    )


needs_launcher = pytest.mark.skipif(not has_launcher(), reason="there is no launcher")
pytestmark = needs_launcher


@pytest.fixture
def pes(program, environment, tmp_path):
    """pes(count): runs the program as a job of that many PEs."""

    def of(count):
        made = program("fdtd")
        path = made.path

        def command(words):
            return [
                OSHRUN,
                "--quiet",
                "-n",
                str(count),
                path,
                "--lines",
                "--size",
                str(SIZE),
                *map(str, words),
            ]

        class job:
            @staticmethod
            def run(*words, code=0):
                done = subprocess.run(
                    command(words),
                    cwd=tmp_path,
                    env=environment,
                    text=True,
                    capture_output=True,
                    timeout=LIMIT_S,
                )
                assert done.returncode == code, f"{done.returncode}\n{done.stdout}{done.stderr}"
                return done.stdout + done.stderr

            @staticmethod
            def start(*words):
                return subprocess.Popen(
                    command(words),
                    cwd=tmp_path,
                    env=environment,
                    text=True,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                )

        return job

    return of


def files(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


def run_alone(program, *words):
    return program("fdtd").pass_run("--size", SIZE, *words)


@pytest.mark.parametrize(
    "walls, count",
    [
        pytest.param("absorbing", 2, marks=pytest.mark.slow),
        pytest.param("absorbing", 3, marks=pytest.mark.slow),
        ("absorbing", 6),
        pytest.param("periodic", 2, marks=pytest.mark.slow),
        ("periodic", 3),
        ("conductor", 2),
        pytest.param("conductor", 3, marks=pytest.mark.slow),
    ],
)
def test_several_make_what_one_makes(program, pes, tmp_path, walls, count):
    """Compares every cell of every snapshot, and the picture. With six PEs a slab is thinner than
    an absorbing layer.
    """
    words = ["--steps", 120, "--snapshot-every", 15, "--boundary", walls]
    run_alone(program, *words, "--output", tmp_path / "one")
    output = pes(count).run(*words, "--output", tmp_path / "several")
    assert f"in slabs of {count} PEs" in output and "equals the field in every cell" in output
    assert len(files(tmp_path / "one/store")) == 9
    assert files(tmp_path / "several/store") == files(tmp_path / "one/store")
    assert (tmp_path / "several/field.png").read_bytes() == (
        tmp_path / "one/field.png"
    ).read_bytes()
    assert json.loads((tmp_path / "several/timings.json").read_text())["pes"] == count


@pytest.mark.parametrize("node", ["one", "strangers"])
@pytest.mark.parametrize(
    "walls, count",
    [
        ("absorbing", 2),
        pytest.param("absorbing", 4, marks=pytest.mark.slow),
        pytest.param("periodic", 2, marks=pytest.mark.slow),
        pytest.param("periodic", 4, marks=pytest.mark.slow),
        pytest.param("conductor", 2, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("exchange", ["stream", "kernel"])
def test_edges_by_kernels_make_the_same(
    program, pes, environment, tmp_path, exchange, walls, count, node
):
    """As above, with PEs whose devices are unmapped: the host carries out kernels' requests."""
    if node == "strangers":
        environment["TND_PGAS_NODE"] = "none"
    words = ["--steps", 60, "--snapshot-every", 15, "--boundary", walls]
    run_alone(program, *words, "--output", tmp_path / "one")
    output = pes(count).run(*words, "--output", tmp_path / "several", "--exchange", exchange)
    assert (
        f"in slabs of {count} PEs, edges by the {exchange}" in output
        and "equals the field in every cell" in output
    )
    assert files(tmp_path / "several/store") == files(tmp_path / "one/store")


@pytest.mark.parametrize("exchange", ["stream", "kernel"])
def test_edges_by_kernels_begin_again(program, pes, tmp_path, exchange):
    """Runs that clear the field; snapshots by threads, which also put between PEs."""
    run_alone(program, "--steps", 40, "--output", tmp_path / "one")
    (tmp_path / "snapshots").mkdir()
    pes(2).run(
        "--steps",
        40,
        "--output",
        tmp_path / "several",
        "--snapshots",
        tmp_path / "snapshots",
        "--compare",
        2,
        "--exchange",
        exchange,
    )
    one = files(tmp_path / "one/store")
    one.pop("material.map")
    assert files(tmp_path / "snapshots") == one


@pytest.mark.parametrize(
    "words",
    [[], ["--synchronous"], ["--buffers", 1], ["--buffers", 5]],
    ids=lambda words: "".join(map(str, words)) or "default",
)
def test_snapshots_by_threads(program, pes, tmp_path, words):
    run_alone(program, "--steps", 47, "--snapshot-every", 5, "--output", tmp_path / "one")
    (tmp_path / "snapshots").mkdir()
    pes(3).run(
        "--steps",
        47,
        "--snapshot-every",
        5,
        "--output",
        tmp_path / "several",
        "--snapshots",
        tmp_path / "snapshots",
        *words,
    )
    one = files(tmp_path / "one/store")
    one.pop("material.map")
    assert files(tmp_path / "snapshots") == one and len(one) == 10


def test_snapshots_in_a_pool_and_what_they_cost(program, pes, tmp_path, pool_daemon):
    run_alone(program, "--steps", 40, "--output", tmp_path / "one")
    output = pes(2).run(
        "--steps",
        40,
        "--output",
        tmp_path / "several",
        "--snapshots",
        f"{pool_daemon.url('fdtd')}/run",
        "--compare",
        3,
    )
    assert "against runs without snapshots" in output and output.count("share of time lost") == 1
    one = files(tmp_path / "one/store")
    one.pop("material.map")
    assert {
        name.removeprefix("run/"): content for name, content in pool_daemon.objects("fdtd").items()
    } == one


@pytest.mark.parametrize("what", ["cavity", "planewave"])
def test_theory(pes, what):
    assert pes(2).run("--validate", what).count("passed") == 1
    assert "FAILED" in pes(2).run("--validate", what, "--plant", "time-step", code=1)
    assert pes(2).run("--validate", what, "--exchange", "kernel").count("passed") == 1


@pytest.mark.parametrize("words", [[], ["--snapshots", "."]], ids=["kernels", "threads"])
def test_the_last_snapshot_of_all_is_compared(pes, tmp_path, words):
    """The cell that differs is the last PE's."""
    assert "differs from the field in 1 cells" in pes(3).run(
        "--steps", 20, "--output", tmp_path / "out", "--plant", "field", *words, code=1
    )


def test_every_store(pes, store, tmp_path):
    """Each process has its own mem store."""
    assert "equals the field in every cell" in pes(2).run(
        "--steps", 20, "--output", tmp_path / "out", "--store", store
    )


def test_a_target_that_is_not_there(pes, tmp_path):
    output = pes(2).run("--output", tmp_path / "out", "--snapshots", tmp_path / "absent", code=1)
    assert output.count("cannot write snapshots to") == 1 and "PE 0" in output


def test_a_daemon_that_goes_during_the_run(pes, environment, tmp_path, pool_daemon):
    """All of them end soon, and one reports the reason."""
    environment["TND_POOL_TIMEOUT"] = "1s"
    running = pes(2).start(
        "--steps", 100000, "--output", tmp_path / "out", "--snapshots", pool_daemon.url("fdtd")
    )
    try:
        deadline = time.monotonic() + 30
        while not pool_daemon.names("fdtd"):
            assert running.poll() is None and time.monotonic() < deadline
            time.sleep(0.02)
        pool_daemon.process.kill()
        output, _ = running.communicate(timeout=20)
    finally:
        running.kill()
        running.wait()
    assert (
        running.returncode == 1
        and output.count("the snapshot of step ") == 1
        and "TND_EPEER" in output
    )


def run_demo(tmp_path, **settings):
    environment = {
        **os.environ,
        "DEMO_BIN": str(BUILD / "bin"),
        "DEMO_STEPS": "20",
        "DEMO_OUTPUT": str(tmp_path / "demo"),
        **settings,
    }
    done = subprocess.run(
        [ROOT / "tools/demo.sh"], env=environment, text=True, capture_output=True, timeout=LIMIT_S
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for name in ("field.png", "field.gif", "timings.txt"):
        assert (tmp_path / "demo" / name).stat().st_size > 100
    return done.stdout


def test_the_demo_has_two_processes(tmp_path):
    output = run_demo(tmp_path, DEMO_PES="2", DEMO_ROUNDS="1")
    assert (
        "2 processes share the grid, started by" in output
        and "in slabs of 2 PEs" in output
        and "medians of 1 rounds" in output
    )
    assert "\r" not in output


def test_the_demo_without_a_launcher(tmp_path):
    output = run_demo(tmp_path, DEMO_PES="2", OSHRUN_LAUNCHER=str(pathlib.Path("/absent/mpirun")))
    assert (
        "demo: one process (oshrun: /absent/mpirun is not installed" in output
        and "slabs" not in output
    )
