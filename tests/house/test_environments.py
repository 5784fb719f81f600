"""tools/venv.sh and its like without a network, with a folder of wheels, and with neither. The index is a closed port."""

import os
import pathlib
import shutil
import subprocess
import time
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLOSED = "http://127.0.0.1:9/simple"
NAME, VERSION = "tndempty", "1.0"


def wheel(folder):
    """The smallest package there is."""
    folder.mkdir()
    info = f"{NAME}-{VERSION}.dist-info"
    with zipfile.ZipFile(folder / f"{NAME}-{VERSION}-py3-none-any.whl", "w") as packed:
        packed.writestr(f"{NAME}.py", "")
        packed.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {VERSION}\n")
        packed.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: us\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        packed.writestr(f"{info}/RECORD", f"{NAME}.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")
    return folder


@pytest.fixture
def tree(tmp_path):
    """The scripts alone, with one package to install, in a folder with a blank."""
    target = tmp_path / "some where"
    shutil.copytree(ROOT / "tools", target / "tools")
    (target / "tools/requirements.txt").write_text(f"{NAME}=={VERSION}\n")
    installer = target / "tools/mpi/install.sh"
    text = installer.read_text()
    assert "mpich5|mpich==" in text
    lines = [f"mpich5|{NAME}=={VERSION}" if line.startswith("mpich5|") else line for line in text.splitlines()]
    installer.write_text("\n".join(lines) + "\n")
    return target


def run(tree, *command, **variables):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    return subprocess.run(command, cwd=tree, capture_output=True, text=True, timeout=300,
                          env={**clean, "PIP_INDEX_URL": CLOSED, "PIP_CONFIG_FILE": os.devnull, **variables})


@pytest.mark.parametrize("command, folder", [(["tools/venv.sh"], ".venv"), (["tools/mpi/install.sh", "mpich5"], ".venv-mpi/mpich5")])
def test_without_an_index_it_fails_soon_and_leaves_nothing(tree, command, folder):
    begin = time.monotonic()
    done = run(tree, *command)
    assert done.returncode == 1 and "PIP_FIND_LINKS=FOLDER" in done.stderr and done.stdout == "", done.stderr
    assert time.monotonic() - begin < 120  # 6 s on an idle machine, most of it making the environment
    assert not (tree / folder).exists()


@pytest.mark.parametrize("command, folder", [(["tools/venv.sh"], ".venv"), (["tools/mpi/install.sh", "mpich5"], ".venv-mpi/mpich5")])
def test_a_folder_of_wheels_is_enough(tree, tmp_path, command, folder):
    wheels = wheel(tmp_path / "all wheels")
    done = run(tree, *command, PIP_FIND_LINKS=str(wheels))
    assert done.returncode == 0, done.stderr
    subprocess.run([tree / folder / "bin/python", "-c", f"import {NAME}"], check=True, timeout=60)


def test_the_tests_say_that_the_python_tests_did_not_run(tree):
    for script in ("build.sh",):
        (tree / "tools" / script).write_text("#!/bin/sh\n")
    stub = tree / "stubs/ctest"
    stub.parent.mkdir()
    stub.write_text("#!/bin/sh\n")
    stub.chmod(0o755)
    done = run(tree, "tools/test.sh", "dev", PATH=f"{stub.parent}:{os.environ['PATH']}")
    assert done.returncode == 1 and "going on without MPICH 5" in done.stderr
    assert "the Python tests did not run: their packages are missing" in done.stderr, done.stderr
