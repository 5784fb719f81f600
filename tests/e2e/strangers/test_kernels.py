"""The program of docs/kernels.md, built by the page's commands with only the installed files."""

import array
import pathlib
import re
import shutil

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
NVCC = shutil.which("nvcc") or (
    "/usr/local/cuda/bin/nvcc" if pathlib.Path("/usr/local/cuda/bin/nvcc").exists() else None
)


@pytest.fixture(scope="module")
def source():
    return re.search(r"```cuda\n(.*?)```", (ROOT / "docs/kernels.md").read_text(), re.DOTALL)[1]


def test_the_program_runs_on_the_host_executor(installed, source, tmp_path):
    program = installed.compile_c(
        tmp_path, source, "-x", "c++", "-std=c++20", "-Wall", "-Wextra", compiler="g++"
    )
    file = tmp_path / "numbers"
    file.write_bytes(array.array("f", range(4096)).tobytes())
    environment = installed.environment(TND_GFILE_DEVICE="host")
    del environment["LD_LIBRARY_PATH"]  # pkg-config's flags name the library's folder
    installed.must(program, file, env=environment)
    assert array.array("f", file.read_bytes()).tolist() == [2.0 * i for i in range(4096)]
    done = installed.run(program, tmp_path / "missing", env=environment)
    assert done.returncode == 1 and "missing" in done.stderr, done.stderr


@pytest.mark.slow
@pytest.mark.skipif(NVCC is None, reason="no nvcc")
def test_the_program_is_taken_by_nvcc(installed, source, tmp_path):
    (tmp_path / "twice.cu").write_text(source)
    installed.must(
        NVCC,
        "-std=c++17",
        "-arch=sm_90",
        "-c",
        f"-I{installed.path / 'include'}",
        tmp_path / "twice.cu",
        "-o",
        tmp_path / "twice.o",
    )
