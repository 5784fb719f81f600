"""tools/venv.sh and similar scripts without a network, with a folder of wheels, and with neither.
The index is a closed port.
"""

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import time
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/conformance/shmem"))

import shmem_jobs  # noqa: E402

CLOSED = "http://127.0.0.1:9/simple"
NAME, VERSION = "tndempty", "1.0"


def wheel(folder):
    """A minimal package."""
    folder.mkdir()
    info = f"{NAME}-{VERSION}.dist-info"
    with zipfile.ZipFile(folder / f"{NAME}-{VERSION}-py3-none-any.whl", "w") as packed:
        packed.writestr(f"{NAME}.py", "")
        packed.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {VERSION}\n"
        )
        packed.writestr(
            f"{info}/WHEEL",
            "Wheel-Version: 1.0\nGenerator: us\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        packed.writestr(
            f"{info}/RECORD", f"{NAME}.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n"
        )
    return folder


@pytest.fixture
def tree(tmp_path):
    """Only the scripts, with one package to install, in a folder with a blank."""
    target = tmp_path / "some where"
    shutil.copytree(ROOT / "tools", target / "tools")
    (target / "tools/requirements.txt").write_text(f"{NAME}=={VERSION}\n")
    installer = target / "tools/mpi/install.sh"
    text = installer.read_text()
    assert "mpich5|mpich==" in text
    lines = [
        f"mpich5|{NAME}=={VERSION}" if line.startswith("mpich5|") else line
        for line in text.splitlines()
    ]
    installer.write_text("\n".join(lines) + "\n")
    return target


# Both create their environments by tools/environment.sh, which takes most of a test's time.
BY_BOTH = pytest.mark.parametrize(
    "command, folder",
    [
        (["tools/venv.sh"], ".venv"),
        pytest.param(
            ["tools/mpi/install.sh", "mpich5"], ".venv-mpi/mpich5", marks=pytest.mark.slow
        ),
    ],
)


def run(tree, *command, **variables):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    return subprocess.run(
        command,
        cwd=tree,
        capture_output=True,
        text=True,
        timeout=300,
        env={**clean, "PIP_INDEX_URL": CLOSED, "PIP_CONFIG_FILE": os.devnull, **variables},
    )


@BY_BOTH
def test_without_an_index_it_fails_soon_and_leaves_nothing(tree, command, folder):
    begin = time.monotonic()
    done = run(tree, *command)
    assert done.returncode == 1 and "PIP_FIND_LINKS=FOLDER" in done.stderr and done.stdout == "", (
        done.stderr
    )
    assert (
        time.monotonic() - begin < 120
    )  # 6 s on an idle machine, mostly for creating the environment
    assert not (tree / folder).exists()


@pytest.mark.slow
@BY_BOTH
def test_a_folder_of_wheels_is_enough(tree, tmp_path, command, folder):
    wheels = wheel(tmp_path / "all wheels")
    done = run(tree, *command, PIP_FIND_LINKS=str(wheels))
    assert done.returncode == 0, done.stderr
    subprocess.run([tree / folder / "bin/python", "-c", f"import {NAME}"], check=True, timeout=60)


def test_the_tests_say_that_the_python_tests_did_not_run(tree):
    for script in ("setup.sh", "build.sh"):
        (tree / "tools" / script).write_text("#!/bin/sh\n")
    for script in ("venv.sh", "mpi/install.sh"):
        (tree / "tools" / script).write_text("#!/bin/sh\nexit 1\n")
    stub = tree / "stubs/ctest"
    stub.parent.mkdir()
    stub.write_text("#!/bin/sh\n")
    stub.chmod(0o755)
    done = run(tree, "tools/test.sh", "dev", PATH=f"{stub.parent}:{os.environ['PATH']}")
    assert done.returncode == 1 and "going on without MPICH 5" in done.stderr
    assert "the Python tests did not run: their packages are missing" in done.stderr, done.stderr


def test_shmem4py_in_a_folder_with_a_blank_is_found_by_its_lines(tree, monkeypatch):
    """An existing environment, so that nothing is downloaded; its oshcc has no header."""
    script = tree / "tools/shmem4py.sh"
    oshcc, built = tree / "build/bin/oshcc", tree / "build/shmem4py"
    oshcc.parent.mkdir(parents=True)
    oshcc.write_text("#!/bin/sh\nexec cat >/dev/null\n")
    oshcc.chmod(0o755)
    built.mkdir()
    (built / f"made-of-{hashlib.sha256(script.read_bytes()).hexdigest()[:16]}").touch()
    done = run(tree, script, oshcc.parent)
    assert done.returncode == 0, done.stderr
    monkeypatch.setattr(shmem_jobs, "ROOT", tree)
    monkeypatch.setattr(shmem_jobs, "BIN", oshcc.parent)
    interpreter, tests = shmem_jobs.build_shmem4py()
    assert interpreter == str(built / "venv/bin/python") and tests.parent.parent == built


def test_packing_shmem4py_of_a_folder_with_a_blank_finds_its_interpreter(tree):
    target, bin_folder = tree / "packed here", tree / "build/bin"
    for folder in (target / "bin", target / "wheels", bin_folder):
        folder.mkdir(parents=True)
    (target / "bin/oshrun").touch()
    venv = tree / "build/a venv"
    package = venv / "lib/python3.11/site-packages/shmem4py"
    package.mkdir(parents=True)
    (package / "api.so").touch()
    (venv / "bin").mkdir()
    (venv / "bin/pip").write_text("#!/bin/sh\n")
    (venv / "bin/pip").chmod(0o755)
    lines = f"printf '%s\\n' '{venv}/bin/python' '{venv}/test'"
    (tree / "tools/shmem4py.sh").write_text(f"#!/bin/sh\n{lines}\n")
    done = run(tree, "tools/gpu/pack_shmem_python.sh", tree / "build", target)
    assert (target / "shmem4py/shmem4py/api.so").exists(), done.stderr
