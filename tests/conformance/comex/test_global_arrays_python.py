"""Global Arrays' unmodified Python module (source in TND_GA4PY), built by the commands in the docs."""

import os
import pathlib
import re
import shutil
import subprocess

import comex_jobs
import global_arrays
import pytest

SOURCE = os.environ.get("TND_GA4PY")
NEEDS = ("cython3", "python3-config")
PYTHON = "/usr/bin/python3"  # its mpi4py was built for the MPI of mpicc


def missing():
    if SOURCE is None:
        return "TND_GA4PY names no source of github.com/GlobalArrays/ga4py"
    if lacking := [each for each in NEEDS if not shutil.which(each)]:
        return f"there is no {lacking[0]}: apt-get install cython3 python3-dev"
    found = subprocess.run([PYTHON, "-c", "import mpi4py, numpy"], capture_output=True)
    return (
        None
        if found.returncode == 0
        else f"{PYTHON} has no mpi4py or numpy: apt-get install python3-mpi4py python3-numpy"
    )


@pytest.fixture(scope="module")
def module(build, tmp_path_factory):
    """The folder of ga.so."""
    if reason := missing():
        pytest.skip(reason)
    lines = re.search(
        r"^sed 's/\^import __builtin__/.*?(?=^mpirun)",
        (comex_jobs.ROOT / "docs/comex.md").read_text(),
        re.DOTALL | re.MULTILINE,
    )[0]
    folder = tmp_path_factory.mktemp("ga4py")
    (folder / "ga4py").symlink_to(pathlib.Path(SOURCE).resolve() / "ga4py")
    (folder / "prefix").mkdir()
    (folder / "prefix/lib").symlink_to(comex_jobs.LIB)
    done = subprocess.run(
        ["sh", "-ec", lines],
        cwd=folder,
        env={
            **os.environ,
            "PATH": f"/usr/bin:{os.environ['PATH']}",
            "PREFIX": str(folder / "prefix"),
            "GA": str(build.parent / "prefix"),
        },
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


@pytest.mark.parametrize("rank_count", [1, 2, 4])
def test_arrays_from_python(module, rank_count):
    shutil.copy(comex_jobs.PROGRAMS / "ga_python.py", module)
    done = global_arrays.run_ranks(
        pathlib.Path(PYTHON),
        rank_count,
        [module / "ga_python.py"],
        settings={"PYTHONPATH": str(module)},
    )
    assert done.status == "passed" and done.left == 0, (
        f"{done.status}, {done.code}\n{done.output[-3000:]}"
    )
    assert f"agrees: {rank_count} ranks" in done.output
