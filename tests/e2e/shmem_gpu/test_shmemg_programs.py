"""The examples whose PEs exchange edges in every step, from device memory to device memory: their
own checks, by sender and by number of PEs, and with unmapped devices.
TND_SHMEMG_PROGRAMS="_cuda" runs those for GPUs.
"""

import os
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tools/mpi"), str(ROOT / "tests/conformance/shmem")]

import processes  # noqa: E402
import shmem_jobs  # noqa: E402

KIND = os.environ.get("TND_SHMEMG_PROGRAMS", "")
EXCHANGES = ["kernel", "stream", "host"]


@pytest.fixture(scope="module")
def jobs(tmp_path_factory):
    if reason := shmem_jobs.missing():
        pytest.skip(reason)
    if not (shmem_jobs.BUILD / f"bin/stencil2d{KIND}").exists():
        pytest.skip(f"{shmem_jobs.BUILD}/bin/stencil2d{KIND} is not there")
    return shmem_jobs.Jobs(tmp_path_factory.mktemp("shmemg"))


def run(jobs, name, pe_count, *words, **environment):
    command = [
        shmem_jobs.BIN / "oshrun",
        "-n",
        str(pe_count),
        shmem_jobs.BUILD / f"bin/{name}{KIND}",
        *map(str, words),
    ]
    return processes.run(command, jobs.environment(**environment), 120, patience_s=5)


def require_good(done):
    assert done.status == "passed", (
        f"{done.status}, {done.code}, {done.seconds:.1f} s\n{done.output[-4000:]}"
    )


@pytest.mark.parametrize("exchange", EXCHANGES)
@pytest.mark.parametrize("pe_count", [1, 2, 3, 4])
def test_stencil(jobs, pe_count, exchange):
    """Equal to the whole grid computed by one processor; 4 PEs have neighbours at corners."""
    require_good(
        run(
            jobs,
            "stencil2d",
            pe_count,
            "--rows",
            24,
            "--columns",
            17,
            "--steps",
            20,
            "--rounds",
            2,
            "--check",
            "--exchange",
            exchange,
        )
    )


@pytest.mark.parametrize("exchange", EXCHANGES)
@pytest.mark.parametrize("pe_count", [1, 2, pytest.param(3, marks=pytest.mark.slow)])
def test_fluid(jobs, pe_count, exchange):
    """Within a hundredth of Poiseuille's flow."""
    require_good(run(jobs, "lbm", pe_count, "--check", "--exchange", exchange))


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_stencil_between_devices_that_do_not_reach_one_another(jobs, exchange):
    require_good(
        run(
            jobs,
            "stencil2d",
            2,
            "--rows",
            12,
            "--columns",
            9,
            "--steps",
            10,
            "--check",
            "--exchange",
            exchange,
            TND_PGAS_NODE="none",
        )
    )


@pytest.mark.parametrize("pe_count", [1, 3])
def test_ring(jobs, pe_count):
    require_good(run(jobs, "device_ring", pe_count))


@pytest.mark.parametrize(
    "name,words", [("stencil2d", ["--plant", "corner"]), ("lbm", ["--plant", "force"])]
)
def test_an_error_put_in_is_found(jobs, name, words):
    sizes = ["--rows", 12, "--columns", 9, "--steps", 10] if name == "stencil2d" else []
    done = run(jobs, name, 2, *sizes, "--check", *words)
    assert done.status == "failed" and " off " in done.output, (
        f"{done.status}\n{done.output[-2000:]}"
    )
