import os
import pathlib
import shutil
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))


@pytest.fixture
def tree_copy(tmp_path):
    """A copy of the tree, to plant bugs in."""
    target = tmp_path / "tree"
    made = shutil.ignore_patterns("build", ".git", ".venv*", "__pycache__")
    shutil.copytree(ROOT, target, symlinks=True, ignore=made)
    return target


@pytest.fixture(scope="session")
def build_folder():
    """The build under test: $TANADA_BUILD, which `make test` sets."""
    return pathlib.Path(os.environ.get("TANADA_BUILD", ROOT / "build/dev"))
