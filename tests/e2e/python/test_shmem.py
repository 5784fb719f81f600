"""Arrays in the device heap, on the host executor: by themselves, and in the calls of an unmodified
shmem4py. The steps are in shmem_arrays.py.
"""

import os
import pathlib
import re
import subprocess
import sys

import pytest
from package import ROOT

pytest.importorskip("numpy")
sys.path.insert(0, str(ROOT / "tests/conformance/shmem"))

import shmem_jobs  # noqa: E402
from shmem_jobs import BIN, BUILD, processes  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
EXAMPLE = ROOT / "examples/python/shmem_halo.py"
HOST = {"TND_CUDA_PLUGIN": "/nowhere"}
GUARDED = {**HOST, "TND_HOST_DEVICE": "guarded"}


@pytest.fixture(scope="module")
def jobs(tmp_path_factory):
    if reason := shmem_jobs.missing():
        pytest.skip(reason)
    return shmem_jobs.Jobs(tmp_path_factory.mktemp("shmem"))


@pytest.fixture(scope="module")
def shmem4py(jobs):
    """The interpreter that has it."""
    return shmem_jobs.build_shmem4py()[0]


def run(jobs, site, pe_count, words, carrier="shared", **environment):
    here = {
        "LD_LIBRARY_PATH": f"{BUILD / 'lib'}:{BIN.parent / 'lib'}",
        "PYTHONPATH": str(site),
        **environment,
    }
    return processes.run(
        [BIN / "oshrun", "--quiet", "-n", str(pe_count), *map(str, words)],
        jobs.environment(carrier, **here),
        60,
    )


def passes(done, text, count):
    assert done.status == "passed", f"{done.status}, {done.code}\n{done.output[-4000:]}"
    assert len(re.findall(text, done.output)) == count, done.output[-4000:]


def test_without_shmem4py(jobs, site):
    passes(
        run(jobs, site, 2, [sys.executable, HERE / "shmem_arrays.py", "allocation"], **HOST),
        "allocation passed",
        2,
    )


@pytest.mark.slow  # the fixture compiles shmem4py
@pytest.mark.parametrize("pe_count", [1, 2])
@pytest.mark.parametrize(
    "name",
    [
        "allocation",
        "before",
        "by_hand",
        "calls",
        "interface",
        "left",
        "mistakes",
        "neighbours",
        "streams",
        "streams_without_kernels",
        "words",
    ],
)
def test_with_it(jobs, site, shmem4py, name, pe_count):
    passes(
        run(jobs, site, pe_count, [shmem4py, HERE / "shmem_arrays.py", name], **HOST),
        f"{name} passed",
        pe_count,
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["calls", "guarded", "mistakes", "words"])
def test_memory_that_host_code_does_not_reach(jobs, site, shmem4py, name):
    passes(
        run(jobs, site, 2, [shmem4py, HERE / "shmem_arrays.py", name], **GUARDED),
        f"{name} passed",
        2,
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["calls", "strangers", "streams"])
def test_devices_that_do_not_reach_one_another(jobs, site, shmem4py, name):
    passes(
        run(jobs, site, 2, [shmem4py, HERE / "shmem_arrays.py", name], carrier="fabric", **HOST),
        f"{name} passed",
        2,
    )


def test_a_heap_that_is_too_small(jobs, site):
    done = run(
        jobs,
        site,
        2,
        [sys.executable, "-c", "import tanada.shmem as s; s.init(); s.empty(1 << 26, 'u1')"],
        SHMEM_DEVICE_SYMMETRIC_SIZE="1m",
        **HOST,
    )
    assert (
        done.status == "failed"
        and "MemoryError: the device heap has no piece of 67108864 bytes" in done.output
    ), done.output[-2000:]


def test_without_the_library(site, tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    done = subprocess.run(
        [sys.executable, "-c", "import tanada.shmem"],
        env={**environment, "PYTHONPATH": str(site)},
        cwd=tmp_path,
        text=True,
        capture_output=True,
        timeout=60,
    )
    assert "ImportError: tanada.shmem needs libshmem" in done.stderr or done.returncode == 0, (
        done.stderr
    )  # it may be installed


@pytest.mark.slow
@pytest.mark.parametrize("pe_count", [1, 2, 3])
def test_the_example(jobs, site, shmem4py, pe_count):
    passes(
        run(jobs, site, pe_count, [shmem4py, EXAMPLE, "40"], **HOST),
        "the heat is what NumPy alone says",
        pe_count,
    )
