"""Unmodified MPI programs over o2g, under every MPI that tools/mpi/install.sh makes.

TND_MPI_SETUPS selects other set-ups than o2g's by words of their names. For example,
`TND_MPI_SETUPS="openmpi5 btl"` shows that the programs themselves are correct. TND_O2G_PROVIDER
names the folder of libo2g-fi.so, by default the build's lib."""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tools/mpi"))

import processes  # noqa: E402
import setups  # noqa: E402

PROGRAMS = pathlib.Path(__file__).resolve().parent / "programs"
BUILD = pathlib.Path(os.environ.get("TANADA_BUILD", ROOT / "build/dev"))
PROVIDER = pathlib.Path(os.environ.get("TND_O2G_PROVIDER", BUILD / "lib"))
WORDS = [word for word in os.environ.get("TND_MPI_SETUPS", "o2g").split(",") if word]
SETUPS = [each for each in setups.setups(PROVIDER) if any(word in each.name for word in WORDS)]
LIMIT_S = 300  # of a program on a busy machine, where each message may wait for a processor
# program, ranks, options
RUNS = [
    ("order", 3, []),
    ("probes", 3, []),
    ("modes", 2, []),
    ("datatypes", 2, []),
    ("communicators", 4, []),
    ("collectives", 4, []),
    ("collectives", 3, []),
    ("onesided", 3, []),
    ("polling", 2, []),
    ("threads", 2, ["exchange"]),
    ("threads", 2, ["share"]),
    ("large", 2, ["64"]),
    ("unexpected", 2, ["66"]),
    ("unexpected", 2, ["10000"]),
    ("unexpected", 2, ["300", "100000"]),
]

# Programs that an MPI cannot run over any transport, with the reason.
LIMITS = {
    (
        "openmpi4 o2g",
        "threads share",
    ): "Open MPI 4.1 hangs in it over libfabric's tcp;ofi_rxm as well"
}


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """Return a function that compiles a program for a set-up's MPI, once."""
    folder = tmp_path_factory.mktemp("programs")

    def build(setup, name):
        program = folder / f"{name}.{setup.mpi.name}"
        if not program.exists():
            done = subprocess.run(
                setup.compile(PROGRAMS / f"{name}.c", program, "-pthread"),
                capture_output=True,
                text=True,
                timeout=120,
            )
            assert done.returncode == 0, done.stderr
        return program

    return build


# With Open MPI `make test` runs only these programs. With MPICH 5 it runs all, but not all sizes.
OPENMPI_CORE = {"order", "probes", "large", "threads", "collectives-3"}
MPICH_SLOW = {"collectives-3", "unexpected-2-66", "unexpected-2-300-100000"}


def runs_of_all():
    for each in SETUPS:
        for name, ranks, words in RUNS:
            names = {name, f"{name}-{ranks}", "-".join([name, str(ranks), *words])}
            is_core = (
                not OPENMPI_CORE.isdisjoint(names)
                if each.mpi.is_openmpi
                else MPICH_SLOW.isdisjoint(names)
            )
            yield pytest.param(
                each,
                name,
                ranks,
                words,
                marks=[pytest.mark.slow] * (not is_core),
                id="-".join(map(str, (each.name.replace(" ", "_"), name, ranks, words))),
            )


@pytest.fixture(params=SETUPS, ids=lambda each: each.name.replace(" ", "_"))
def setup(request):
    reason = request.param.missing()
    if reason:
        pytest.skip(reason)
    return request.param


def finish(setup, command):
    done = processes.run(command, setup.all_environment(), LIMIT_S)
    assert done.status == "passed", (
        f"{setup.name}: {done.status} after {done.seconds:.0f} s\n{done.output[-3000:]}"
    )


@pytest.mark.parametrize("setup, name, ranks, words", runs_of_all(), indirect=["setup"])
def test_program(setup, built, name, ranks, words):
    reason = LIMITS.get((setup.name, " ".join([name, *words])))
    if reason:
        pytest.skip(reason)
    finish(setup, setup.launch(ranks, built(setup, name), *words))


@pytest.mark.slow  # minutes; provider_nonblocking_test counts the sleeps of polls
def test_shared_memory_is_not_slept_through(setup, built):
    """MPICH polls o2g also while ranks of a node exchange messages through shared memory.

    A poll that slept would delay each of those messages."""
    if setup.mpi.is_openmpi or "o2g" not in setup.name:
        pytest.skip("no other carrier is polled beside o2g")
    environment = {
        name: value
        for name, value in setup.all_environment().items()
        if name != "MPIR_CVAR_NOLOCAL"
    }
    # The limit is relative to a run without sleeps, since a busy machine delays both.
    launch = setup.launch(2, built(setup, "neighbours"))
    awake = processes.run(launch, {**environment, "TND_O2G_SLEEP_MAX": "0ns"}, 800)
    assert awake.status == "passed", (
        f"{awake.status} after {awake.seconds:.0f} s\n{awake.output[-3000:]}"
    )
    done = processes.run(launch, environment, int(4 * awake.seconds) + 55)
    assert done.status == "passed", (
        f"{done.status} after {done.seconds:.0f} s\n{done.output[-3000:]}"
    )


def test_mpi4py(setup):
    if not pathlib.Path(setup.mpi.python).exists():
        pytest.skip(f"{setup.mpi.python} is not there: tools/mpi/install.sh")
    finish(setup, setup.launch(3, setup.mpi.python, str(PROGRAMS / "objects.py")))


def test_a_wrong_result_is_seen(setup, built, tmp_path):
    """A failed check of a program fails the run. The other tests rely on this."""
    source = tmp_path / "wrong.c"
    source.write_text(
        f'#include "{PROGRAMS}/check.h"\n'
        "int main(int count, char **words) { MPI_Init(&count, &words); REQUIRE(own_rank() == 0); MPI_Finalize(); }\n"
    )
    program = tmp_path / "wrong"
    subprocess.run(setup.compile(source, program), check=True, timeout=60)
    done = processes.run(setup.launch(2, program), setup.all_environment(), 60)
    assert done.status == "failed" and "own_rank() == 0 does not hold" in done.output
