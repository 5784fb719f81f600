"""The device code of the package, compiled by NVRTC and linked for a GPU, on machines without one."""

import ctypes
import os
import re
import subprocess
import sys

import nvrtc
import pytest
from package import ROOT

CALLER = """
struct moved { int status; unsigned long long size; };
extern "C" __device__ int tnd_numba_GROUP_gread(moved *, unsigned long long, unsigned long long, int, unsigned long long,
                                             unsigned long long, unsigned long long);
extern "C" __global__ void caller(unsigned long long state, float *out) {
  __shared__ float numbers[64];
  moved done;
  tnd_numba_GROUP_gread(&done, state, 1000, 0, (unsigned long long)numbers, 0, sizeof numbers);
  out[threadIdx.x] = numbers[threadIdx.x % 64] + float(done.status);
}
"""
NUMBA_SCRIPT = ROOT / "tests/e2e/python/numba_compile.py"


def library(name):
    found = nvrtc.load(ROOT, name)
    if found is None:
        pytest.skip(f"lib{name} is not installed")
    return found


def example_source():
    text = (ROOT / "examples/python/cupy_read.py").read_text()
    return re.search(r'source_code = r"""(.*?)"""', text, re.S)[1]


def link(linker, *codes):
    """Size of the cubin for sm_90, or the error of nvJitLink."""
    handle = ctypes.c_void_p()
    words = [b"-arch=sm_90", b"-lto"]
    assert (
        linker.nvJitLinkCreate(
            ctypes.byref(handle), len(words), (ctypes.c_char_p * len(words))(*words)
        )
        == 0
    )
    try:
        failed = 0
        for index, code in enumerate(codes):  # 3: LTO-IR
            failed = failed or linker.nvJitLinkAddData(
                handle, 3, code, ctypes.c_size_t(len(code)), b"%d" % index
            )
        failed = failed or linker.nvJitLinkComplete(handle)
        size = ctypes.c_size_t()
        if not failed:
            linker.nvJitLinkGetLinkedCubinSize(handle, ctypes.byref(size))
            return size.value
        linker.nvJitLinkGetErrorLogSize(handle, ctypes.byref(size))
        text = ctypes.create_string_buffer(size.value)
        linker.nvJitLinkGetErrorLog(handle, text)
        return text.value.decode()
    finally:
        linker.nvJitLinkDestroy(ctypes.byref(handle))


def compile_lto(compiler, tanada, source):
    log, code = nvrtc.compile_source(
        compiler, source, "-dlto", "--relocatable-device-code=true", f"-I{tanada.include_dir()}"
    )
    assert log == "" and code
    return code


def test_the_source_of_the_cupy_example_compiles(tanada):
    compiler = library("nvrtc")
    assert nvrtc.compile_source(compiler, example_source(), f"-I{tanada.include_dir()}")[0] == ""
    wrong = example_source().replace("gopen(all, url, g_rdonly, &fd)", "gopen(all, url, &fd)")
    assert "gopen" in nvrtc.compile_source(compiler, wrong, f"-I{tanada.include_dir()}")[0]


@pytest.mark.parametrize(
    "group",
    ["block", *(pytest.param(group, marks=pytest.mark.slow) for group in ("thread", "warp"))],
)
def test_the_calls_of_numba_link_into_a_kernel(tanada, site, group):
    compiler, linker = library("nvrtc"), library("nvJitLink")
    calls = compile_lto(compiler, tanada, (site / "tanada/_numba.cu").read_text())
    kernel = compile_lto(compiler, tanada, CALLER.replace("GROUP", group))
    assert link(linker, kernel, calls) > 10_000
    absent = compile_lto(compiler, tanada, CALLER.replace("GROUP", "grid"))
    assert "tnd_numba_grid_gread" in link(linker, absent, calls)


def test_every_declared_call_is_defined(site):
    """Numba finds a missing name when a kernel is linked; this test finds it without Numba."""
    declared = set(
        re.findall(r'^        "(\w+)": ', (site / "tanada/numba/_calls.py").read_text(), re.M)
    )
    defined = set(
        re.findall(r"TND_CALL\(group, (\w+)\)\(", (site / "tanada/_numba.cu").read_text())
    )
    assert declared == defined and len(declared) == 12


def test_kernels_of_numba_compile_and_link(site):
    if subprocess.run(
        [sys.executable, "-c", "import numba.cuda, cuda.bindings"], capture_output=True
    ).returncode:
        pytest.skip("numba-cuda is not installed")
    done = subprocess.run(
        [sys.executable, NUMBA_SCRIPT],
        env={**os.environ, "PYTHONPATH": str(site)},
        text=True,
        capture_output=True,
        timeout=300,
    )
    assert done.returncode == 0 and "a strided buffer is refused" in done.stdout, (
        done.stdout + done.stderr
    )


def test_numba_without_a_driver_says_so(site):
    if subprocess.run(
        [sys.executable, "-c", "import numba.cuda, cuda.bindings"], capture_output=True
    ).returncode:
        expected = "pip install 'numba-cuda[cu13]'"
    else:
        expected = "needs a GPU"
    done = subprocess.run(
        [sys.executable, "-c", "import tanada.numba"],
        text=True,
        capture_output=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(site), "CUDA_VISIBLE_DEVICES": ""},
    )
    assert done.returncode == 1 and expected in done.stderr.splitlines()[-1]
