"""The examples, and tests that need a GPU, each in a separate process. TANADA_SITE: the installed
package.
"""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from package import ROOT

GPU = (
    shutil.which("nvidia-smi")
    and subprocess.run(["nvidia-smi", "-L"], capture_output=True).returncode == 0
)
pytestmark = pytest.mark.skipif(not GPU, reason="no GPU here")

NUMBA_ERRORS = """
import math, numpy as np, tanada
from numba import cuda
from tanada.numba import block, g_rdonly, gopen, url

@cuda.jit
def open_it(files, name, status):
    status[cuda.grid(1)] = gopen(files, name, g_rdonly).status

@cuda.jit
def read_it(files, name, out, status):
    opened = block.gopen(files, name, g_rdonly)
    too_much = block.gread(files, opened.fd, out, 0, out.nbytes + 1).status
    done = block.gread(files, opened.fd, out, 3, out.nbytes)
    closed = block.gclose(files, opened.fd)
    if cuda.grid(1) == 0:
        status[0], status[1], status[2], status[3] = opened.status, too_much, done.status, closed

@cuda.jit
def sleep_for_a_second(done):
    for _ in range(1000):
        cuda.nanosleep(np.uint32(1000000))
    done[0] = 1

with tanada.gfile.session(page_size=4096, timeout=5) as files:
    assert files.statistics().is_cuda
    status = cuda.to_device(np.zeros(64, np.int32))
    open_it[2, 32](files.ref, url("/nowhere/at/all"), status)
    files.wait(10)
    print("status", sorted(set(status.copy_to_host().tolist())), "fault", files.fault().site.name, files.fault().status)
    content = (np.arange(10000) % 251).astype(np.uint8)
    content.tofile("data")
    out = cuda.to_device(np.zeros(5000, np.uint8))
    read_it[1, 64](files.ref, url("data"), out, status)
    files.wait(10)
    print("read", status.copy_to_host()[:4].tolist(), bool((out.copy_to_host() == content[3:5003]).all()))
    sleep_for_a_second[1, 1](status)
    try:
        files.wait(0.1)
    except tanada.Error as error:
        print("wait", error.name)
    files.wait(10)
"""


def python(*words, site, folder):
    environment = {key: value for key, value in os.environ.items() if key != "TND_GFILE_DEVICE"}
    environment["PYTHONPATH"] = os.pathsep.join([str(site), environment.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, *map(str, words)],
        cwd=folder,
        env=environment,
        text=True,
        capture_output=True,
        timeout=240,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("example", ["numba_read", "cupy_read"])
@pytest.mark.parametrize("folder", ["disk", "memory"])
def test_an_example(site, tmp_path, example, folder):
    pytest.importorskip("numba.cuda" if example == "numba_read" else "cupy")
    where = tmp_path if folder == "disk" else pathlib.Path("/dev/shm")
    count = 16 << 20
    output = python(
        ROOT / "examples/python" / f"{example}.py", where, count, site=site, folder=tmp_path
    )
    assert "is_cuda=True" in output and f"read_size={2 * 4 * count}" in output
    assert output.splitlines()[-1].startswith("the kernels' sum is ")


def test_a_file_that_a_kernel_of_numba_made(site, tmp_path):
    pytest.importorskip("numba.cuda")
    output = python(
        ROOT / "examples/python/numba_read.py", "mem://here", 1 << 20, site=site, folder=tmp_path
    )
    assert f"write_size={4 * (1 << 20) + 64 * 8}" in output


def test_errors_in_kernels_of_numba(site, tmp_path):
    pytest.importorskip("numba.cuda")
    output = python("-c", NUMBA_ERRORS, site=site, folder=tmp_path)
    assert output.splitlines() == [
        "status [-2] fault OPEN -2",
        "read [0, -22, 0, 0] True",
        "wait ETIMEDOUT",
    ]
