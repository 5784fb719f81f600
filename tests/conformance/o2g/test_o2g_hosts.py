"""Unmodified MPI programs over o2g on several hosts, each a network namespace of its own.

In one test 64 ranks all connect to one another at once, in others a cable is cut.
TND_O2G_PROVIDER names the folder of libo2g-fi.so, by default the build's lib."""

import os
import pathlib
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tools/mpi"))

import link  # noqa: E402
import processes  # noqa: E402
import setups  # noqa: E402
from talk import Talk  # noqa: E402

PROGRAMS = pathlib.Path(__file__).resolve().parent / "programs"
BUILD = pathlib.Path(os.environ.get("TANADA_BUILD", ROOT / "build/dev"))
PROVIDER = pathlib.Path(os.environ.get("TND_O2G_PROVIDER", BUILD / "lib"))
HOST_COUNT = int(os.environ.get("TND_TEST_O2G_COUNT", "64"))
LIMIT = 240  # seconds, on a busy machine
PATIENCE = 60  # seconds by which a busy machine may be late


@pytest.fixture(scope="module")
def setup():
    found = next(each for each in setups.setups(PROVIDER) if each.name == "mpich5 o2g")
    reason = found.missing() or link.missing(("ip", "unshare"))
    if reason:
        pytest.skip(reason)
    return found


@pytest.fixture(scope="module")
def build(setup, tmp_path_factory):
    folder = tmp_path_factory.mktemp("programs")

    def built(name):
        program = folder / name
        done = subprocess.run(
            setup.compile(PROGRAMS / f"{name}.c", program),
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return program

    return built


def launch(setup, hosts, program, words, environment):
    command = setup.launch(len(hosts.hosts), program, *words, hosts=hosts.hosts, agent=hosts.agent)
    return processes.run(
        hosts.inside(command),
        {**setup.all_environment(), **environment},
        LIMIT,
        patience_s=PATIENCE,
    )


@pytest.fixture(scope="module")
def bridge(setup):
    with link.Bridge(HOST_COUNT) as hosts:
        yield hosts


@pytest.mark.parametrize("engine", ["epoll", pytest.param("io_uring", marks=pytest.mark.slow)])
def test_all_connect_to_all(setup, build, bridge, engine):
    done = launch(setup, bridge, build("storm"), ["2"], {"TND_STREAM_ENGINE": engine})
    assert done.status == "passed" and f"ranks {HOST_COUNT}" in done.output, (
        f"{done.status}: {done.output[-3000:]}"
    )
    assert done.left == 0


@pytest.fixture
def cable(setup):
    with link.Cable() as hosts:
        yield hosts


def talk_over(setup, cable, program, folder, lost_after_s):
    # The launcher communicates over the bridge, which the cut does not affect.
    environment = {"TND_O2G_INTERFACE": cable.CABLE, "TND_O2G_LOST_AFTER": f"{lost_after_s}s"}
    return Talk(lambda words: launch(setup, cable, program, words, environment), folder, PATIENCE)


def test_a_short_cut_heals(setup, build, cable, tmp_path):
    with talk_over(setup, cable, build("cable"), tmp_path, lost_after_s=PATIENCE) as talk:
        talk.cut_for_a_while(cable)
        done = talk.finish()
    assert done.status == "passed" and "all rounds" in done.output, (
        f"{done.status}: {done.output[-3000:]}"
    )
    assert done.left == 0


# MPICH ends the job when a connection is lost, whatever the program's error handler. Either rank
# may detect the loss first: one sees its own interface go down, the other receives nothing more.
# o2g_process tests each case separately.
def test_a_cut_ends_the_job(setup, build, cable, tmp_path):
    lost_after_s = 4
    with talk_over(setup, cable, build("cable"), tmp_path, lost_after_s) as talk:
        cable.cut()
        start = time.monotonic()
        done = talk.run.result()
        seconds = time.monotonic() - start
    assert done.status == "failed" and "Connection reset by peer" in done.output, (
        f"{done.status}: {done.output[-3000:]}"
    )
    assert lost_after_s / 2 < seconds < lost_after_s + PATIENCE, done.output[-3000:]
    assert done.left == 0
